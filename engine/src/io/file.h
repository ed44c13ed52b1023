// Regular files: a pipe or a device is refused, since reading it may never end.
#pragma once

#include <cstddef>
#include <istream>
#include <memory>
#include <string>

namespace mpe {

// The file to read from. Throws mpe::Error if it cannot be opened.
std::unique_ptr<std::istream> open_file(const std::string& path);

// The file's bytes. Throws mpe::Error if it cannot be read or holds more than `limit` bytes.
std::string read_file(const std::string& path, std::size_t limit);

}  // namespace mpe
