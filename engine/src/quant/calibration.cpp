#include "quant/calibration.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "error.h"
#include "io/file.h"
#include "io/json_reader.h"
#include "io/text.h"

namespace mpe {

namespace {

class CalibrationParser {
 public:
  CalibrationParser(std::string_view text, std::string_view name, const Network& network)
      : reader_(text, name), network_(network), calibration_(network.layers.size()) {}

  Calibration parse() {
    bool format = false;
    bool version = false;
    bool tensors = false;
    reader_.object([&](std::string_view key) {
      if (key == "format") {
        check_format();
        format = true;
      } else if (key == "version") {
        reader_.integer(1, 1);
        version = true;
      } else if (key == "network") {
        check_network();
      } else if (key == "tensors") {
        reader_.array([this] { tensor(); });
        tensors = true;
      } else if (key == "weights") {
        reader_.array([this] { weights(); });
      } else {
        reader_.skip();
      }
    });
    reader_.end();
    if (!format || !version || !tensors) {
      reader_.fail(0, "not a calibration file: \"format\", \"version\" or \"tensors\" is missing");
    }
    return std::move(calibration_);
  }

 private:
  void check_format() {
    const std::size_t start = reader_.offset();
    const std::string format = reader_.string();
    if (format != "mpe-calibration") {
      reader_.fail(start, "format is " + quoted(format) + ", not 'mpe-calibration'");
    }
  }

  void check_network() {
    const std::size_t start = reader_.offset();
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    bool same = true;
    reader_.object([&](std::string_view key) {
      if (key == "layers") {
        same &= reader_.integer(0, kMost) == std::ssize(network_.layers);
      } else if (key == "input") {
        const int wanted[] = {network_.input.channels, network_.input.height, network_.input.width};
        std::size_t count = 0;
        reader_.array([&] {
          const std::int64_t size = reader_.integer(0, kMost);
          same &= count < std::size(wanted) && size == wanted[count];
          ++count;
        });
        same &= count == std::size(wanted);
      } else {
        reader_.skip();
      }
    });
    if (!same) {
      reader_.fail(start, "made for a network with another input size or number of layers than " +
                              network_.file + "; run harness calibrate for this one");
    }
  }

  void tensor() {
    const std::size_t start = reader_.offset();
    std::optional<int> layer;
    std::optional<float> min;
    std::optional<float> max;
    std::optional<float> scale;
    std::optional<std::int64_t> zero_point;
    std::vector<float> channel_min;
    std::vector<float> channel_max;
    reader_.object([&](std::string_view key) {
      if (key == "layer") {
        layer = static_cast<int>(reader_.integer(kNetworkInput, std::ssize(network_.layers) - 1));
      } else if (key == "min") {
        min = value();
      } else if (key == "max") {
        max = value();
      } else if (key == "scale") {
        scale = step();
      } else if (key == "zero_point") {
        zero_point = reader_.integer(-128, 127);
      } else if (key == "channel_min") {
        channel_min = values();
      } else if (key == "channel_max") {
        channel_max = values();
      } else {
        reader_.skip();
      }
    });
    const bool published = scale && zero_point;
    if (published) {
      min = static_cast<float>(-128 - *zero_point) * *scale;
      max = static_cast<float>(127 - *zero_point) * *scale;
    }
    if (!layer || !min || !max || scale.has_value() != zero_point.has_value()) {
      reader_.fail(start,
                   "a tensor needs \"layer\", and \"min\" and \"max\" or \"scale\" and "
                   "\"zero_point\"");
    }
    if (calibration_.find(*layer) != nullptr) {
      reader_.fail(start, "second entry for layer " + std::to_string(*layer));
    }
    const auto channels = static_cast<std::size_t>(network_.output_shape(*layer).channels);
    if (channel_min.size() != channel_max.size() ||
        (!channel_min.empty() && channel_min.size() != channels)) {
      reader_.fail(start, "layer " + std::to_string(*layer) + " has " + std::to_string(channels) +
                              " channels, but channel_min has " +
                              std::to_string(channel_min.size()) + " and channel_max " +
                              std::to_string(channel_max.size()) + " values");
    }
    TensorRange ranges{range(start, *layer, *min, *max), {}, {}};
    if (published) ranges.step = {*scale, static_cast<std::int32_t>(*zero_point)};
    ranges.channels.reserve(channel_min.size());
    for (std::size_t c = 0; c < channel_min.size(); ++c) {
      ranges.channels.push_back(range(start, *layer, channel_min[c], channel_max[c]));
    }
    calibration_.record(*layer, std::move(ranges));
  }

  void weights() {
    const std::size_t start = reader_.offset();
    std::optional<int> index;
    std::vector<float> scales;
    reader_.object([&](std::string_view key) {
      if (key == "layer") {
        index = static_cast<int>(reader_.integer(0, std::ssize(network_.layers) - 1));
      } else if (key == "scales") {
        reader_.array([&] { scales.push_back(step()); });
      } else {
        reader_.skip();
      }
    });
    if (!index || scales.empty()) {
      reader_.fail(start, "weights need \"layer\" and \"scales\"");
    }
    const Layer& layer = network_.layers[static_cast<std::size_t>(*index)];
    const auto channels = static_cast<std::size_t>(layer.out.channels);
    if (scales.size() == 1) scales = std::vector<float>(channels, scales.front());
    if (!layer.has_filters() || scales.size() != channels) {
      reader_.fail(start, "layer " + std::to_string(*index) + " is " +
                              (layer.has_filters() ? "of " + std::to_string(channels) + " channels"
                                                   : "without weights") +
                              ", but scales has " + std::to_string(scales.size()) + " values");
    }
    if (!calibration_.weight_scales(*index).empty()) {
      reader_.fail(start, "second entry for the weights of layer " + std::to_string(*index));
    }
    calibration_.record_weights(*index, std::move(scales));
  }

  // The scale of a step: such that no product of two of them is 0 or infinite.
  float step() {
    const std::size_t start = reader_.offset();
    const float scale = value();
    if (!(scale >= 1e-18F && scale <= 1e18F)) {
      reader_.fail(start, "a scale must be from 1e-18 to 1e18");
    }
    return scale;
  }

  Range range(std::size_t start, int layer, float min, float max) const {
    if (min > max) {
      reader_.fail(start, "layer " + std::to_string(layer) + " has a minimum above its maximum");
    }
    return {min, max};
  }

  float value() {
    const std::size_t start = reader_.offset();
    const auto value = static_cast<float>(reader_.number());
    if (!std::isfinite(value)) reader_.fail(start, "the number is beyond float's range");
    return value;
  }

  std::vector<float> values() {
    std::vector<float> values;
    reader_.array([&] { values.push_back(value()); });
    return values;
  }

  JsonReader reader_;
  const Network& network_;
  Calibration calibration_;
};

}  // namespace

const TensorRange* Calibration::find(int layer) const {
  const std::optional<TensorRange>& tensor = tensors_.at(static_cast<std::size_t>(layer + 1));
  return tensor ? &*tensor : nullptr;
}

void Calibration::record(int layer, TensorRange ranges) {
  tensors_.at(static_cast<std::size_t>(layer + 1)) = std::move(ranges);
}

std::span<const float> Calibration::weight_scales(int layer) const {
  const auto found = weight_scales_.find(layer);
  return found == weight_scales_.end() ? std::span<const float>() : found->second;
}

void Calibration::record_weights(int layer, std::vector<float> scales) {
  weight_scales_[layer] = std::move(scales);
}

Calibration parse_calibration(std::string_view text, std::string_view name,
                              const Network& network) {
  return CalibrationParser(text, name, network).parse();
}

Calibration load_calibration(const std::string& path, const Network& network) {
  constexpr std::size_t kLargestCalibration = std::size_t{64} << 20;
  return parse_calibration(read_file(path, kLargestCalibration), path, network);
}

}  // namespace mpe
