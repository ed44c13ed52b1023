#include "exec/resident_memory.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace mpe {

std::int64_t peak_resident_bytes() {
  constexpr std::string_view kKey = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) return std::atoll(line.c_str() + kKey.size()) * 1024;  // in kB
  }
  return 0;
}

}  // namespace mpe
