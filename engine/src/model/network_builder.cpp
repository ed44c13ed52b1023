#include "model/network_builder.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "error.h"
#include "io/text.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

Activation activation_of(const CfgSection& section, std::string_view absent) {
  const std::string_view word = section.word("activation", absent);
  const auto names = activation_names();
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) {
    const std::string_view near = nearest(word, names);
    section.fail(section.line_of("activation"),
                 "activation " + quoted(word) + " is not one this engine has" +
                     (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
  }
  return static_cast<Activation>(found - names.begin());
}

// fp32, fp16 and int8 are switches of which one at most may be on.
Precision precision_of(const CfgSection& section) {
  constexpr Precision kAll[] = {Precision::kFp32, Precision::kFp16, Precision::kInt8};
  std::optional<Precision> chosen;
  for (const Precision precision : kAll) {
    const std::string_view key = name_of(precision);
    if (section.integer(key, 0, 0, 1) == 0) continue;
    if (chosen) {
      section.fail(section.line_of(key), std::string(name_of(*chosen)) + " and " +
                                             std::string(key) +
                                             " are both 1; a layer has one precision");
    }
    chosen = precision;
  }
  return chosen.value_or(Precision::kFp32);
}

// Refuses keys that would change the result and that this engine does not support.
void refuse(const CfgSection& section, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (section.flag(key)) {
      section.fail(section.line_of(key),
                   quoted(key) + " changes what is computed and is not supported; remove it");
    }
  }
}

// Positions of a window over one axis, or 0 if it does not fit once. Arguments are bounded by
// NetworkLimits, so nothing overflows.
int positions(int in, int padding, int window, int stride) {
  const int room = in + padding - window;
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace

NetworkBuilder::NetworkBuilder(std::string_view file) : keys_(file) { network_.file = file; }

Network NetworkBuilder::build(const std::vector<CfgSection>& sections) {
  if (sections.empty()) throw Error(network_.file + ": no sections; this is not a Darknet cfg");
  net(sections.front());
  if (sections.size() == 1) sections.front().fail("is the only section; there are no layers");
  if (sections.size() - 1 > Limits::kLayers) {
    sections[Limits::kLayers + 1].fail("is beyond the limit of " + std::to_string(Limits::kLayers) +
                                       " layers");
  }
  network_.layers.reserve(sections.size() - 1);
  for (std::size_t i = 1; i < sections.size(); ++i) layer(sections[i]);
  network_.warnings = keys_.take_warnings();
  return std::move(network_);
}

void NetworkBuilder::net(const CfgSection& section) {
  if (section.name() != "net" && section.name() != "network") {
    section.fail("comes first, but a cfg must start with [net]");
  }
  keys_.net(section);
  const auto dimension = [&section](std::string_view key) {
    if (section.find(key) == nullptr) section.fail("needs " + std::string(key) + "=");
    return section.integer(key, 0, 1, Limits::kDimension);
  };
  network_.input = {dimension("channels"), dimension("height"), dimension("width")};
  if (network_.input.elements() > Limits::kElements) {
    section.fail("input " + text_of(network_.input) + " is too large");
  }
}

void NetworkBuilder::layer(const CfgSection& section) {
  Layer layer;
  layer.kind = layer_kind_of(section);
  layer.index = static_cast<int>(network_.layers.size());
  layer.line = section.line();
  keys_.layer(section, layer.kind);
  refuse(section, {"dontload", "dontloadscales", "numload"});
  layer.inputs = {layer.index - 1};
  layer.in = network_.output_shape(layer.index - 1);
  layer.out = layer.in;
  switch (layer.kind) {
    case LayerKind::kConvolutional:
      convolutional(section, layer);
      break;
    case LayerKind::kConnected:
      connected(section, layer);
      break;
    case LayerKind::kMaxpool:
      maxpool(section, layer);
      break;
    case LayerKind::kAvgpool:
      avgpool(layer);
      break;
    case LayerKind::kUpsample:
      upsample(section, layer);
      break;
    case LayerKind::kRoute:
      route(section, layer);
      break;
    case LayerKind::kShortcut:
      shortcut(section, layer);
      break;
    case LayerKind::kScaleChannels:
      scale_channels(section, layer);
      break;
    case LayerKind::kReorg:
      reorg(section, layer);
      break;
    case LayerKind::kCrop:
      crop(section, layer);
      break;
    case LayerKind::kDropout:
      break;
    case LayerKind::kCost:
      break;
    case LayerKind::kSoftmax:
      softmax(section, layer);
      break;
    case LayerKind::kRegion:
      region(section, layer);
      break;
    case LayerKind::kYolo:
      yolo(section, layer);
      break;
  }
  check_shape(section, layer);
  count(section, layer);
  network_.layers.push_back(std::move(layer));
}

// Some algorithms copy the input with its padding, so both are bounded by the input's own size.
void NetworkBuilder::check_extent(const CfgSection& section, const Layer& layer) {
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

void NetworkBuilder::check_shape(const CfgSection& section, const Layer& layer) const {
  const auto fits = [](int value) { return value >= 1 && value <= Limits::kDimension; };
  if (!fits(layer.out.channels) || !fits(layer.out.height) || !fits(layer.out.width) ||
      layer.out.elements() > Limits::kElements) {
    section.fail("layer " + std::to_string(layer.index) + " makes " + text_of(layer.out) + " of " +
                 text_of(layer.in) + ", which is not a size this engine can hold");
  }
}

void NetworkBuilder::count(const CfgSection& section, Layer& layer) {
  elements_ += layer.out.elements();
  if (layer.has_weights()) {
    // Bounded step by step: an output has at most 2^16 channels, a sum at most 2^36 terms.
    const std::int64_t depth =
        layer.kind == LayerKind::kConnected
            ? layer.in.elements()
            : std::int64_t{layer.in.channels / layer.groups} * layer.size_y * layer.size_x;
    layer.parameters = layer.out.channels * (depth + (layer.batch_normalize ? 4 : 1));
    if (layer.parameters > Limits::kParameters) {
      section.fail("layer " + std::to_string(layer.index) + " has " +
                   std::to_string(layer.parameters) + " parameters, more than this engine accepts");
    }
    layer.macs = layer.out.elements() * depth;
  }
  parameters_ += layer.parameters;
  macs_ += layer.macs;
  if (elements_ > Limits::kAllElements || parameters_ > Limits::kAllParameters ||
      macs_ > Limits::kAllMacs) {
    section.fail("layer " + std::to_string(layer.index) + " brings the network to " +
                 std::to_string(elements_) + " activations, " + std::to_string(parameters_) +
                 " parameters and " + std::to_string(macs_) +
                 " multiply-adds, more than this engine accepts");
  }
}

int NetworkBuilder::resolve(const CfgSection& section, std::string_view key, const Layer& layer,
                            int reference) const {
  const std::int64_t index = reference < 0 ? std::int64_t{layer.index} + reference : reference;
  if (index < 0 || index >= layer.index) {
    section.fail(section.line_of(key), std::string(key) + "=" + std::to_string(reference) +
                                           " at layer " + std::to_string(layer.index) +
                                           " points to layer " + std::to_string(index) +
                                           ", which does not come before it");
  }
  return static_cast<int>(index);
}

std::vector<int> NetworkBuilder::references(const CfgSection& section, std::string_view key,
                                            const Layer& layer) const {
  if (section.find(key) == nullptr) section.fail("needs " + std::string(key) + "=");
  std::vector<int> indices = section.integers(key);
  if (indices.size() > Limits::kInputs) {
    section.fail(section.line_of(key),
                 "names more than " + std::to_string(Limits::kInputs) + " layers");
  }
  for (int& index : indices) index = resolve(section, key, layer, index);
  return indices;
}

void NetworkBuilder::convolutional(const CfgSection& section, Layer& layer) {
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
  layer.activation = activation_of(section, "logistic");
  layer.precision = precision_of(section);
  layer.quantize = section.integer("quantize", 0, 0, 1) == 1;

  if (layer.in.channels % layer.groups != 0 || filters % layer.groups != 0) {
    section.fail(section.line_of("groups"),
                 "groups=" + std::to_string(layer.groups) + " divides not both the " +
                     std::to_string(layer.in.channels) + " input channels and the " +
                     std::to_string(filters) + " filters");
  }
  check_extent(section, layer);
  const int window = layer.dilation * (size - 1) + 1;
  layer.out = {filters, positions(layer.in.height, 2 * layer.padding, window, layer.stride_y),
               positions(layer.in.width, 2 * layer.padding, window, layer.stride_x)};
}

void NetworkBuilder::connected(const CfgSection& section, Layer& layer) {
  const int output = section.integer("output", 1, 1, Limits::kDimension);
  layer.batch_normalize = section.flag("batch_normalize");
  layer.activation = activation_of(section, "logistic");
  layer.precision = precision_of(section);
  layer.quantize = section.integer("quantize", 0, 0, 1) == 1;
  layer.out = {output, 1, 1};
}

void NetworkBuilder::maxpool(const CfgSection& section, Layer& layer) {
  refuse(section, {"maxpool_depth", "antialiasing", "maxpool_zero_nonmax"});
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  layer.stride_x = section.integer("stride_x", stride, 1, Limits::kKernel);
  layer.stride_y = section.integer("stride_y", stride, 1, Limits::kKernel);
  const int size = section.integer("size", stride, 1, Limits::kKernel);
  layer.size_x = layer.size_y = size;
  layer.padding = section.integer("padding", size - 1, 0, Limits::kKernel);
  if (layer.padding > 2 * (size - 1)) {
    section.fail(section.line_of("padding"), "padding=" + std::to_string(layer.padding) +
                                                 " leaves windows of size " + std::to_string(size) +
                                                 " without any pixel");
  }
  layer.out = {layer.in.channels, positions(layer.in.height, layer.padding, size, layer.stride_y),
               positions(layer.in.width, layer.padding, size, layer.stride_x)};
}

void NetworkBuilder::avgpool(Layer& layer) { layer.out = {layer.in.channels, 1, 1}; }

void NetworkBuilder::upsample(const CfgSection& section, Layer& layer) {
  layer.stride_x = layer.stride_y = section.integer("stride", 2, 1, Limits::kKernel);
  layer.scale = section.real("scale", 1.0F);
  layer.out = {layer.in.channels, layer.in.height * layer.stride_y,
               layer.in.width * layer.stride_x};
}

void NetworkBuilder::route(const CfgSection& section, Layer& layer) {
  layer.inputs = references(section, "layers", layer);
  layer.groups = section.integer("groups", 1, 1, Limits::kDimension);
  layer.group_id = section.integer("group_id", 0, 0, layer.groups - 1);
  layer.in = network_.output_shape(layer.inputs.front());
  layer.out = {0, layer.in.height, layer.in.width};
  for (const int input : layer.inputs) {
    const Shape& shape = network_.output_shape(input);
    if (shape.height != layer.out.height || shape.width != layer.out.width) {
      section.fail(section.line_of("layers"),
                   "layer " + std::to_string(input) + " is " + text_of(shape) + " and layer " +
                       std::to_string(layer.inputs.front()) + " is " + text_of(layer.in) +
                       "; joined maps must have the same height and width");
    }
    if (shape.channels % layer.groups != 0) {
      section.fail(section.line_of("groups"), "groups=" + std::to_string(layer.groups) +
                                                  " does not divide the " +
                                                  std::to_string(shape.channels) +
                                                  " channels of layer " + std::to_string(input));
    }
    layer.out.channels += shape.channels / layer.groups;
  }
}

void NetworkBuilder::shortcut(const CfgSection& section, Layer& layer) {
  if (section.word("weights_type", "none") != "none") {
    section.fail(section.line_of("weights_type"), "weighted shortcuts are not supported");
  }
  for (const std::string_view key : {"alpha", "beta"}) {
    if (section.real(key, 1.0F) != 1.0F) {
      section.fail(section.line_of(key),
                   "factors of a shortcut are not supported; remove " + quoted(key));
    }
  }
  layer.activation = activation_of(section, "linear");
  for (const int from : references(section, "from", layer)) {
    // Maps of other sizes join as pjreddie's Darknet does it: over the common channels, the larger
    // map in strides, for which the ratio must be the same in both directions.
    const Shape& shape = network_.output_shape(from);
    if (shape.width / layer.in.width != shape.height / layer.in.height ||
        layer.in.width / shape.width != layer.in.height / shape.height) {
      section.fail(section.line_of("from"), "layer " + std::to_string(from) + " is " +
                                                text_of(shape) + ", which does not add to " +
                                                text_of(layer.in));
    }
    layer.inputs.push_back(from);
  }
}

void NetworkBuilder::scale_channels(const CfgSection& section, Layer& layer) {
  const std::vector<int> from = references(section, "from", layer);
  if (from.size() != 1) section.fail(section.line_of("from"), "from= must name one layer");
  layer.inputs.push_back(from.front());
  layer.scale_wh = section.flag("scale_wh");
  layer.activation = activation_of(section, "linear");
  layer.out = network_.output_shape(from.front());
  const Shape factors = layer.scale_wh ? Shape{1, layer.out.height, layer.out.width}
                                       : Shape{layer.out.channels, 1, 1};
  if (layer.in != factors) {
    section.fail("scales layer " + std::to_string(from.front()) + " of " + text_of(layer.out) +
                 " and needs " + text_of(factors) + " factors, but the preceding layer gives " +
                 text_of(layer.in));
  }
}

void NetworkBuilder::reorg(const CfgSection& section, Layer& layer) {
  refuse(section, {"flatten", "extra"});
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  layer.stride_x = layer.stride_y = stride;
  layer.reverse = section.flag("reverse");
  // Darknet's reorg walks its input as if it held channels / stride^2 wide maps, in both
  // directions.
  const int area = stride * stride;
  const bool fits =
      layer.in.channels % area == 0 &&
      (layer.reverse || (layer.in.height % stride == 0 && layer.in.width % stride == 0));
  if (!fits) {
    section.fail(section.line_of("stride"),
                 "stride=" + std::to_string(stride) + " does not fit " + text_of(layer.in));
  }
  if (layer.reverse) {
    layer.out = {layer.in.channels / area, layer.in.height * stride, layer.in.width * stride};
  } else if (layer.in.channels <= Limits::kDimension / area) {
    layer.out = {layer.in.channels * area, layer.in.height / stride, layer.in.width / stride};
  } else {
    section.fail("would make more than " + std::to_string(Limits::kDimension) + " channels");
  }
}

void NetworkBuilder::crop(const CfgSection& section, Layer& layer) {
  const int height = section.integer("crop_height", 1, 1, Limits::kDimension);
  const int width = section.integer("crop_width", 1, 1, Limits::kDimension);
  if (height > layer.in.height || width > layer.in.width) {
    section.fail("cuts " + std::to_string(height) + "x" + std::to_string(width) + " out of " +
                 text_of(layer.in) + ", which is smaller");
  }
  if (!section.flag("noadjust")) {
    layer.scale = 2.0F;
    layer.offset = -1.0F;
  }
  layer.out = {layer.in.channels, height, width};
}

void NetworkBuilder::softmax(const CfgSection& section, Layer& layer) {
  refuse(section, {"spatial"});
  if (section.find("tree") != nullptr) {
    section.fail(section.line_of("tree"), "softmax trees are not supported");
  }
  layer.groups = section.integer("groups", 1, 1, Limits::kDimension);
  layer.temperature = section.real("temperature", 1.0F);
  if (!(layer.temperature > 0.0F)) {
    section.fail(section.line_of("temperature"), "temperature must be above 0");
  }
  if (layer.in.elements() % layer.groups != 0) {
    section.fail(section.line_of("groups"), "groups=" + std::to_string(layer.groups) +
                                                " does not divide the " +
                                                std::to_string(layer.in.elements()) + " inputs");
  }
}

void NetworkBuilder::region(const CfgSection& section, const Layer& layer) {
  const int classes = section.integer("classes", 20, 1, Limits::kDimension);
  const int num = section.integer("num", 1, 1, Limits::kDimension);
  const int coords = section.integer("coords", 4, 0, Limits::kDimension);
  const std::int64_t wanted = (std::int64_t{classes} + coords + 1) * num;
  if (layer.in.channels != wanted) {
    section.fail("needs (classes + coords + 1) * num = " + std::to_string(wanted) +
                 " input channels and gets " + std::to_string(layer.in.channels));
  }
  section.reals("anchors");
}

void NetworkBuilder::yolo(const CfgSection& section, const Layer& layer) {
  const int classes = section.integer("classes", 20, 1, Limits::kDimension);
  const int num = section.integer("num", 1, 1, Limits::kDimension);
  const std::vector<int> mask = section.integers("mask");
  const std::vector<float> anchors = section.reals("anchors");
  const std::int64_t boxes = mask.empty() ? num : static_cast<std::int64_t>(mask.size());
  const std::int64_t wanted = (std::int64_t{classes} + 5) * boxes;
  if (layer.in.channels != wanted) {
    section.fail("needs (classes + 5) * " + std::to_string(boxes) +
                 " boxes = " + std::to_string(wanted) + " input channels and gets " +
                 std::to_string(layer.in.channels));
  }
  for (const int index : mask) {
    if (index < 0 || index >= num ||
        (!anchors.empty() && 2 * (index + std::size_t{1}) > anchors.size())) {
      section.fail(section.line_of("mask"), "mask names anchor " + std::to_string(index) +
                                                ", which num= and anchors= do not have");
    }
  }
}

}  // namespace mpe
