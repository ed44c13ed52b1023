#include "threads/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "check.h"
#include "error.h"
#include "threads/affinity.h"

namespace {

// Counts how often every index of [0, count) is visited, and checks the order of the ranges.
void check_cover(mpe::ThreadPool& pool, int count) {
  std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
  std::vector<std::atomic<int>> ends(static_cast<std::size_t>(pool.threads()));
  std::vector<std::atomic<int>> begins(static_cast<std::size_t>(pool.threads()));
  std::atomic<int> calls = 0;
  pool.parallel_for(count, [&](int thread, int begin, int end) {
    ++calls;
    begins[static_cast<std::size_t>(thread)] = begin;
    ends[static_cast<std::size_t>(thread)] = end;
    for (int i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
  });
  CHECK_EQUAL(calls.load(), pool.threads());
  for (const auto& visit : visits) CHECK_EQUAL(visit.load(), 1);
  CHECK_EQUAL(begins.front().load(), 0);
  CHECK_EQUAL(ends.back().load(), count);
  for (std::size_t i = 1; i < ends.size(); ++i) {
    CHECK_EQUAL(begins[i].load(), ends[i - 1].load());
    CHECK(ends[i].load() - begins[i].load() <= ends[i - 1].load() - begins[i - 1].load());
  }
}

TEST(ranges_cover_everything_once) {
  for (const int threads : {1, 2, 3, 7}) {
    mpe::ThreadPool pool(threads);
    CHECK_EQUAL(pool.threads(), threads);
    for (const int count : {0, 1, 2, 6, 7, 8, 1000}) check_cover(pool, count);
  }
}

std::vector<int> parts;  // that have ended

TEST(one_thread_executes_the_parts_of_all_for_a_profiler) {
  mpe::ThreadPool pool(3, {}, [](int thread) { parts.push_back(thread); });
  for (const int count : {0, 1, 8, 1000}) check_cover(pool, count);
  parts.clear();
  const int caller = gettid();
  pool.parallel_for(7, [&](int thread, int begin, int end) {
    CHECK_EQUAL(gettid(), caller);
    CHECK_EQUAL(parts.back(), thread - 1);
    CHECK_EQUAL(end - begin, thread == 0 ? 3 : 2);
  });
  CHECK(parts == std::vector({mpe::kAlone, 0, 1, 2}));
}

// More threads than cores, work of no length: wake-ups that get lost would hang here.
TEST(many_short_runs) {
  mpe::ThreadPool pool(5);
  int total = 0;
  for (int run = 0; run < 550; ++run) {
    std::atomic<int> sum = 0;
    pool.parallel_for(run % 11, [&](int, int begin, int end) { sum += end - begin; });
    total += sum;
  }
  CHECK_EQUAL(total, 50 * 55);
}

TEST(threads_stay_on_their_cores) {
  const std::vector<int> before = mpe::usable_cores();
  {
    const std::vector<int> cores = {before.back(), before.front()};
    mpe::ThreadPool pool(2, cores);
    for (int run = 0; run < 20; ++run) {
      std::vector<int> found(2, -1);
      pool.parallel_for(2, [&](int thread, int, int) {
        found[static_cast<std::size_t>(thread)] = sched_getcpu();
      });
      CHECK(found == cores);
    }
  }
  CHECK(mpe::usable_cores() == before);
}

TEST(lists_of_cores) {
  const std::vector<int> usable = mpe::usable_cores();
  const std::string first = std::to_string(usable.front());
  CHECK(mpe::parse_cores(first) == std::vector<int>{usable.front()});
  CHECK(mpe::parse_cores(first + "-" + first) == std::vector<int>{usable.front()});
  for (const char* text : {"", ",", "0-", "-0", "a", "0,", "0;1", "1-0", "0,0", "99999999999"}) {
    CHECK_THROWS(mpe::parse_cores(text), "list of cores");
  }
  CHECK_THROWS(mpe::parse_cores("1023"), "not one that this process may use");
  CHECK_THROWS(mpe::ThreadPool(2, std::span(usable).first(1)), "need as many cores");
}

TEST(impossible_numbers_of_threads) {
  CHECK_THROWS(mpe::ThreadPool(0), "number of threads is 0");
  CHECK_THROWS(mpe::ThreadPool(-1), "number of threads is -1");
  CHECK_THROWS(mpe::ThreadPool(100000), "number of threads is 100000");
}

}  // namespace
