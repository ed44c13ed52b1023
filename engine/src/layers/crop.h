// The middle of a map: output = scale * input + offset.
#pragma once

#include "layers/operation.h"

namespace mpe {

struct CropParameters {
  float scale = 1.0F;
  float offset = 0.0F;
  bool moves_only() const { return scale == 1.0F && offset == 0.0F; }
};

void reference_crop(const CropParameters& p, const LayerCall& call);

}  // namespace mpe
