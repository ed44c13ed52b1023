#include "layers/arithmetic.h"

#include "kernels/activation.h"
#include "reference/values.h"

namespace mpe {

void reference_arithmetic(Arithmetic operation, const LayerCall& call) {
  const Shape& out = call.layer.out;
  const auto value = [](const LayerInput& input, int c, int y, int x) {
    const Shape& in = input.shape;
    c = in.channels == 1 ? 0 : c;
    return value_at(input.tensor, c,
                    position(in, c, in.height == 1 ? 0 : y, in.width == 1 ? 0 : x));
  };
  for_places(out, [&](int c, int y, int x) {
    float result = value(call.inputs[0], c, y, x);
    for (const LayerInput& input : call.inputs.subspan(1)) {
      result = compute(operation, result, value(input, c, y, x));
    }
    set_value(call.output, c, position(out, c, y, x), activate(call.layer.activation, result));
  });
}

}  // namespace mpe
