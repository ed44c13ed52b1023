#include "instruction_counter.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace mpe {

InstructionCounter::InstructionCounter() {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  // Only a counter that was never taken away for another one has counted everything.
  attributes.pinned = 1;
  constexpr int kThisThread = 0;
  constexpr int kAnyProcessor = -1;
  constexpr int kNoGroup = -1;
  descriptor_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, kThisThread,
                                         kAnyProcessor, kNoGroup, PERF_FLAG_FD_CLOEXEC));
}

InstructionCounter::~InstructionCounter() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::optional<std::int64_t> InstructionCounter::read() const {
  std::int64_t count = 0;
  // A pinned counter that could not be kept gives an end of file.
  if (descriptor_ < 0 || ::read(descriptor_, &count, sizeof(count)) != sizeof(count)) {
    return std::nullopt;
  }
  return count;
}

}  // namespace mpe
