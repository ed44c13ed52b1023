#include "layers/operation.h"

#include <algorithm>

namespace mpe {

std::int64_t Operation::bytes_moved(const LayerCall& call) const {
  const auto size = [](const Shape& shape, Precision precision) {
    return shape.elements() * static_cast<std::int64_t>(bytes_of(precision));
  };
  std::int64_t bytes = size(call.layer.out, call.output.precision);
  for (const LayerInput& input : call.inputs) bytes += size(input.shape, input.tensor.precision);
  return bytes;
}

bool converts_int8(const LayerCall& call) {
  return call.output.precision == Precision::kInt8 ||
         std::ranges::any_of(call.inputs, [](const LayerInput& input) {
           return input.tensor.precision == Precision::kInt8;
         });
}

bool converts_int8_or_activates(const LayerCall& call) {
  return converts_int8(call) || call.layer.activation != Activation::kLinear;
}

}  // namespace mpe
