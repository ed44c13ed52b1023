// The weights of Winograd's convolution in float or half, as its kernels read them.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/aligned_buffer.h"
#include "kernels/convolution.h"
#include "kernels/convolution_cost.h"
#include "kernels/kernel_set.h"

namespace mpe {

struct WinogradWeights {
  // [position][block][channel][value of the position][row]; of an image [row][column]
  // [kImageColumn]; on the fly as they are: [block][vector of a channel's rows][tap][lane].
  AlignedBuffer values;
  // Whether the transformed weights, which may be more than twice as large as the largest weight,
  // and the factors that undo their scale are within the range of their types.
  bool in_range = true;
  // Where sums are halves: what undoes the scale of each output channel's weights.
  std::vector<float> unscales;
  // The same where the input is smaller.
  std::vector<float> unscales_of_smaller;

  std::size_t bytes() const {
    return values.size() + (unscales.size() + unscales_of_smaller.size()) * sizeof(float);
  }
};

WinogradWeights pack_winograd_weights(const ConvolutionRequest& request,
                                      const WinogradKernel& kernel, const WinogradPlan& plan);

}  // namespace mpe
