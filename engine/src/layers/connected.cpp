#include <memory>

#include "layers/convolutional.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  const int output = section.integer("output", 1, 1, Limits::kDimension);
  layer.batch_normalize = section.flag("batch_normalize");
  layer.activation = read_activation(section, "logistic");
  read_precision(section, layer);
  layer.out = {output, 1, 1};
  layer.sum_terms = layer.in.elements();
  layer.rules = {.precision = PrecisionRule::kAsked, .weights = WeightsRule::kConnected};
  ConvolutionShape shape;
  shape.in = {static_cast<int>(layer.in.elements()), 1, 1};
  shape.out = layer.out;
  layer.operation = std::make_shared<ConvolutionOperation>(shape);
}

}  // namespace

const LayerType kConnectedLayer{.read = read};

}  // namespace mpe
