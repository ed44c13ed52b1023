// The input as an array of any number of axes, which change places.
#pragma once

#include <cstdint>
#include <vector>

namespace mpe {

struct TransposeParameters {
  std::vector<std::int64_t> sizes;    // of the output's axes
  std::vector<std::int64_t> strides;  // of the output's axes in the input
};

}  // namespace mpe
