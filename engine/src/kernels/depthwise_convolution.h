// Convolution in which every output channel reads one input channel.
#pragma once

#include <memory>

#include "kernels/convolution.h"
#include "kernels/kernel_set.h"

namespace mpe {

std::unique_ptr<Convolution> make_depthwise_convolution(const ConvolutionRequest& request,
                                                        const DepthwiseKernel& kernel,
                                                        std::string_view isa, bool in_place);

}  // namespace mpe
