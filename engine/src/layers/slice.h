// Every step-th place of one axis.
#pragma once

#include <cstdint>

#include "layers/operation.h"
#include "model/shape.h"

namespace mpe {

struct SliceParameters {
  Axis axis = Axis::kChannels;
  int begin = 0;
  int step = 1;  // below 0: backwards
};

void reference_slice(const SliceParameters& p, const LayerCall& call);

}  // namespace mpe
