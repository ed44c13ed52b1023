#include "layers/softmax.h"

#include "kernels/activation.h"
#include "layers/copy.h"
#include "reference/values.h"

namespace mpe {

void reference_softmax(const SoftmaxParameters& p, const LayerCall& call) {
  reference_copy(call);
  const std::int64_t lines = call.layer.in.elements() / p.length;
  for (std::int64_t line = 0; line < lines; ++line) {
    float* const values = static_cast<float*>(call.output.data) + p.start_of(line);
    float largest = values[0];
    for (std::int64_t i = 0; i < p.length; ++i) {
      const float value = values[i * p.stride];
      largest = value > largest ? value : largest;
    }
    double sum = 0.0;
    for (std::int64_t i = 0; i < p.length; ++i) {
      float& value = values[i * p.stride];
      value = exponential(value / p.temperature - largest / p.temperature);
      sum += static_cast<double>(value);
    }
    for (std::int64_t i = 0; i < p.length; ++i) {
      float& value = values[i * p.stride];
      value = static_cast<float>(static_cast<double>(value) / sum);
    }
  }
}

}  // namespace mpe
