#include "layers/route.h"

#include "reference/values.h"

namespace mpe {

namespace {

void reference_join(Axis axis, const LayerCall& call) {
  int before = 0;
  for (const LayerInput& input : call.inputs) {
    for_places(input.shape, [&](int c, int y, int x) {
      const int to_y = axis == Axis::kHeight ? before + y : y;
      const int to_x = axis == Axis::kWidth ? before + x : x;
      convert_value(input.tensor, 0, position(input.shape, c, y, x), call.output, 0,
                    position(call.layer.out, c, to_y, to_x));
    });
    before += input.shape[axis];
  }
}

}  // namespace

void reference_route(const RouteParameters& p, const LayerCall& call) {
  if (p.axis != Axis::kChannels) return reference_join(p.axis, call);
  const Shape& out = call.layer.out;
  int before = 0;  // channels
  for (const LayerInput& input : call.inputs) {
    const Shape slice{input.shape.channels / p.groups, out.height, out.width};
    for_places(slice, [&](int c, int y, int x) {
      const std::int64_t from = position(input.shape, p.group_id * slice.channels + c, y, x);
      convert_value(input.tensor, p.group_id * slice.channels + c, from, call.output, before + c,
                    position(out, before + c, y, x));
    });
    before += slice.channels;
  }
}

}  // namespace mpe
