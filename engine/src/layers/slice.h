// Every step-th place of one axis.
#pragma once

#include <cstdint>

#include "model/shape.h"

namespace mpe {

struct SliceParameters {
  Axis axis = Axis::kChannels;
  int begin = 0;
  int step = 1;  // below 0: backwards
};

}  // namespace mpe
