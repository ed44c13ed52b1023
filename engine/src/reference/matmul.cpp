#include "layers/matmul.h"

#include "reference/values.h"

namespace mpe {

void reference_matmul(const LayerCall& call) {
  const LayerInput& left = call.inputs[0];
  const LayerInput& right = call.inputs[1];
  for_places(call.layer.out, [&](int c, int y, int x) {
    const int right_c = right.shape.channels == 1 ? 0 : c;
    float sum = 0.0F;
    for (int k = 0; k < left.shape.width; ++k) {
      sum += value_at(left.tensor, c, position(left.shape, c, y, k)) *
             value_at(right.tensor, right_c, position(right.shape, right_c, k, x));
    }
    set_value(call.output, c, position(call.layer.out, c, y, x), sum);
  });
}

}  // namespace mpe
