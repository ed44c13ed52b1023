#include <string>

#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/window.h"
#include "model/limits.h"

namespace mpe {
namespace {

// Windows of 2x2 that lie side by side and make up the map.
bool pools_all_pairs(const Layer& layer) {
  return layer.size_y == 2 && layer.size_x == 2 && layer.stride_y == 2 && layer.stride_x == 2 &&
         layer.padding / 2 == 0 && layer.in.height == 2 * layer.out.height &&
         layer.in.width == 2 * layer.out.width;
}

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"maxpool_depth", "antialiasing", "maxpool_zero_nonmax"});
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  layer.stride_x = section.integer("stride_x", stride, 1, Limits::kKernel);
  layer.stride_y = section.integer("stride_y", stride, 1, Limits::kKernel);
  const int size = section.integer("size", stride, 1, Limits::kKernel);
  layer.size_x = layer.size_y = size;
  layer.padding = section.integer("padding", size - 1, 0, Limits::kKernel);
  if (layer.padding > 2 * (size - 1)) {
    section.fail(section.line_of("padding"), "padding=" + std::to_string(layer.padding) +
                                                 " leaves windows of size " + std::to_string(size) +
                                                 " without any pixel");
  }
  layer.out = {layer.in.channels,
               window_positions(layer.in.height, layer.padding, size, layer.stride_y),
               window_positions(layer.in.width, layer.padding, size, layer.stride_x)};
  layer.rules = {.precision = PrecisionRule::kKeeps, .pools_pairs = pools_all_pairs(layer)};
}

}  // namespace

const LayerType kMaxpoolLayer{.read = read, .loops = Loops::kVectors};

}  // namespace mpe
