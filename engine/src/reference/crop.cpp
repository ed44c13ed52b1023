#include "layers/crop.h"

#include "reference/values.h"

namespace mpe {

void reference_crop(const CropParameters& p, const LayerCall& call) {
  const Shape& in = call.layer.in;
  const Shape& out = call.layer.out;
  const int top = (in.height - out.height) / 2;
  const int left = (in.width - out.width) / 2;
  const TensorView& tensor = call.inputs[0].tensor;
  for_places(out, [&](int c, int y, int x) {
    const std::int64_t from = position(in, c, y + top, x + left);
    const std::int64_t to = position(out, c, y, x);
    if (p.moves_only()) return copy_value(tensor, from, call.output, to);
    set_value(call.output, c, to, value_at(tensor, c, from) * p.scale + p.offset);
  });
}

}  // namespace mpe
