#include "random_cfg.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "error.h"
#include "layers/operation.h"
#include "model/weights.h"

namespace {

using mpe::Layer;
using mpe::LayerKind;
using mpe::Network;
using mpe::Shape;

using Pairs = std::vector<std::pair<const char*, int>>;

std::string section(const char* name, const Pairs& keys = {}) {
  std::string text = "[" + std::string(name) + "]\n";
  for (const auto& [key, value] : keys) {
    text += std::string(key) + "=" + std::to_string(value) + "\n";
  }
  return text;
}

// Small enough for a hundred runs with the plain loops and sanitizers.
bool small(const Network& network) {
  std::int64_t elements = network.input.elements();
  std::int64_t operations = 0;
  for (const Layer& layer : network.layers) {
    elements += layer.out.elements();
    operations += layer.macs;
    const mpe::LayerGeometry of = layer.operation->geometry();
    if (!layer.has_filters()) operations += layer.out.elements() * of.size_y * of.size_x;
  }
  return elements <= 60'000 && operations <= 1'500'000 &&
         mpe::weights_file_bytes(network) <= 1'200'000;
}

// One draw a statement, or in braces: the order within an expression is the compiler's, and a seed
// is the same network everywhere.
class CfgGenerator {
 public:
  explicit CfgGenerator(Random& random) : random_(random) {
    constexpr int kShares[] = {0, 10, 40, 75};
    absurd_ = kShares[random_.integer(0, 3)];
    constexpr Policy kPolicies[] = {Policy::kFp32,        Policy::kFp16, Policy::kInt8,
                                    Policy::kDynamicInt8, Policy::kInt8, Policy::kInt8OfBothKinds,
                                    Policy::kMixed,       Policy::kMixed};
    policy_ = kPolicies[random_.integer(0, 7)];
    normalized_ = random_.integer(0, 2) == 0 ? 60 : 15;
    constexpr int kGraphShares[] = {0, 0, 20, 60};
    graph_ = kGraphShares[random_.integer(0, 3)];
  }

  RandomCfg generate() {
    const bool deep = chance(3);
    do {
      shape_.width = dimension();
      shape_.height = chance(40) ? shape_.width : dimension();
      shape_.channels = chance(60) ? random_.integer(1, 6) : random_.integer(1, 40);
    } while (deep ? shape_.elements() < 15'000 || shape_.elements() > 50'000
                  : shape_.elements() > 20'000);
    text_ = section(
        "net", {{"width", shape_.width}, {"height", shape_.height}, {"channels", shape_.channels}});
    const int length = random_.integer(1, chance(50) ? 5 : 14);
    // Sums as long as int32 holds, and longer ones.
    if (deep) add(with_weights(section("connected", {{"output", random_.integer(1, 5)}})));
    for (int tries = 0; layers_ < length && tries < 6 * length; ++tries) add(next());
    if (layers_ == 0) add(section("avgpool"));
    if (chance(5)) add(next(), Refused::kKept);
    return {text_, policy_};
  }

 private:
  bool chance(int percent) { return random_.integer(0, 99) < percent; }

  // Each power of two is as likely as the next.
  int up_to(int most) {
    int bits = 0;
    while ((2 << bits) <= most) ++bits;
    const int power = random_.integer(0, bits);
    const int low = 1 << power;
    return random_.integer(low, std::min(most, 2 * low - 1));
  }

  int dimension() { return chance(70) ? random_.integer(1, 28) : up_to(200); }

  int divisor_of(int number) {
    std::vector<int> divisors;
    for (int i = 1; i <= number; ++i) {
      if (number % i == 0) divisors.push_back(i);
    }
    return divisors[static_cast<std::size_t>(
        random_.integer(0, static_cast<int>(divisors.size()) - 1))];
  }

  enum class Refused { kDropped, kKept };

  // Keeps the sections if the parser accepts them and the network is small enough.
  void add(const std::string& sections, Refused refused = Refused::kDropped) {
    if (sections.empty()) return;
    try {
      network_ = mpe::parse_network(text_ + sections, "random.cfg");
    } catch (const mpe::Error&) {
      if (refused == Refused::kKept) text_ += sections;
      return;
    }
    if (!small(network_)) return;
    text_ += sections;
    shape_ = network_.layers.back().out;
    layers_ = static_cast<int>(network_.layers.size());
  }

  std::string activation() {
    const auto names = mpe::activation_names();
    const auto last = static_cast<int>(names.size()) - 1;
    const std::string name(names[static_cast<std::size_t>(random_.integer(0, last))]);
    return "activation=" + (chance(20) ? std::string("linear") : name) + "\n";
  }

  std::string precision() {
    const std::string fixed = "int8=1\n";
    const std::string dynamic = "int8=1\nquantize=1\n";
    switch (policy_) {
      case Policy::kFp32:
        return chance(50) ? "" : "fp32=1\n";
      case Policy::kFp16:
        return "fp16=1\n";
      case Policy::kInt8:
        return fixed;
      case Policy::kDynamicInt8:
        return dynamic;
      case Policy::kInt8OfBothKinds:
        return chance(50) ? fixed : dynamic;
      case Policy::kMixed:
        break;
    }
    const std::string choices[] = {"",    "fp16=1\n", "fp16=1\nquantize=1\n",
                                   fixed, dynamic,    "int16=1\n"};
    return choices[random_.integer(0, 5)];
  }

  std::string with_weights(std::string text) {
    text += activation();
    if (chance(normalized_)) text += "batch_normalize=1\n";
    return text + precision();
  }

  std::string convolution(int groups, const std::string& keys) {
    const int per_group = chance(80) ? random_.integer(1, 4) : random_.integer(1, 24);
    const int filters = groups == 1 ? random_.integer(1, chance(80) ? 12 : 70) : groups * per_group;
    return with_weights(section("convolutional", {{"filters", filters}, {"groups", groups}}) +
                        keys);
  }

  std::string usual_convolution() {
    switch (random_.integer(0, 5)) {
      case 0:
        return convolution(1, "size=1\n");
      case 1:
      case 2:
        return convolution(1, "size=3\npad=1\n");
      case 3:
        return convolution(1, "size=3\npad=1\nstride=2\n");
      case 4: {
        const int size = 2 * random_.integer(1, 3) + 1;
        const int stride = chance(30) ? 2 : 1;
        return with_weights(section("convolutional", {{"filters", shape_.channels},
                                                      {"groups", shape_.channels},
                                                      {"size", size},
                                                      {"pad", 1},
                                                      {"stride", stride}}));
      }
      default: {
        const int groups = divisor_of(shape_.channels);
        std::string keys = "size=" + std::to_string(random_.integer(1, 7)) + "\n";
        keys += "padding=" + std::to_string(random_.integer(0, 4)) + "\n";
        if (chance(25)) keys += "dilation=2\n";
        if (chance(30)) keys += one_sided();
        return convolution(groups, keys);
      }
    }
  }

  // Sides and axes of their own, as in other languages than Darknet's.
  std::string one_sided() {
    std::string keys;
    for (const char* key : {"size_x", "size_y"}) {
      if (chance(40)) keys += std::string(key) + "=" + std::to_string(random_.integer(1, 5)) + "\n";
    }
    for (const char* key : {"pad_top", "pad_left", "pad_bottom", "pad_right"}) {
      if (chance(50)) keys += std::string(key) + "=" + std::to_string(random_.integer(0, 4)) + "\n";
    }
    for (const char* key : {"dilation_x", "dilation_y"}) {
      if (chance(20)) keys += std::string(key) + "=" + std::to_string(random_.integer(1, 3)) + "\n";
    }
    return keys;
  }

  std::string absurd_convolution() {
    std::string keys = "size=" + std::to_string(up_to(chance(50) ? 12 : 200)) + "\n";
    if (chance(40)) {
      keys += "pad=1\n";
    } else if (chance(70)) {
      keys += "padding=" + std::to_string(up_to(1024)) + "\n";
    }
    if (chance(50)) keys += "dilation=" + std::to_string(up_to(1024)) + "\n";
    if (chance(60)) keys += "stride=" + std::to_string(up_to(chance(50) ? 8 : 1024)) + "\n";
    if (chance(30)) keys += "stride_x=" + std::to_string(up_to(chance(50) ? 8 : 1024)) + "\n";
    if (chance(30)) keys += "stride_y=" + std::to_string(up_to(chance(50) ? 8 : 1024)) + "\n";
    return convolution(chance(50) ? 1 : divisor_of(shape_.channels), keys);
  }

  std::string maxpool() {
    if (!chance(absurd_)) {
      return section("maxpool", {{"size", random_.integer(1, 5)}, {"stride", 1 + layers_ % 2}});
    }
    const int size = up_to(200);
    std::string text = section("maxpool", {{"size", size}, {"stride", up_to(chance(50) ? 4 : 64)}});
    if (chance(40)) text += "padding=" + std::to_string(random_.integer(0, 2 * (size - 1))) + "\n";
    if (chance(30)) text += "stride_x=" + std::to_string(up_to(16)) + "\n";
    if (chance(30)) text += "stride_y=" + std::to_string(up_to(16)) + "\n";
    return text;
  }

  // An earlier layer that fits, as an index, or none.
  template <typename Fits>
  std::optional<int> earlier(Fits&& fits) {
    for (int tries = 0; tries < 8 && layers_ > 0; ++tries) {
      const int index = random_.integer(0, layers_ - 1);
      if (fits(network_.layers[static_cast<std::size_t>(index)])) return index;
    }
    return std::nullopt;
  }

  std::string shortcut() {
    const bool any_size = chance(30);
    const auto from = earlier([&](const Layer& layer) {
      return layer.index < layers_ - 1 && (any_size || layer.out == shape_);
    });
    if (!from) return {};
    std::string text = "[shortcut]\nfrom=" + std::to_string(*from);
    if (const auto more = earlier([&](const Layer& layer) { return layer.out == shape_; });
        more && chance(20)) {
      text += "," + std::to_string(*more);
    }
    return text + "\n" + activation();
  }

  std::string route() {
    if (layers_ == 0) return {};
    std::string layers = std::to_string(chance(70) ? -1 : -random_.integer(1, layers_));
    for (int more = random_.integer(0, 2); more > 0; --more) {
      const auto from = earlier([&](const Layer& layer) {
        return layer.out.height == shape_.height && layer.out.width == shape_.width;
      });
      if (from) layers += "," + std::to_string(*from);
    }
    std::string text = "[route]\nlayers=" + layers + "\n";
    if (!chance(30)) return text;
    const int groups = divisor_of(shape_.channels);
    return text + "groups=" + std::to_string(groups) +
           "\ngroup_id=" + std::to_string(random_.integer(0, groups - 1)) + "\n";
  }

  std::string scale_channels() {
    if (layers_ == 0) return {};
    const int map = layers_ - 1;
    std::string text;
    if (chance(60)) {
      text = section("avgpool") +
             with_weights(section("convolutional", {{"filters", shape_.channels}}));
    } else {
      text = with_weights(section("convolutional", {{"filters", 1}}));
    }
    const bool by_pixel = !text.starts_with("[avgpool]");
    return text + section("scale_channels", {{"from", map}, {"scale_wh", by_pixel ? 1 : 0}}) +
           activation();
  }

  std::string reorg() {
    const bool reverse = chance(40);
    const int stride = chance(80) ? random_.integer(1, 3) : up_to(32);
    return section("reorg", {{"stride", stride}, {"reverse", reverse ? 1 : 0}});
  }

  std::string upsample() {
    std::string text = section("upsample", {{"stride", chance(absurd_) ? up_to(200) : 2}});
    constexpr const char* kScales[] = {"0.5", "-3", "0", "1e4"};
    if (chance(20)) text += "scale=" + std::string(kScales[random_.integer(0, 3)]) + "\n";
    return text;
  }

  std::string crop() {
    return section("crop", {{"crop_height", random_.integer(1, shape_.height)},
                            {"crop_width", random_.integer(1, shape_.width)},
                            {"noadjust", random_.integer(0, 1)}});
  }

  std::string head() {
    switch (random_.integer(0, 3)) {
      case 0: {
        const int groups = divisor_of(shape_.channels);
        constexpr const char* kTemperatures[] = {"1", "0.01", "7.5", "1e-6"};
        return section("softmax", {{"groups", groups}}) +
               "temperature=" + kTemperatures[random_.integer(0, 3)] + "\n";
      }
      case 1:
        return with_weights(section("convolutional", {{"filters", 12}})) +
               section("region", {{"classes", 1}, {"coords", 4}, {"num", 2}});
      case 2:
        return with_weights(section("convolutional", {{"filters", 14}})) +
               "[yolo]\nclasses=2\nnum=3\nmask=0,2\nanchors=1,1,2,2,3,3\n";
      default:
        return section(chance(50) ? "dropout" : "cost");
    }
  }

  std::string axis() {
    constexpr const char* kAxes[] = {"channels", "height", "width"};
    return kAxes[random_.integer(0, 2)];
  }

  std::string sizes(const Shape& shape) {
    return "channels=" + std::to_string(shape.channels) +
           "\nheight=" + std::to_string(shape.height) + "\nwidth=" + std::to_string(shape.width) +
           "\n";
  }

  std::string window() {
    std::string text = "size=" + std::to_string(random_.integer(1, 4)) + "\n";
    text += "stride=" + std::to_string(random_.integer(1, 3)) + "\n";
    if (chance(50)) text += one_sided();
    return text;
  }

  // Of the preceding layer and an earlier one, a constant or an input, of which some axes may be
  // repeated.
  std::string arithmetic() {
    if (layers_ == 0) return {};
    constexpr const char* kNames[] = {"add", "sub", "mul", "div", "minimum", "maximum"};
    const std::string name = kNames[random_.integer(0, 5)];
    const int here = layers_ - 1;
    std::string text;
    std::string other;
    const auto from = earlier([&](const Layer& layer) {
      const Shape& shape = layer.out;
      return layer.index < here && (shape.channels == shape_.channels || shape.channels == 1) &&
             (shape.height == shape_.height || shape.height == 1) &&
             (shape.width == shape_.width || shape.width == 1);
    });
    if (from && chance(70)) {
      other = std::to_string(*from);
    } else {
      Shape shape = shape_;
      if (chance(50)) shape.channels = 1;
      if (chance(50)) shape.height = 1;
      if (chance(50)) shape.width = 1;
      text = (chance(30) ? "[input]\n" : "[constant]\n") + sizes(shape);
      other = "-1";
    }
    const std::string first = std::to_string(here);
    text +=
        "[" + name + "]\nfrom=" + (chance(80) ? first + "," + other : other + "," + first) + "\n";
    return text + activation();
  }

  std::string function() {
    switch (random_.integer(0, 5)) {
      case 0:
        return section("prelu");
      case 1: {
        constexpr const char* kNames[] = {"exp", "sqrt", "abs", "neg"};
        return section(kNames[random_.integer(0, 3)]);
      }
      case 2: {
        constexpr const char* kForms[] = {"leaky\nalpha=0.3\n", "elu\nalpha=0.5\n",
                                          "hard_sigmoid\nalpha=0.2\n", "clip\nmin=-0.5\nmax=2\n",
                                          "clip\nmax=1\n"};
        return std::string("[activation]\nactivation=") + kForms[random_.integer(0, 4)];
      }
      default:
        return "[activation]\n" + activation();
    }
  }

  std::string pool() {
    std::string text = "[pool]\n" + window();
    if (chance(50)) return text;
    return text + "type=average\n" + (chance(50) ? "count_padding=1\n" : "");
  }

  std::string reduce() {
    constexpr const char* kTypes[] = {"mean", "sum", "max", "min", "l2"};
    return "[reduce]\ntype=" + std::string(kTypes[random_.integer(0, 4)]) + "\n" + axes();
  }

  std::string layer_norm() {
    return "[layer_norm]\n" + (chance(20) ? std::string("epsilon=0\n") : "") + axes();
  }

  std::string axes() {
    std::string text = "axes=" + axis();
    if (chance(40)) text += "," + axis();
    return text + "\n";
  }

  std::string reshape() {
    const int values = static_cast<int>(shape_.elements());
    const int channels = divisor_of(values);
    const int height = divisor_of(values / channels);
    return "[reshape]\n" + sizes({channels, height, values / channels / height});
  }

  std::string transpose() {
    std::string axes[] = {"0,1,2", "0,2,1", "1,0,2", "1,2,0", "2,0,1", "2,1,0"};
    if (chance(60)) return "[transpose]\naxes=" + axes[random_.integer(0, 5)] + "\n";
    // The channels in groups, which is how ShuffleNet mixes them.
    const int groups = divisor_of(shape_.channels);
    const int plane = static_cast<int>(shape_.plane());
    return "[transpose]\ndims=" + std::to_string(groups) + "," +
           std::to_string(shape_.channels / groups) + "," + std::to_string(plane) +
           "\naxes=1,0,2\n" + sizes(shape_);
  }

  std::string slice() {
    const std::string along = axis();
    const int size = along == "channels" ? shape_.channels
                     : along == "height" ? shape_.height
                                         : shape_.width;
    const int begin = random_.integer(0, size - 1);
    std::string text = "[slice]\naxis=" + along + "\n";
    if (chance(20)) return text + "step=-" + std::to_string(random_.integer(1, 3)) + "\n";
    text += "begin=" + std::to_string(begin) + "\n";
    text += "end=" + std::to_string(random_.integer(begin + 1, size)) + "\n";
    return text + "step=" + std::to_string(chance(60) ? 1 : random_.integer(1, 3)) + "\n";
  }

  std::string pad() {
    constexpr const char* kModes[] = {"constant", "constant\nvalue=-1.5", "reflect", "edge"};
    std::string text = "[pad]\nmode=" + std::string(kModes[random_.integer(0, 3)]) + "\n";
    for (const char* key :
         {"pad_front", "pad_back", "pad_top", "pad_left", "pad_bottom", "pad_right"}) {
      if (chance(40)) text += std::string(key) + "=" + std::to_string(random_.integer(0, 3)) + "\n";
    }
    return text;
  }

  std::string resize() {
    constexpr const char* kCoordinates[] = {"half_pixel", "pytorch_half_pixel", "asymmetric",
                                            "align_corners"};
    constexpr const char* kRoundings[] = {"floor", "ceil", "round_prefer_floor",
                                          "round_prefer_ceil"};
    std::string text = "[resize]\nwidth=" + std::to_string(random_.integer(1, 40)) + "\n";
    text += "height=" + std::to_string(random_.integer(1, 40)) + "\n";
    text += std::string("mode=") + (chance(50) ? "linear" : "nearest") + "\n";
    text += std::string("coordinates=") + kCoordinates[random_.integer(0, 3)] + "\n";
    return text + "rounding=" + kRoundings[random_.integer(0, 3)] + "\n";
  }

  // With the transpose of an earlier layer, or of the preceding one.
  std::string matmul() {
    if (layers_ == 0) return {};
    const std::string here = std::to_string(layers_ - 1);
    return "[transpose]\naxes=0,2,1\n[matmul]\nfrom=" + here + ",-1\n";
  }

  std::string deconvolution() {
    const int groups = chance(70) ? 1 : divisor_of(shape_.channels);
    std::string text = section("deconvolutional",
                               {{"filters", groups * random_.integer(1, 6)}, {"groups", groups}});
    text += window();
    if (chance(20)) text += "output_pad_x=" + std::to_string(random_.integer(0, 3)) + "\n";
    if (chance(20)) text += "output_pad_y=" + std::to_string(random_.integer(0, 3)) + "\n";
    return text + activation();
  }

  std::string join_along() {
    if (layers_ == 0) return {};
    const bool rows = chance(50);
    const auto from = earlier([&](const Layer& layer) {
      return layer.out.channels == shape_.channels &&
             (rows ? layer.out.width == shape_.width : layer.out.height == shape_.height);
    });
    return std::string("[route]\naxis=") + (rows ? "height" : "width") + "\nlayers=-1" +
           (from ? "," + std::to_string(*from) : "") + "\n";
  }

  // Sections that Darknet does not have.
  std::string graph_section() {
    switch (random_.integer(0, 14)) {
      case 0:
      case 1:
      case 2:
        return arithmetic();
      case 3:
        return function();
      case 4:
      case 5:
        return pool();
      case 6:
        return reduce();
      case 7:
        return reshape();
      case 8:
        return transpose();
      case 9:
        return slice();
      case 10:
        return pad();
      case 11:
        return resize();
      case 12:
        return matmul();
      case 13:
        return deconvolution();
      default:
        if (chance(40)) return join_along();
        return chance(50) ? layer_norm() : "[softmax]\naxis=" + axis() + "\n";
    }
  }

  std::string next() {
    if (chance(graph_)) return graph_section();
    const int kind = random_.integer(0, 19);
    if (kind < 8) return chance(absurd_) ? absurd_convolution() : usual_convolution();
    switch (kind) {
      case 8:
        return with_weights(section("connected", {{"output", random_.integer(1, 40)}}));
      case 9:
      case 10:
        return maxpool();
      case 11:
        return chance(30) ? section("avgpool") : maxpool();
      case 12:
      case 13:
        return shortcut();
      case 14:
      case 15:
        return route();
      case 16:
        return scale_channels();
      case 17:
        return reorg();
      case 18:
        return chance(50) ? upsample() : crop();
      default:
        return head();
    }
  }

  Random& random_;
  int absurd_ = 0;      // per cent of the layers
  int normalized_ = 0;  // per cent of the layers with weights
  int graph_ = 0;       // per cent of the sections that Darknet does not have
  Policy policy_ = Policy::kFp32;
  std::string text_;
  Network network_;
  Shape shape_;
  int layers_ = 0;
};

}  // namespace

RandomCfg random_differential_cfg(Random& random) { return CfgGenerator(random).generate(); }

std::string without_precisions(const std::string& cfg) {
  std::istringstream lines(cfg);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const bool precision = line.starts_with("fp16=") || line.starts_with("fp32=") ||
                           line.starts_with("int8=") || line.starts_with("int16=") ||
                           line.starts_with("quantize=");
    if (!precision) kept += line + "\n";
  }
  return kept;
}
