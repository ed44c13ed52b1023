#include "model/network.h"

#include <cstddef>

#include "io/file.h"
#include "model/cfg_file.h"
#include "model/network_builder.h"

namespace mpe {

Network parse_network(std::string_view text, std::string_view file) {
  return NetworkBuilder(file).build(split_sections(text, file));
}

Network load_network(const std::string& path) {
  constexpr std::size_t kLargestCfg = std::size_t{4} << 20;
  return parse_network(read_file(path, kLargestCfg), path);
}

}  // namespace mpe
