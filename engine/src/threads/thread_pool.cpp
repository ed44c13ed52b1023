#include "threads/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "error.h"
#include "threads/affinity.h"

namespace mpe {
namespace {

// Layers follow one another within microseconds, so a short spin saves most system calls; a longer
// one would only take the core from other programs.
constexpr std::chrono::microseconds kSpin{30};
constexpr int kPollsPerClock = 32;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `value` is no longer `old`: spins if asked to, then sleeps in the kernel.
template <typename T>
T wait_for_change(const std::atomic<T>& value, T old, bool spin) {
  if (spin) {
    const auto deadline = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int poll = 0; poll < kPollsPerClock; ++poll) {
        const T now = value.load(std::memory_order_acquire);
        if (now != old) return now;
        relax();
      }
    } while (std::chrono::steady_clock::now() < deadline);
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

struct Slice {
  int begin;
  int end;
};

// The part of [0, count) that belongs to `thread`: sizes differ by one at most, the first are the
// larger ones.
Slice slice_of(int count, int thread, int threads) {
  const int size = count / threads;
  const int larger = count % threads;
  const auto bound = [&](int index) { return index * size + std::min(index, larger); };
  return {bound(thread), bound(thread + 1)};
}

}  // namespace

struct ThreadPool::State {
  State(int threads_, std::span<const int> cores_, PartEnded part_ended_)
      : threads(threads_), cores(cores_.begin(), cores_.end()), part_ended(part_ended_) {
    // With more threads than cores a spinning thread keeps a working one from running.
    const unsigned cores = std::thread::hardware_concurrency();
    spin = cores == 0 || static_cast<unsigned>(threads) <= cores;
  }

  void work(int thread) {
    std::optional<PinnedThread> pinned;
    if (!cores.empty()) {
      try {
        pinned.emplace(cores[static_cast<std::size_t>(thread)]);
      } catch (...) {
        const std::lock_guard lock(refusal_mutex);
        refusal = std::current_exception();
      }
    }
    std::uint32_t seen = 0;
    for (;;) {
      seen = wait_for_change(generation, seen, spin);
      if (stop) return;
      const Slice slice = slice_of(count, thread, threads);
      function(context, thread, slice.begin, slice.end);
      if (remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) remaining.notify_one();
    }
  }

  // Makes all writes to the members below visible to the workers.
  void release_workers() {
    remaining.store(threads - 1, std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
  }

  void shut_down() {
    stop = true;
    release_workers();
    for (std::thread& worker : workers) worker.join();
  }

  const int threads;
  const std::vector<int> cores;
  const PartEnded part_ended;  // null: workers have been started
  std::optional<PinnedThread> caller;
  std::mutex refusal_mutex;  // only while threads start
  std::exception_ptr refusal;
  bool spin = true;
  bool stop = false;
  int count = 0;
  Function function = nullptr;
  void* context = nullptr;
  // Apart, so that workers that finish do not disturb those that still wait for work.
  alignas(64) std::atomic<std::uint32_t> generation{0};
  alignas(64) std::atomic<int> remaining{0};
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads, std::span<const int> cores, PartEnded part_ended) {
  if (threads < 1 || threads > kMaxThreads) {
    throw Error("the number of threads is " + std::to_string(threads) +
                "; give one between 1 and " + std::to_string(kMaxThreads));
  }
  if (!cores.empty() && cores.size() < static_cast<std::size_t>(threads)) {
    throw Error(std::to_string(threads) + " threads need as many cores to stay on, not " +
                std::to_string(cores.size()));
  }
  state_ = std::make_unique<State>(threads, cores, part_ended);
  if (part_ended != nullptr) return;
  state_->workers.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int thread = 1; thread < threads; ++thread) {
      state_->workers.emplace_back([state = state_.get(), thread] { state->work(thread); });
    }
  } catch (const std::system_error& error) {
    state_->shut_down();
    throw Error("the system could not start " + std::to_string(threads) + " threads (" +
                error.what() + "); ask for fewer");
  }
  if (cores.empty()) return;
  // Once every worker has taken part, all have tried to stay on their cores.
  parallel_for(threads, [](int, int, int) {});
  try {
    if (state_->refusal) std::rethrow_exception(state_->refusal);
    state_->caller.emplace(cores[0]);
  } catch (...) {
    state_->shut_down();
    throw;
  }
}

ThreadPool::~ThreadPool() { state_->shut_down(); }

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(int count, Function function, void* context) {
  State& state = *state_;
  if (state.threads == 1) {
    function(context, 0, 0, count);
    return;
  }
  if (state.part_ended != nullptr) {
    state.part_ended(kAlone);
    for (int thread = 0; thread < state.threads; ++thread) {
      const Slice slice = slice_of(count, thread, state.threads);
      function(context, thread, slice.begin, slice.end);
      state.part_ended(thread);
    }
    return;
  }
  state.count = count;
  state.function = function;
  state.context = context;
  state.release_workers();
  const Slice slice = slice_of(count, 0, state.threads);
  function(context, 0, slice.begin, slice.end);
  int remaining = state.remaining.load(std::memory_order_acquire);
  while (remaining != 0) remaining = wait_for_change(state.remaining, remaining, state.spin);
}

}  // namespace mpe
