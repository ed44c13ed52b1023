#include "random_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/json_writer.h"

namespace {

using mpe::Layer;
using mpe::Network;

constexpr float kLargestHalf = 65504.0F;

// Powers of two are exact on every machine, unlike those of ten.
float power_between(Random& random, int low, int high) {
  return std::ldexp(1.0F, random.integer(low, high));
}

void scale_all(std::vector<float>& values, float factor) {
  for (float& value : values) value *= factor;
}

// Values of the order of `spread`, or all of one kind.
std::vector<float> filters_of(std::int64_t count, float spread, Nature nature, Random& random) {
  std::vector<float> values = random.values(count, -spread, spread);
  float& some = values[static_cast<std::size_t>(random.integer(0, static_cast<int>(count) - 1))];
  const int kinds[] = {7, 12, 20};
  switch (random.integer(0, kinds[static_cast<int>(nature)])) {
    case 0:
      some *= 10000.0F;  // an outlier
      break;
    case 1:
      std::fill(values.begin(), values.end(), spread);
      break;
    case 2:
      for (float& value : values) value = random.integer(0, 3) == 0 ? value : 0.0F;
      break;
    case 8:
      some = kLargestHalf;
      break;
    case 9:
      for (float& value : values) value = value < 0.0F ? -kLargestHalf : kLargestHalf;
      break;
    case 10:
      scale_all(values, kLargestHalf / spread);
      break;
    case 11:
      scale_all(values, power_between(random, -24, -10));  // halves below the normal ones
      break;
    case 12:
      for (float& value : values) value *= power_between(random, -14, 8);
      break;
    case 13:
      std::fill(values.begin(), values.end(), 0.0F);
      break;
    case 14:
      scale_all(values, power_between(random, -148, -120));  // not normal even in float
      break;
    case 15:
      scale_all(values, power_between(random, 20, 100));
      break;
    case 16:
      some = 1e30F;
      break;
    case 17:
      for (float& value : values) value *= power_between(random, -60, 40);
      break;
    default:
      break;
  }
  return values;
}

std::vector<float> biases_of(int count, Nature nature, Random& random) {
  std::vector<float> values = random.values(count, -0.5F, 0.5F);
  const int kinds[] = {5, 8, 12};
  switch (random.integer(0, kinds[static_cast<int>(nature)])) {
    case 0:
      std::fill(values.begin(), values.end(), 0.0F);
      break;
    case 6:
      scale_all(values, 2.0F * kLargestHalf);
      break;
    case 7:
      scale_all(values, 1000.0F);
      break;
    case 9:
      scale_all(values, power_between(random, 10, 100));
      break;
    case 10:
      scale_all(values, power_between(random, -140, -20));
      break;
    default:
      break;
  }
  return values;
}

struct Norm {
  std::vector<float> scales;
  std::vector<float> means;
  std::vector<float> variances;
};

Norm norm_of(int count, Nature nature, Random& random) {
  Norm norm;
  norm.scales = random.values(count, 0.25F, 2.0F);
  norm.means = random.values(count, -0.5F, 0.5F);
  norm.variances = random.values(count, 0.1F, 2.0F);
  if (random.integer(0, 2) == 0) {
    constexpr float kTiny[] = {0.0F, 1e-12F, 1e-30F, 1e-6F, 1e6F};
    const float variance = kTiny[random.integer(0, 4)];
    for (float& value : norm.variances) value = random.integer(0, 2) == 0 ? variance : value;
  }
  if (nature == Nature::kUsual) return norm;
  switch (random.integer(0, 7)) {
    case 0:
      scale_all(norm.scales, power_between(random, 4, 12));
      break;
    case 1:
      scale_all(norm.scales, -1.0F);
      break;
    case 2:
      std::fill(norm.scales.begin(), norm.scales.end(), 0.0F);
      break;
    case 3:
      scale_all(norm.means, power_between(random, 4, 20));
      break;
    case 4:
      if (nature == Nature::kAdversarial) norm.variances.front() = -1.0F;  // NaN once folded in
      break;
    default:
      break;
  }
  return norm;
}

void append(std::string& bytes, const std::vector<float>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

// To nine significant bits, which no other rounding of a sum reaches.
float rounded(float value) {
  if (!std::isfinite(value)) return 0.0F;
  int exponent = 0;
  const float fraction = std::frexp(std::clamp(value, -1e38F, 1e38F), &exponent);
  return std::ldexp(std::nearbyint(fraction * 256.0F) / 256.0F, exponent);
}

}  // namespace

Nature random_nature(Random& random) {
  constexpr Nature kNatures[] = {Nature::kUsual, Nature::kUsual, Nature::kUsual,
                                 Nature::kHalfLimits, Nature::kAdversarial};
  return kNatures[random.integer(0, 4)];
}

std::string random_weights(const Network& network, Nature nature, Random& random) {
  const bool old_header = random.integer(0, 9) == 0;
  const std::int32_t version[] = {0, old_header ? 1 : 2, 0};
  std::string bytes(reinterpret_cast<const char*>(version), sizeof version);
  bytes.append(old_header ? 4 : 8, '\0');  // images seen
  for (const Layer& layer : network.layers) {
    if (layer.rules.weights == mpe::WeightsRule::kValues) {
      const Nature here = random.integer(0, 1) == 0 ? Nature::kUsual : nature;
      append(bytes, biases_of(static_cast<int>(layer.parameters), here, random));
    }
    if (!layer.has_filters()) continue;
    const int channels = layer.out.channels;
    const std::int64_t count =
        layer.parameters - std::int64_t{channels} * (layer.batch_normalize ? 4 : 1);
    const float spread = 2.0F / std::sqrt(static_cast<float>(count / channels));
    // Most layers are usual in any network, so that something is left for the others to see.
    const Nature here = random.integer(0, 1) == 0 ? Nature::kUsual : nature;
    append(bytes, biases_of(channels, here, random));
    const std::vector<float> filters = filters_of(count, spread, here, random);
    const bool connected = layer.kind == mpe::LayerKind::kConnected;
    if (connected) append(bytes, filters);
    if (layer.batch_normalize) {
      const Norm norm = norm_of(channels, here, random);
      for (const auto* part : {&norm.scales, &norm.means, &norm.variances}) append(bytes, *part);
    }
    if (!connected) append(bytes, filters);
  }
  return bytes;
}

std::vector<float> random_image(const Network& network, Nature nature, Random& random) {
  const std::int64_t count = network.input_elements();
  const bool positive = random.integer(0, 1) == 0;
  std::vector<float> image = random.values(count, positive ? 0.0F : -1.0F, 1.0F);
  const auto somewhere = [&]() -> float& {
    return image[static_cast<std::size_t>(random.integer(0, static_cast<int>(count) - 1))];
  };
  const int kinds[] = {5, 9, 14};
  switch (random.integer(0, kinds[static_cast<int>(nature)])) {
    case 0:
      std::fill(image.begin(), image.end(), random.real(-1.0F, 1.0F));
      break;
    case 1:
      scale_all(image, power_between(random, -3, 6));
      break;
    case 6:
      scale_all(image, kLargestHalf);
      break;
    case 7:
      somewhere() = kLargestHalf;
      break;
    case 8:
      scale_all(image, power_between(random, -26, -12));
      break;
    case 10:
      scale_all(image, power_between(random, 16, 120));
      break;
    case 11:
      scale_all(image, power_between(random, -145, -30));
      break;
    case 12:
      somewhere() = std::numeric_limits<float>::infinity();
      break;
    case 13:
      somewhere() = std::numeric_limits<float>::quiet_NaN();
      break;
    default:
      break;
  }
  return image;
}

namespace {

struct TensorRanges {
  std::vector<float> low;
  std::vector<float> high;
};

// Ranges by channel, made of measured ones.
TensorRanges ranges_of(int channels, const MeasuredRange& measured, bool arbitrary,
                       Random& random) {
  TensorRanges ranges{measured.channel_min, measured.channel_max};
  if (ranges.low.empty()) {
    ranges.low.assign(static_cast<std::size_t>(channels), -1.0F);
    ranges.high.assign(static_cast<std::size_t>(channels), 3.0F);
  }
  for (float& value : ranges.low) value = rounded(value);
  for (float& value : ranges.high) value = rounded(value);
  const int kind = random.integer(0, arbitrary ? 8 : 3);
  const auto change = [&](float low_factor, float high_factor) {
    scale_all(ranges.low, low_factor);
    scale_all(ranges.high, high_factor);
  };
  switch (kind) {
    case 1:
      change(0.25F, 0.25F);
      break;
    case 4:
      change(0x1p-120F, 0x1p-120F);
      break;
    case 5:
      std::fill(ranges.low.begin(), ranges.low.end(), -3e38F);
      std::fill(ranges.high.begin(), ranges.high.end(), 3e38F);
      break;
    case 6:
      ranges.low = ranges.high;  // a single value
      break;
    case 7:
      std::fill(ranges.low.begin(), ranges.low.end(), 0.0F);
      std::fill(ranges.high.begin(), ranges.high.end(), 0.0F);
      break;
    case 8:
      std::fill(ranges.low.begin(), ranges.low.end(), 100.0F);
      std::fill(ranges.high.begin(), ranges.high.end(), 101.0F);
      break;
    default:
      break;
  }
  return ranges;
}

}  // namespace

std::string random_calibration(const Network& network, const std::vector<MeasuredRange>& measured,
                               Nature nature, Random& random) {
  mpe::JsonWriter json;
  json.begin_object().field("format", "mpe-calibration").field("version", 1);
  json.key("tensors").begin_array();
  const bool gaps = random.integer(0, 19) == 0;
  for (int layer = mpe::kNetworkInput; layer < std::ssize(network.layers); ++layer) {
    const bool missing = random.integer(0, 4) == 0;
    const bool arbitrary = nature != Nature::kUsual && random.integer(0, 2) == 0;
    const bool by_channel = random.integer(0, 2) > 0;
    const int channels = network.output_shape(layer).channels;
    const TensorRanges ranges =
        ranges_of(channels, measured[static_cast<std::size_t>(layer + 1)], arbitrary, random);
    if (gaps && missing) continue;
    json.begin_object().field("layer", layer);
    json.field("min", *std::min_element(ranges.low.begin(), ranges.low.end()));
    json.field("max", *std::max_element(ranges.high.begin(), ranges.high.end()));
    for (const auto* values : {&ranges.low, &ranges.high}) {
      if (!by_channel) break;
      json.key(values == &ranges.low ? "channel_min" : "channel_max").begin_array();
      for (const float value : *values) json.value(value);
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().end_object();
  return json.text();
}
