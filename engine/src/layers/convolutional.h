// Layers with weights: the session prepares a Convolution that computes them.
#pragma once

#include "kernels/convolution.h"
#include "layers/operation.h"

namespace mpe {

// Of convolutional layers, and of connected ones, which are 1x1 over a map of 1x1.
class ConvolutionOperation final : public OperationWith<ConvolutionShape> {
 public:
  using OperationWith::OperationWith;
  LayerGeometry geometry() const override;
  const ConvolutionShape* convolution() const override { return &parameters_; }
};

}  // namespace mpe
