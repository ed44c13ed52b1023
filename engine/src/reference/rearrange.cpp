// Layers that only move values, or set some beside them.
#include "layers/pad.h"
#include "layers/slice.h"
#include "layers/transpose.h"
#include "reference/values.h"

namespace mpe {

void reference_transpose(const TransposeParameters& p, const LayerCall& call) {
  const std::int64_t count = call.layer.out.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t from = 0;
    for (std::size_t axis = p.sizes.size(); axis-- > 0;) {
      from += rest % p.sizes[axis] * p.strides[axis];
      rest /= p.sizes[axis];
    }
    copy_value(call.inputs[0].tensor, from, call.output, i);
  }
}

void reference_slice(const SliceParameters& p, const LayerCall& call) {
  const Shape& in = call.inputs[0].shape;
  const auto place = [&](Axis axis, int i) { return axis == p.axis ? p.begin + i * p.step : i; };
  for_places(call.layer.out, [&](int c, int y, int x) {
    copy_value(
        call.inputs[0].tensor,
        position(in, place(Axis::kChannels, c), place(Axis::kHeight, y), place(Axis::kWidth, x)),
        call.output, position(call.layer.out, c, y, x));
  });
}

void reference_pad(const PadParameters& p, const LayerCall& call) {
  const LayerInput& input = call.inputs[0];
  const Shape& out = call.layer.out;
  for_places(out, [&](int c, int y, int x) {
    const int from_c = padded_place(p.mode, c - p.front, input.shape.channels);
    const int from_y = padded_place(p.mode, y - p.top, input.shape.height);
    const int from_x = padded_place(p.mode, x - p.left, input.shape.width);
    const bool outside = from_c < 0 || from_y < 0 || from_x < 0;
    const float value =
        outside ? p.value
                : value_at(input.tensor, from_c, position(input.shape, from_c, from_y, from_x));
    set_value(call.output, c, position(out, c, y, x), value);
  });
}

}  // namespace mpe
