// Which layers run vector code, for the reports.
#include <algorithm>

#include "kernels/reference/layers.h"

namespace mpe {
namespace {

bool is_int8(Precision precision) { return precision == Precision::kInt8; }

// Values are converted to float for the computation, and back.
bool converts_int8(std::span<const LayerInput> inputs, const MutableTensorView& output) {
  return is_int8(output.precision) || std::ranges::any_of(inputs, [](const LayerInput& input) {
           return is_int8(input.tensor.precision);
         });
}

bool route_converts(const Layer& layer, std::span<const LayerInput> inputs,
                    const MutableTensorView& output) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const RouteSlice slice = route_slice(layer, inputs, output, i);
    if (!slice.in_place() && converts_by_vectors(slice.from, slice.to)) return true;
  }
  return false;
}

}  // namespace

bool runs_vectors(const Layer& layer, std::span<const LayerInput> inputs,
                  const MutableTensorView& output) {
  switch (layer.kind) {
    case LayerKind::kMaxpool:
      return pools_pairs(layer);
    case LayerKind::kShortcut:
      return adds_one_pair(layer, inputs, output) || converts_int8(inputs, output);
    case LayerKind::kAvgpool:
    case LayerKind::kScaleChannels:
      return converts_int8(inputs, output);
    case LayerKind::kUpsample:
    case LayerKind::kCrop:
      return (layer.scale != 1.0F || layer.offset != 0.0F) && converts_int8(inputs, output);
    case LayerKind::kRoute:
      return route_converts(layer, inputs, output);
    case LayerKind::kSoftmax:
    case LayerKind::kDropout:
    case LayerKind::kCost:
    case LayerKind::kRegion:
    case LayerKind::kYolo:
      return converts_by_vectors(inputs[0].tensor, output);
    case LayerKind::kReorg:
    case LayerKind::kConvolutional:
    case LayerKind::kConnected:
      return false;
  }
  return false;
}

}  // namespace mpe
