// On which cores threads run.
#pragma once

#include <string_view>
#include <vector>

namespace mpe {

// Those that the calling thread may run on.
std::vector<int> usable_cores();

// Reads a list of cores as `taskset -c` takes it: "0-3", "0,2", "4-7,0". Throws mpe::Error where it
// is none, names a core twice or one that this process may not use.
std::vector<int> parse_cores(std::string_view text);

// Keeps the calling thread on a core for as long as it lives; then where it was before.
class PinnedThread {
 public:
  // Throws mpe::Error if the system refuses.
  explicit PinnedThread(int core);
  ~PinnedThread();
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace mpe
