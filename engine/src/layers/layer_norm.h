// Layer normalisation: (x - mean) / sqrt(variance + epsilon) of all values along some axes.
#pragma once

#include "layers/operation.h"

namespace mpe {

struct LayerNormParameters {
  bool channels = false;
  bool height = false;
  bool width = false;
  float epsilon = 1e-5F;
};

void reference_layer_norm(const LayerNormParameters& p, const LayerCall& call);

}  // namespace mpe
