// Transposed convolutions: each input value adds its window to the output.
#pragma once

#include "layers/operation.h"
#include "layers/window.h"

namespace mpe {

// Values of the layer: biases [filters], weights [input channels][filters / groups][y][x].
struct DeconvolutionParameters {
  Window window;  // its padding is cut off the output
  int groups = 1;
};

void reference_deconvolution(const DeconvolutionParameters& p, const LayerCall& call);

}  // namespace mpe
