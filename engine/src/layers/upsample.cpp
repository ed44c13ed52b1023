#include "layers/registry.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  layer.stride_x = layer.stride_y = section.integer("stride", 2, 1, Limits::kKernel);
  layer.scale = section.real("scale", 1.0F);
  layer.out = {layer.in.channels, layer.in.height * layer.stride_y,
               layer.in.width * layer.stride_x};
  layer.rules.precision = layer.scale == 1.0F ? PrecisionRule::kKeeps : PrecisionRule::kWidens;
}

}  // namespace

const LayerType kUpsampleLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
