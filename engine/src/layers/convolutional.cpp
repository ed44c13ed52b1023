#include <algorithm>
#include <cstdint>
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
void check_extent(const CfgSection& section, const Layer& layer) {
  const int window = layer.dilation * (layer.size_x - 1) + 1;
  if (window > Limits::kExtent) {
    section.fail(section.line_of("dilation"),
                 "size=" + std::to_string(layer.size_x) +
                     " and dilation=" + std::to_string(layer.dilation) + " make a kernel that is " +
                     std::to_string(window) + " pixels wide; the limit is " +
                     std::to_string(Limits::kExtent));
  }
  const std::int64_t height = std::int64_t{layer.in.height} + 2 * layer.padding;
  const std::int64_t width = std::int64_t{layer.in.width} + 2 * layer.padding;
  const std::int64_t pixels = std::int64_t{layer.in.height} * layer.in.width;
  if (height * width > std::max(Limits::kPaddedPixels, 4 * pixels)) {
    const std::string_view key = section.flag("pad") ? "pad" : "padding";
    section.fail(section.line_of(key),
                 std::to_string(layer.padding) + " pixels of padding on every side make " +
                     text_of(layer.in) + " too large: " + std::to_string(height) + "x" +
                     std::to_string(width));
  }
}

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"antialiasing", "binary", "xnor", "flipped", "sway", "rotate", "stretch",
                   "stretch_sway", "coordconv"});
  if (section.find("share_index") != nullptr) {
    section.fail(section.line_of("share_index"), "share_index is not supported; remove it");
  }
  const int filters = section.integer("filters", 1, 1, Limits::kDimension);
  const int size = section.integer("size", 1, 1, Limits::kKernel);
  // A stride below 1 in one direction means the common one.
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  layer.stride_x = section.integer("stride_x", stride, -1, Limits::kKernel);
  layer.stride_y = section.integer("stride_y", stride, -1, Limits::kKernel);
  if (layer.stride_x < 1) layer.stride_x = stride;
  if (layer.stride_y < 1) layer.stride_y = stride;
  layer.dilation = size == 1 ? 1 : section.integer("dilation", 1, 1, Limits::kKernel);
  int padding = section.integer("padding", 0, 0, Limits::kKernel);
  if (section.flag("pad")) padding = size / 2;
  layer.size_x = layer.size_y = size;
  layer.padding = padding * layer.dilation;
  layer.groups = section.integer("groups", 1, 1, Limits::kDimension);
  layer.batch_normalize = section.flag("batch_normalize") || section.flag("cbn");
  layer.activation = read_activation(section, "logistic");
  read_precision(section, layer);

  if (layer.in.channels % layer.groups != 0 || filters % layer.groups != 0) {
    section.fail(section.line_of("groups"),
                 "groups=" + std::to_string(layer.groups) + " divides not both the " +
                     std::to_string(layer.in.channels) + " input channels and the " +
                     std::to_string(filters) + " filters");
  }
  check_extent(section, layer);
  const int window = layer.dilation * (size - 1) + 1;
  layer.out = {filters,
               window_positions(layer.in.height, 2 * layer.padding, window, layer.stride_y),
               window_positions(layer.in.width, 2 * layer.padding, window, layer.stride_x)};
  layer.sum_terms = std::int64_t{layer.in.channels / layer.groups} * size * size;
  const bool depthwise = layer.groups > 1 && layer.groups == layer.in.channels;
  layer.rules = {.precision = PrecisionRule::kAsked,
                 .weights = WeightsRule::kConvolutional,
                 .channels_apart = depthwise && filters == layer.in.channels};
}

}  // namespace

const LayerType kConvolutionalLayer{.read = read};

}  // namespace mpe
