#include "plan/heads.h"

#include <set>

namespace mpe {

std::vector<int> find_heads(const Network& network) {
  const auto producer = [&](int tensor) {
    while (tensor != kNetworkInput &&
           network.layers[static_cast<std::size_t>(tensor)].rules.head == HeadRule::kPasses) {
      tensor = network.layers[static_cast<std::size_t>(tensor)].inputs[0];
    }
    return tensor;
  };
  std::set<int> heads;
  for (const int output : network.outputs) heads.insert(producer(output));
  if (!heads.empty()) return {heads.begin(), heads.end()};
  for (const Layer& layer : network.layers) {
    const HeadRule rule = layer.rules.head;
    if (rule == HeadRule::kReadsHead || rule == HeadRule::kReplacesHead) {
      heads.insert(producer(layer.inputs[0]));
    }
  }
  const Layer& last = network.layers.back();
  if (last.rules.head != HeadRule::kReplacesHead) heads.insert(producer(last.index));
  return {heads.begin(), heads.end()};
}

}  // namespace mpe
