// The input as an array of any number of axes, which change places.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/operation.h"

namespace mpe {

struct TransposeParameters {
  std::vector<std::int64_t> sizes;    // of the output's axes
  std::vector<std::int64_t> strides;  // of the output's axes in the input
};

void reference_transpose(const TransposeParameters& p, const LayerCall& call);

}  // namespace mpe
