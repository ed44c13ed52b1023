// The techniques that need no instruction set of their own, as plain functions over DirectWork.
#pragma once

#include "kernels/classical/technique.h"
#include "kernels/kernel_set.h"
#include "model/precision.h"

namespace mpe {

// The loops of kPlain up to kUnrolled; kReordered and kTiled differ in the size of tiles alone.
DirectKernel classical_loops(Technique technique, Precision precision);

}  // namespace mpe
