// Darknet's own way from space to depth.
#pragma once

#include "layers/operation.h"

namespace mpe {

struct ReorgParameters {
  int stride = 1;
  bool reverse = false;  // depth to space
};

void reference_reorg(const ReorgParameters& p, const LayerCall& call);

}  // namespace mpe
