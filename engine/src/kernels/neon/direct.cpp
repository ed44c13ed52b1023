// The ablation's direct convolution for every arm64 core.
#include "kernels/classical/direct_kernels.h"

// The generic code is written over these vectors, so they come first.
// clang-format off
#include "kernels/neon/vectors.h"
// clang-format on
#include "kernels/generic/direct_vectors.h"

namespace mpe {

#ifndef MPE_NEON_DIRECT
#define MPE_NEON_DIRECT direct_neon
#endif
void MPE_NEON_DIRECT(const DirectWork& work) { Direct<DirectFp32<4, 4>>::run(work); }

}  // namespace mpe
