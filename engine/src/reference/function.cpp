#include "layers/function.h"

#include <cstddef>

#include "reference/values.h"

namespace mpe {

void reference_function(const FunctionParameters& p, const LayerCall& call) {
  const Shape& out = call.layer.out;
  for_places(out, [&](int c, int y, int x) {
    const std::int64_t here = position(out, c, y, x);
    const float slope = call.values.empty() ? 0.0F : call.values[static_cast<std::size_t>(c)];
    set_value(call.output, c, here,
              compute(p.kind, p, value_at(call.inputs[0].tensor, c, here), slope));
  });
}

}  // namespace mpe
