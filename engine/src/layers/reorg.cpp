#include <string>

#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"flatten", "extra"});
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  layer.stride_x = layer.stride_y = stride;
  layer.reverse = section.flag("reverse");
  // Darknet's reorg walks its input as if it held channels / stride^2 wide maps, in both
  // directions.
  const int area = stride * stride;
  const bool fits =
      layer.in.channels % area == 0 &&
      (layer.reverse || (layer.in.height % stride == 0 && layer.in.width % stride == 0));
  if (!fits) {
    section.fail(section.line_of("stride"),
                 "stride=" + std::to_string(stride) + " does not fit " + text_of(layer.in));
  }
  if (layer.reverse) {
    layer.out = {layer.in.channels / area, layer.in.height * stride, layer.in.width * stride};
  } else if (layer.in.channels <= Limits::kDimension / area) {
    layer.out = {layer.in.channels * area, layer.in.height / stride, layer.in.width / stride};
  } else {
    section.fail("would make more than " + std::to_string(Limits::kDimension) + " channels");
  }
  layer.rules.precision = PrecisionRule::kKeeps;
}

}  // namespace

const LayerType kReorgLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
