#include <string>
#include <string_view>

#include "io/text.h"
#include "layers/registry.h"
#include "layers/section_keys.h"

namespace mpe {
namespace {

void read(const CfgSection& section, const Network& network, Layer& layer) {
  if (section.word("weights_type", "none") != "none") {
    section.fail(section.line_of("weights_type"), "weighted shortcuts are not supported");
  }
  for (const std::string_view key : {"alpha", "beta"}) {
    if (section.real(key, 1.0F) != 1.0F) {
      section.fail(section.line_of(key),
                   "factors of a shortcut are not supported; remove " + quoted(key));
    }
  }
  layer.activation = read_activation(section, "linear");
  for (const int from : read_references(section, "from", network)) {
    // Maps of other sizes join as pjreddie's Darknet does it: over the common channels, the larger
    // map in strides, for which the ratio must be the same in both directions.
    const Shape& shape = network.output_shape(from);
    if (shape.width / layer.in.width != shape.height / layer.in.height ||
        layer.in.width / shape.width != layer.in.height / shape.height) {
      section.fail(section.line_of("from"), "layer " + std::to_string(from) + " is " +
                                                text_of(shape) + ", which does not add to " +
                                                text_of(layer.in));
    }
    layer.inputs.push_back(from);
  }
  layer.rules.memory = MemoryRule::kInPlace;
}

}  // namespace

const LayerType kShortcutLayer{.read = read, .loops = Loops::kVectors};

}  // namespace mpe
