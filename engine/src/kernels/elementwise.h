// Loops over whole tensors that quantised networks spend their time in, as vector code: the same
// bits as the plain loops. They depend on nothing but the machine, so there is one choice for the
// whole program.
#pragma once

#include "kernels/kernel_set.h"

namespace mpe {

// Those of the best set that this machine can run; null if it can run none.
const ElementwiseKernels* elementwise_kernels();

}  // namespace mpe
