#include "reference/loops.h"
#include "reference/values.h"

namespace mpe {

void reference_route(const RouteParameters& p, const LayerCall& call) {
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
