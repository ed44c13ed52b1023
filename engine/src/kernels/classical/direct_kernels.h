// Direct convolution of fp32 with a kernel set's vectors. Each is a file of its own,
// <set>/direct.cpp, so that the sets are compiled alike with the ablation and without it: a
// compiler that keeps its results, as Zig does, takes them from there.
#pragma once

#include "kernels/kernel_set.h"

namespace mpe {

#if defined(__aarch64__)
void direct_neon(const DirectWork& work);
void direct_neon_in_order(const DirectWork& work);  // the same, scheduled for in-order cores
#elif defined(__x86_64__)
void direct_avx2(const DirectWork& work);
#endif

}  // namespace mpe
