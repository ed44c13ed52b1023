#include <string>

#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network& network, Layer& layer) {
  layer.inputs = read_references(section, "layers", network);
  layer.groups = section.integer("groups", 1, 1, Limits::kDimension);
  layer.group_id = section.integer("group_id", 0, 0, layer.groups - 1);
  layer.in = network.output_shape(layer.inputs.front());
  layer.out = {0, layer.in.height, layer.in.width};
  for (const int input : layer.inputs) {
    const Shape& shape = network.output_shape(input);
    if (shape.height != layer.out.height || shape.width != layer.out.width) {
      section.fail(section.line_of("layers"),
                   "layer " + std::to_string(input) + " is " + text_of(shape) + " and layer " +
                       std::to_string(layer.inputs.front()) + " is " + text_of(layer.in) +
                       "; joined maps must have the same height and width");
    }
    if (shape.channels % layer.groups != 0) {
      section.fail(section.line_of("groups"), "groups=" + std::to_string(layer.groups) +
                                                  " does not divide the " +
                                                  std::to_string(shape.channels) +
                                                  " channels of layer " + std::to_string(input));
    }
    layer.out.channels += shape.channels / layer.groups;
  }
  layer.rules.algorithm = "copy";
  if (layer.inputs.size() == 1) {
    layer.rules.precision = PrecisionRule::kKeeps;
    layer.rules.memory = MemoryRule::kView;
    layer.rules.view_begin = layer.group_id * layer.out.elements();
  } else {
    layer.rules.precision = PrecisionRule::kJoins;
    if (layer.groups == 1) layer.rules.memory = MemoryRule::kConcatenates;
  }
}

}  // namespace

const LayerType kRouteLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
