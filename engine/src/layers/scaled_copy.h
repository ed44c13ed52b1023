// Copies of values that are scaled on their way.
#pragma once

#include <cstdint>

#include "layers/operation.h"

namespace mpe {

// output[to + i] = scale * input[from + i] + offset within one channel, in float, for tensors of
// any precision. `from` and `to` count values from the tensors' starts.
void copy_scaled(const LayerCall& call, const Workers& workers, int channel, std::int64_t from,
                 std::int64_t to, int count, float scale, float offset);

}  // namespace mpe
