// Convolution 3x3 by Winograd's algorithm.
#pragma once

#include <memory>

#include "kernels/convolution.h"
#include "kernels/convolution_cost.h"
#include "kernels/kernel_set.h"

namespace mpe {

// A plan for the shape, by the memory that may be used; with weights that are transformed on the
// fly, which kernels offer for some forms.
WinogradPlan choose_winograd(const ConvolutionShape& shape, const WinogradKernel& kernel,
                             const WinogradForm& form, bool on_the_fly,
                             const ConvolutionChoice& choice);

// Null where a transformed weight is beyond the range of the type that holds it.
std::unique_ptr<Convolution> make_winograd_convolution(const ConvolutionRequest& request,
                                                       const WinogradKernel& kernel,
                                                       std::string_view isa,
                                                       const WinogradPlan& plan, int threads);

}  // namespace mpe
