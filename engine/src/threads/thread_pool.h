// Fixed workers with static partition: no allocation and no lock while an inference runs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace mpe {

inline constexpr int kMaxThreads = 256;

// Called on the caller's thread after each thread's part of a parallel loop, and with kAlone when
// what the caller does between two loops has ended.
using PartEnded = void (*)(int thread);
inline constexpr int kAlone = -1;

class ThreadPool {
 public:
  // The caller is thread 0: `threads - 1` workers are started. With `cores`, at least as many as
  // threads, each thread stays on its own, the caller until the pool is destroyed, which it has to
  // do itself. Throws mpe::Error where `threads` is not in [1, kMaxThreads] or the system refuses.
  // `part_ended` is for profilers that follow one thread: where given, no worker is started, and
  // the caller executes all threads' parts of a loop, one after the other.
  explicit ThreadPool(int threads, std::span<const int> cores = {}, PartEnded part_ended = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(thread, begin, end) once per thread, the half-open ranges covering [0, count) in
  // order, no later one longer than an earlier one; returns when all are done. `body` must not
  // throw, and must not wait for another thread. Not reentrant.
  template <typename Body>
  void parallel_for(int count, Body&& body) {
    run(
        count,
        [](void* context, int thread, int begin, int end) {
          (*static_cast<std::remove_reference_t<Body>*>(context))(thread, begin, end);
        },
        &body);
  }

 private:
  using Function = void (*)(void* context, int thread, int begin, int end);
  void run(int count, Function function, void* context);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mpe
