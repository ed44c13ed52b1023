#include <string>

#include "layers/registry.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  const int height = section.integer("crop_height", 1, 1, Limits::kDimension);
  const int width = section.integer("crop_width", 1, 1, Limits::kDimension);
  if (height > layer.in.height || width > layer.in.width) {
    section.fail("cuts " + std::to_string(height) + "x" + std::to_string(width) + " out of " +
                 text_of(layer.in) + ", which is smaller");
  }
  if (!section.flag("noadjust")) {
    layer.scale = 2.0F;
    layer.offset = -1.0F;
  }
  layer.out = {layer.in.channels, height, width};
  const bool moves_only = layer.scale == 1.0F && layer.offset == 0.0F;
  layer.rules.precision = moves_only ? PrecisionRule::kKeeps : PrecisionRule::kWidens;
}

}  // namespace

const LayerType kCropLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
