#include "layers/convolutional.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/window.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"antialiasing", "binary", "xnor", "flipped", "sway", "rotate", "stretch",
                   "stretch_sway", "coordconv"});
  if (section.find("share_index") != nullptr) {
    section.fail(section.line_of("share_index"), "share_index is not supported; remove it");
  }
  ConvolutionShape shape;
  shape.in = layer.in;
  const int filters = section.integer("filters", 1, 1, Limits::kDimension);
  const Window window = read_window(section, layer.in);
  shape.kernel_y = window.y.size;
  shape.kernel_x = window.x.size;
  shape.stride_y = window.y.stride;
  shape.stride_x = window.x.stride;
  shape.dilation_y = window.y.dilation;
  shape.dilation_x = window.x.dilation;
  shape.padding_y = window.y.before;
  shape.padding_x = window.x.before;
  shape.groups = section.integer("groups", 1, 1, Limits::kDimension);
  layer.batch_normalize = section.flag("batch_normalize") || section.flag("cbn");
  layer.activation = read_activation(section, "logistic");
  read_precision(section, layer);

  if (layer.in.channels % shape.groups != 0 || filters % shape.groups != 0) {
    section.fail(section.line_of("groups"),
                 "groups=" + std::to_string(shape.groups) + " divides not both the " +
                     std::to_string(layer.in.channels) + " input channels and the " +
                     std::to_string(filters) + " filters");
  }
  layer.out = {filters, window.y.positions(layer.in.height), window.x.positions(layer.in.width)};
  shape.out = layer.out;
  layer.sum_terms = std::int64_t{layer.in.channels / shape.groups} * window.y.size * window.x.size;
  layer.rules = {.precision = PrecisionRule::kAsked,
                 .weights = WeightsRule::kConvolutional,
                 .channels_apart = shape.depthwise()};
  layer.operation = std::make_shared<ConvolutionOperation>(shape);
}

}  // namespace

LayerGeometry ConvolutionOperation::geometry() const {
  return {parameters_.groups, parameters_.kernel_y, parameters_.kernel_x, parameters_.stride_y,
          parameters_.stride_x};
}

const LayerType kConvolutionalLayer{.read = read};

}  // namespace mpe
