#include "layers/scale_channels.h"

#include "kernels/activation.h"
#include "reference/values.h"

namespace mpe {

void reference_scale_channels(const ScaleChannelsParameters& p, const LayerCall& call) {
  const TensorView& factors = call.inputs[0].tensor;
  const TensorView& map = call.inputs[1].tensor;
  const Shape& out = call.layer.out;
  for_places(out, [&](int c, int y, int x) {
    const std::int64_t here = position(out, c, y, x);
    const float factor =
        p.by_pixel ? value_at(factors, 0, position(out, 0, y, x)) : value_at(factors, c, c);
    const float value = value_at(map, c, here) * factor;
    set_value(call.output, c, here, activate(call.layer.activation, value));
  });
}

}  // namespace mpe
