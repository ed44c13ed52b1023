// How many instructions this process's calling thread executes, by the processor's own counter.
#pragma once

#include <cstdint>
#include <optional>

namespace mpe {

class InstructionCounter {
 public:
  // Counts from now on, outside the kernel, where the system lets a program do so.
  InstructionCounter();
  ~InstructionCounter();
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;

  // None where nothing counts: virtual machines and emulators rarely have a counter, containers
  // rarely the permission.
  std::optional<std::int64_t> read() const;

 private:
  int descriptor_ = -1;
};

}  // namespace mpe
