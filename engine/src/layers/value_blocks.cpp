#include "layers/value_blocks.h"

#include <algorithm>

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

void load_repeated(const LayerInput& input, const Shape& out, int channel, std::int64_t first,
                   int count, float* values, const ElementwiseKernels* vectors) {
  const Shape& in = input.shape;
  const int c = in.channels == 1 ? 0 : channel;
  const std::int64_t base = c * in.plane();
  if (in.height == out.height && in.width == out.width) {
    return load_values(input.tensor, c, base + first, count, values, vectors);
  }
  while (count > 0) {
    const auto y = in.height == 1 ? 0 : first / out.width;
    const std::int64_t x = first % out.width;
    const auto run = static_cast<int>(std::min<std::int64_t>(count, out.width - x));
    const std::int64_t row = base + y * in.width;
    if (in.width == out.width) {
      load_values(input.tensor, c, row + x, run, values, vectors);
    } else {
      float value = 0.0F;
      load_values(input.tensor, c, row, 1, &value, vectors);
      std::fill_n(values, run, value);
    }
    first += run;
    values += run;
    count -= run;
  }
}

}  // namespace mpe
