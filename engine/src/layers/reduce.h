// One value for all that lie along some axes.
#pragma once

#include <cstdint>

#include "layers/operation.h"

namespace mpe {

enum class Reduction : std::uint8_t { kMean, kSum, kMax, kMin, kL2 };

struct ReduceParameters {
  Reduction reduction = Reduction::kMean;
  bool channels = false;
  bool height = false;
  bool width = false;
};

void reference_reduce(const ReduceParameters& p, const LayerCall& call);

}  // namespace mpe
