#include <string>
#include <vector>

#include "layers/registry.h"
#include "layers/section_keys.h"

namespace mpe {
namespace {

void read(const CfgSection& section, const Network& network, Layer& layer) {
  const std::vector<int> from = read_references(section, "from", network);
  if (from.size() != 1) section.fail(section.line_of("from"), "from= must name one layer");
  layer.inputs.push_back(from.front());
  layer.scale_wh = section.flag("scale_wh");
  layer.activation = read_activation(section, "linear");
  layer.out = network.output_shape(from.front());
  const Shape factors = layer.scale_wh ? Shape{1, layer.out.height, layer.out.width}
                                       : Shape{layer.out.channels, 1, 1};
  if (layer.in != factors) {
    section.fail("scales layer " + std::to_string(from.front()) + " of " + text_of(layer.out) +
                 " and needs " + text_of(factors) + " factors, but the preceding layer gives " +
                 text_of(layer.in));
  }
  layer.rules.memory = MemoryRule::kInPlace;
}

}  // namespace

const LayerType kScaleChannelsLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
