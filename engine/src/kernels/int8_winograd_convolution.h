// int8 convolution by Winograd's F(4x4, 3x3), bit for bit the plain loops' sums.
#pragma once

#include <memory>

#include "kernels/convolution.h"
#include "kernels/kernel_set.h"

namespace mpe {

// Whether the shape is one that Winograd serves and the weights keep every sum exact.
bool int8_winograd_is_exact(const ConvolutionRequest& request);

// Whether it is likely to be faster than multiplying as it stands, 16 products in three operations.
bool int8_winograd_pays(const ConvolutionShape& shape, const Int8WinogradKernel& kernel);

// Null if the choice asks for small scratch, and that does not suffice or saves no time.
std::unique_ptr<Convolution> make_int8_winograd_convolution(const ConvolutionRequest& request,
                                                            const Int8WinogradKernel& kernel,
                                                            std::string_view isa,
                                                            const ConvolutionChoice& choice);

}  // namespace mpe
