#include "threads/affinity.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "error.h"
#include "io/text.h"

namespace mpe {
namespace {

// 0 or an error number.
int keep_on(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno;
}

class CoresParser {
 public:
  explicit CoresParser(std::string_view text) : text_(text) {}

  std::vector<int> parse() {
    std::vector<int> cores;
    do {
      const int first = number();
      const int last = accept('-') ? number() : first;
      if (last < first) refuse();
      for (int core = first; core <= last; ++core) {
        if (std::ranges::count(cores, core) > 0) refuse();
        cores.push_back(core);
      }
    } while (accept(','));
    if (next_ != text_.size()) refuse();
    return cores;
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error("a list of cores is for example 0-3 or 0,2, each core once, not " + quoted(text_));
  }

  bool accept(char c) {
    if (next_ == text_.size() || text_[next_] != c) return false;
    ++next_;
    return true;
  }

  int number() {
    const std::size_t begin = next_;
    int value = 0;
    while (next_ < text_.size() && text_[next_] >= '0' && text_[next_] <= '9') {
      value = 10 * value + (text_[next_++] - '0');
      if (value >= CPU_SETSIZE) refuse();
    }
    if (next_ == begin) refuse();
    return value;
  }

  std::string_view text_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> parse_cores(std::string_view text) {
  std::vector<int> cores = CoresParser(text).parse();
  const std::vector<int> usable = usable_cores();
  for (const int core : cores) {
    if (std::ranges::count(usable, core) > 0) continue;
    std::string names;
    for (const int other : usable) names += (names.empty() ? "" : ", ") + std::to_string(other);
    throw Error("core " + std::to_string(core) + " is not one that this process may use: " + names);
  }
  return cores;
}

PinnedThread::PinnedThread(int core) : before_(usable_cores()) {
  const int error = keep_on({core});
  if (error != 0) {
    throw Error("the system does not keep a thread on core " + std::to_string(core) + ": " +
                std::strerror(error));
  }
}

// Where the thread may no longer go back, it stays.
PinnedThread::~PinnedThread() { keep_on(before_); }

}  // namespace mpe
