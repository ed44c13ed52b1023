// int8 convolution by a packed product from a channel-interleaved copy of the input.
#pragma once

#include <memory>

#include "kernels/convolution.h"
#include "kernels/kernel_set.h"

namespace mpe {

// One group and more than one output pixel.
bool suits_interleaved(const ConvolutionShape& shape);

std::unique_ptr<Convolution> make_interleaved_convolution(const ConvolutionRequest& request,
                                                          const InterleavedKernel& kernel,
                                                          std::string_view isa,
                                                          const ConvolutionChoice& choice);

}  // namespace mpe
