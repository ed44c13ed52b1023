// Convolution as one matrix product: every patch of the input is written out as a column first.
#pragma once

#include <functional>
#include <memory>

#include "kernels/convolution.h"

namespace mpe {

// `multiply` prepares the product, described as a pointwise convolution of the matrix.
std::unique_ptr<Convolution> make_im2col_convolution(
    const ConvolutionRequest& request,
    const std::function<std::unique_ptr<Convolution>(const ConvolutionRequest&)>& multiply);

}  // namespace mpe
