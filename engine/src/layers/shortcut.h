// Sums of maps, which may differ in size.
#pragma once

#include "layers/operation.h"

namespace mpe {

void reference_shortcut(const LayerCall& call);

}  // namespace mpe
