#include "layers/scaled_copy.h"

#include <algorithm>

#include "layers/value_blocks.h"

namespace mpe {

void copy_scaled(const LayerCall& call, const Workers& workers, int channel, std::int64_t from,
                 std::int64_t to, int count, float scale, float offset) {
  float values[kValueBlock];
  for (int i = 0; i < count; i += kValueBlock) {
    const int length = std::min(kValueBlock, count - i);
    load_values(call.inputs[0].tensor, channel, from + i, length, values, workers.vectors);
    for (int k = 0; k < length; ++k) values[k] = values[k] * scale + offset;
    store_values(values, call.output, channel, to + i, length, workers.vectors);
  }
}

}  // namespace mpe
