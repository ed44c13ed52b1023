// The sum of two maps of one shape and precision by vector code: most shortcuts and additions.
#pragma once

#include "kernels/elementwise.h"
#include "layers/operation.h"

namespace mpe {

// Can sum_pair() compute the layer, activate(a + b)?
bool sums_pair(const LayerCall& call);

void sum_pair(const LayerCall& call, const Workers& workers);

}  // namespace mpe
