#include "layers/avgpool.h"

#include "reference/values.h"

namespace mpe {

void reference_avgpool(const LayerCall& call) {
  const LayerInput& input = call.inputs[0];
  const std::int64_t plane = input.shape.plane();
  for (int c = 0; c < input.shape.channels; ++c) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < plane; ++i) {
      sum += static_cast<double>(value_at(input.tensor, c, c * plane + i));
    }
    set_value(call.output, c, c, static_cast<float>(sum / static_cast<double>(plane)));
  }
}

}  // namespace mpe
