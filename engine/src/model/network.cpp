#include "model/network.h"

#include <cstddef>

#include "io/file.h"
#include "model/cfg_file.h"
#include "model/network_builder.h"

namespace mpe {

std::vector<int> Network::inputs() const {
  std::vector<int> found = {kNetworkInput};
  for (const Layer& layer : layers) {
    if (layer.rules.memory == MemoryRule::kInput) found.push_back(layer.index);
  }
  return found;
}

std::int64_t Network::input_elements() const {
  std::int64_t elements = input.elements();
  for (const Layer& layer : layers) {
    if (layer.rules.memory == MemoryRule::kInput) elements += layer.out.elements();
  }
  return elements;
}

std::optional<std::int64_t> Network::input_begin(int tensor) const {
  if (tensor == kNetworkInput) return 0;
  const LayerRules& rules = layers[static_cast<std::size_t>(tensor)].rules;
  if (rules.memory != MemoryRule::kInput) return std::nullopt;
  return rules.view_begin;
}

Network parse_network(std::string_view text, std::string_view file) {
  return NetworkBuilder(file).build(split_sections(text, file));
}

Network load_network(const std::string& path) {
  constexpr std::size_t kLargestCfg = std::size_t{4} << 20;
  return parse_network(read_file(path, kLargestCfg), path);
}

}  // namespace mpe
