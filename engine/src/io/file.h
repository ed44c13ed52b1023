// Whole files in memory.
#pragma once

#include <cstddef>
#include <string>

namespace mpe {

// The file's bytes. Throws mpe::Error if it cannot be read or holds more than `limit` bytes.
std::string read_file(const std::string& path, std::size_t limit);

}  // namespace mpe
