#include "layers/shortcut.h"

#include <algorithm>

#include "kernels/activation.h"
#include "reference/values.h"

namespace mpe {
namespace {

// Adds what a map of another size has for this place, as pjreddie's Darknet does: of a larger map
// every stride-th value, of a smaller one a value at every sample-th place.
void add_of_other_size(const LayerInput& input, const Shape& out, int c, int y, int x, float& sum) {
  const Shape& in = input.shape;
  const int stride = std::max(in.width / out.width, 1);
  const int sample = std::max(out.width / in.width, 1);
  if (c >= in.channels || y % sample != 0 || x % sample != 0) return;
  const int row = y / sample;
  const int column = x / sample;
  if (row >= std::min(in.height, out.height) || column >= std::min(in.width, out.width)) return;
  if (row * stride >= in.height || column * stride >= in.width) return;
  sum += value_at(input.tensor, c, position(in, c, row * stride, column * stride));
}

}  // namespace

void reference_shortcut(const LayerCall& call) {
  const Shape& out = call.layer.out;
  for_places(out, [&](int c, int y, int x) {
    const std::int64_t here = position(out, c, y, x);
    float sum = value_at(call.inputs[0].tensor, c, here);
    for (const LayerInput& input : call.inputs.subspan(1)) {
      if (input.shape == out) {
        sum += value_at(input.tensor, c, here);
      } else {
        add_of_other_size(input, out, c, y, x, sum);
      }
    }
    set_value(call.output, c, here, activate(call.layer.activation, sum));
  });
}

}  // namespace mpe
