#include "layers/convolutional.h"

#include <algorithm>
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

// Some algorithms copy the input with its padding, so both are bounded by the input's own size.
void check_extent(const CfgSection& section, const ConvolutionShape& shape) {
  const std::int64_t window = shape.extent_x();
  if (window > Limits::kExtent) {
    section.fail(section.line_of("dilation"),
                 "size=" + std::to_string(shape.kernel_x) +
                     " and dilation=" + std::to_string(shape.dilation) + " make a kernel that is " +
                     std::to_string(window) + " pixels wide; the limit is " +
                     std::to_string(Limits::kExtent));
  }
  const std::int64_t height = std::int64_t{shape.in.height} + 2 * shape.padding;
  const std::int64_t width = std::int64_t{shape.in.width} + 2 * shape.padding;
  if (height * width > std::max(Limits::kPaddedPixels, 4 * shape.in.plane())) {
    const std::string_view key = section.flag("pad") ? "pad" : "padding";
    section.fail(section.line_of(key),
                 std::to_string(shape.padding) + " pixels of padding on every side make " +
                     text_of(shape.in) + " too large: " + std::to_string(height) + "x" +
                     std::to_string(width));
  }
}

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"antialiasing", "binary", "xnor", "flipped", "sway", "rotate", "stretch",
                   "stretch_sway", "coordconv"});
  if (section.find("share_index") != nullptr) {
    section.fail(section.line_of("share_index"), "share_index is not supported; remove it");
  }
  ConvolutionShape shape;
  shape.in = layer.in;
  const int filters = section.integer("filters", 1, 1, Limits::kDimension);
  const int size = section.integer("size", 1, 1, Limits::kKernel);
  // A stride below 1 in one direction means the common one.
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  shape.stride_x = section.integer("stride_x", stride, -1, Limits::kKernel);
  shape.stride_y = section.integer("stride_y", stride, -1, Limits::kKernel);
  if (shape.stride_x < 1) shape.stride_x = stride;
  if (shape.stride_y < 1) shape.stride_y = stride;
  shape.dilation = size == 1 ? 1 : section.integer("dilation", 1, 1, Limits::kKernel);
  int padding = section.integer("padding", 0, 0, Limits::kKernel);
  if (section.flag("pad")) padding = size / 2;
  shape.kernel_x = shape.kernel_y = size;
  shape.padding = padding * shape.dilation;
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
  check_extent(section, shape);
  const auto positions = [&](int in, std::int64_t extent, int stride) {
    return window_positions(in, 2 * shape.padding, static_cast<int>(extent), stride);
  };
  layer.out = {filters, positions(layer.in.height, shape.extent_y(), shape.stride_y),
               positions(layer.in.width, shape.extent_x(), shape.stride_x)};
  shape.out = layer.out;
  layer.sum_terms = std::int64_t{layer.in.channels / shape.groups} * size * size;
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
