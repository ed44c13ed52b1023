// Products of matrices, one for each channel.
#pragma once

#include "layers/operation.h"

namespace mpe {

void reference_matmul(const LayerCall& call);

}  // namespace mpe
