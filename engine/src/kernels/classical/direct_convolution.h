// Convolution straight from the map with weights as they are loaded: nothing is copied or packed.
#pragma once

#include <memory>

#include "kernels/classical/technique.h"
#include "kernels/convolution.h"
#include "kernels/kernel_set.h"

namespace mpe {

// `technique` says how the work is cut into tiles, and is the algorithm's name.
std::unique_ptr<Convolution> make_direct_convolution(const ConvolutionRequest& request,
                                                     Technique technique, DirectKernel kernel,
                                                     std::string_view isa);

}  // namespace mpe
