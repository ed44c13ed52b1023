// The mean of every channel.
#pragma once

#include "layers/operation.h"

namespace mpe {

void reference_avgpool(const LayerCall& call);

}  // namespace mpe
