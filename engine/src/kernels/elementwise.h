// Loops over whole tensors that networks spend their time in beside convolutions, as vector code:
// the same bits as the plain loops.
#pragma once

#include <string_view>

#include "kernels/kernel_set.h"
#include "threads/thread_pool.h"

namespace mpe {

struct ElementwiseChoice {
  const ElementwiseKernels* kernels = nullptr;  // null: plain loops
  std::string_view isa;                         // the set they come from, or "reference"
};

// As for convolutions: of the best set that may be used, or the next one down that has some; plain
// loops for the instruction set or the algorithm "reference". Throws mpe::Error on an instruction
// set that does not exist or that this machine cannot run. (Defined in kernels/select.cpp.)
ElementwiseChoice choose_elementwise(std::string_view isa, std::string_view algorithm);

// What a loop over tensors runs on.
struct Workers {
  ThreadPool& pool;
  const ElementwiseKernels* vectors = nullptr;  // null: plain loops
};

}  // namespace mpe
