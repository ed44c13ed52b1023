#include "kernels/activation.h"
#include "reference/loops.h"
#include "reference/values.h"

namespace mpe {

void reference_softmax(const SoftmaxParameters& p, const LayerCall& call) {
  reference_copy(call);
  auto* values = static_cast<float*>(call.output.data);
  const std::int64_t length = call.layer.in.elements() / p.groups;
  for (int group = 0; group < p.groups; ++group, values += length) {
    float largest = values[0];
    for (std::int64_t i = 0; i < length; ++i) largest = values[i] > largest ? values[i] : largest;
    double sum = 0.0;
    for (std::int64_t i = 0; i < length; ++i) {
      values[i] = exponential(values[i] / p.temperature - largest / p.temperature);
      sum += static_cast<double>(values[i]);
    }
    for (std::int64_t i = 0; i < length; ++i) {
      values[i] = static_cast<float>(static_cast<double>(values[i]) / sum);
    }
  }
}

}  // namespace mpe
