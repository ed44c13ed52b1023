// Repeats every value in a square, times a factor.
#pragma once

#include "layers/operation.h"

namespace mpe {

struct UpsampleParameters {
  int stride = 1;  // of the square
  float scale = 1.0F;
};

void reference_upsample(const UpsampleParameters& p, const LayerCall& call);

}  // namespace mpe
