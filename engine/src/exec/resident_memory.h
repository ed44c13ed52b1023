// How much memory this process has held at most.
#pragma once

#include <cstdint>

namespace mpe {

// VmHWM of /proc/self/status in bytes; 0 where the system does not tell.
std::int64_t peak_resident_bytes();

}  // namespace mpe
