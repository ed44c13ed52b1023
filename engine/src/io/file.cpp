#include "io/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "error.h"

namespace mpe {
namespace {

// A missing file passes: opening it gives the reason.
void refuse_irregular(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw Error(path + (std::filesystem::is_directory(status) ? ": is a folder" : ": is not a file") +
              "; name a regular file");
}

}  // namespace

std::unique_ptr<std::istream> open_file(const std::string& path) {
  refuse_irregular(path);
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream) throw Error(path + ": cannot open: " + std::strerror(errno));
  return stream;
}

std::string read_file(const std::string& path, std::size_t limit) {
  refuse_irregular(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) throw Error(path + ": cannot open: " + std::strerror(errno));
  std::string content;
  constexpr std::size_t kChunk = 64 * 1024;
  while (true) {
    const std::size_t size = content.size();
    content.resize(size + kChunk);
    const std::size_t read = std::fread(content.data() + size, 1, kChunk, file.get());
    content.resize(size + read);
    if (content.size() > limit) {
      throw Error(path + ": larger than " + std::to_string(limit) +
                  " bytes, which no such file needs; check that it is the right file");
    }
    if (read < kChunk) break;
  }
  if (std::ferror(file.get()) != 0) throw Error(path + ": cannot read: " + std::strerror(errno));
  return content;
}

}  // namespace mpe
