// The ablation's direct convolution with AVX2 and FMA.
#include "kernels/classical/direct_kernels.h"

// The generic code is written over these vectors, so they come first.
// clang-format off
#include "kernels/avx2/vectors.h"
// clang-format on
#include "kernels/generic/direct_vectors.h"

namespace mpe {

void direct_avx2(const DirectWork& work) { Direct<DirectFp32<4, 2>>::run(work); }

}  // namespace mpe
