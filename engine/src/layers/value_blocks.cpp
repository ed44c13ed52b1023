#include "layers/value_blocks.h"

#include <algorithm>
#include <limits>

#include "kernels/kernel_set.h"

namespace mpe {

void activate_values(Activation activation, float* values, int count,
                     const ElementwiseKernels& vectors) {
  if (activation != Activation::kLinear) vectors.activate(values, count, activation);
}

Shape shape_of_blocks(const LayerCall& call) {
  const Shape& out = call.layer.out;
  const auto by_channel = [](const Quantization* quantization) {
    return quantization != nullptr && quantization->per_channel();
  };
  const auto differs = [&](const LayerInput& input) {
    return by_channel(input.tensor.quantization) ||
           (input.shape != out && input.shape.elements() != 1);
  };
  if (by_channel(call.output.quantization) || std::ranges::any_of(call.inputs, differs) ||
      out.elements() > std::numeric_limits<int>::max()) {
    return out;
  }
  return {1, 1, static_cast<int>(out.elements())};
}

void load_repeated(const LayerInput& input, const Shape& out, int channel, std::int64_t first,
                   int count, float* values, const ElementwiseKernels* vectors) {
  const Shape& in = input.shape;
  if (in.elements() == out.elements()) {
    return load_values(input.tensor, channel, channel * out.plane() + first, count, values,
                       vectors);
  }
  const int c = in.channels == 1 ? 0 : channel;
  const std::int64_t base = c * in.plane();
  if (in.height == out.height && in.width == out.width) {
    return load_values(input.tensor, c, base + first, count, values, vectors);
  }
  if (in.plane() == 1) {
    load_values(input.tensor, c, base, 1, values, vectors);
    std::fill_n(values + 1, count - 1, values[0]);
    return;
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
