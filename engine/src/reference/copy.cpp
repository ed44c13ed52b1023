#include "layers/copy.h"

#include "reference/values.h"

namespace mpe {

void reference_copy(const LayerCall& call) {
  const LayerInput& input = call.inputs[0];
  for_places(input.shape, [&](int c, int y, int x) {
    const std::int64_t here = position(input.shape, c, y, x);
    convert_value(input.tensor, c, here, call.output, c, here);
  });
}

}  // namespace mpe
