#include "layers/value_blocks.h"

#include "kernels/activation.h"

namespace mpe {

// One loop for each activation, so that the choice is made outside of it.
void activate_values(Activation activation, float* values, int count) {
  const auto apply = [&](auto function) {
    for (int i = 0; i < count; ++i) values[i] = function(values[i]);
  };
  switch (activation) {
    case Activation::kLinear:
      return;
    case Activation::kLeaky:
      return apply([](float x) { return leaky(x); });
    case Activation::kRelu:
      return apply([](float x) { return relu(x); });
    case Activation::kRelu6:
      return apply([](float x) { return relu6(x); });
    default:
      return apply([activation](float x) { return activate(activation, x); });
  }
}

}  // namespace mpe
