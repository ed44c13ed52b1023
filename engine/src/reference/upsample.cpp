#include "layers/upsample.h"

#include "reference/values.h"

namespace mpe {

void reference_upsample(const UpsampleParameters& p, const LayerCall& call) {
  const Shape& in = call.layer.in;
  const Shape& out = call.layer.out;
  const TensorView& tensor = call.inputs[0].tensor;
  for_places(out, [&](int c, int y, int x) {
    const std::int64_t from = position(in, c, y / p.stride, x / p.stride);
    const std::int64_t to = position(out, c, y, x);
    if (p.scale == 1.0F) return copy_value(tensor, from, call.output, to);
    set_value(call.output, c, to, value_at(tensor, c, from) * p.scale + 0.0F);  // no -0
  });
}

}  // namespace mpe
