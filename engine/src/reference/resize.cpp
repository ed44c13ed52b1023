#include "layers/resize.h"

#include "reference/values.h"

namespace mpe {

void reference_resize(const ResizeParameters& p, const LayerCall& call) {
  const LayerInput& input = call.inputs[0];
  for_places(call.layer.out, [&](int c, int y, int x) {
    const ResizeTap& row = p.rows[static_cast<std::size_t>(y)];
    const ResizeTap& column = p.columns[static_cast<std::size_t>(x)];
    const std::int64_t to = position(call.layer.out, c, y, x);
    if (!p.linear) {
      return copy_value(input.tensor, position(input.shape, c, row.lower, column.lower),
                        call.output, to);
    }
    const auto value = [&](int from_y, int from_x) {
      return value_at(input.tensor, c, position(input.shape, c, from_y, from_x));
    };
    const auto across = [&](int from_y) {
      return between(value(from_y, column.lower), value(from_y, column.upper), column.weight);
    };
    set_value(call.output, c, to, between(across(row.lower), across(row.upper), row.weight));
  });
}

}  // namespace mpe
