// The mean of a window that slides over the map.
#pragma once

#include "layers/operation.h"
#include "layers/window.h"

namespace mpe {

struct AverageParameters {
  Window window;
  bool count_padding = false;  // places of the padding count as zeros
};

void reference_average(const AverageParameters& p, const LayerCall& call);

}  // namespace mpe
