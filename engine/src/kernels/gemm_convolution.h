// Convolution by a packed matrix product, one per group.
#pragma once

#include <memory>

#include "kernels/convolution.h"
#include "kernels/kernel_set.h"

namespace mpe {

enum class GemmForm {
  kTiles,   // pixels along the vectors
  kVector,  // output channels along the vectors; for a single output pixel
};

std::unique_ptr<Convolution> make_gemm_convolution(const ConvolutionRequest& request,
                                                   const GemmKernel& kernel, std::string_view isa,
                                                   GemmForm form, bool small_scratch);

}  // namespace mpe
