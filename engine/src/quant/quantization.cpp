#include "quant/quantization.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/requantize.h"

namespace mpe {
namespace {

// Infinities and NaN can only come from a network that diverges; they must not make scales of it.
constexpr double kLargest = 1e30F;
// A scale below float's normal numbers would lose its precision, and its inverse overflow.
constexpr double kSmallest = 1e-30;

struct Ends {
  double low;
  double high;
};

Ends ends_of(Range range) {
  return {range.min < 0.0F ? std::max<double>(range.min, -kLargest) : 0.0,
          range.max > 0.0F ? std::min<double>(range.max, kLargest) : 0.0};
}

}  // namespace

ScaleAndZero quantization_of(Range range) {
  const auto [low, high] = ends_of(range);
  const double width = high - low;
  if (width == 0.0) return {1.0F, 0};
  const auto scale = static_cast<float>(std::max(width / 255.0, kSmallest));
  const double zero = std::nearbyint(-128.0 - low / static_cast<double>(scale));
  return {scale, static_cast<std::int32_t>(std::clamp(zero, -128.0, 127.0))};
}

ScaleAndZero int16_quantization_of(Range range) {
  const auto [low, high] = ends_of(range);
  const double scale = std::max(low / -32768.0, high / 32767.0);
  return {scale == 0.0 ? 1.0F : static_cast<float>(std::max(scale, kSmallest)), 0};
}

float weight_scale_of(std::span<const float> weights, float bias) {
  float largest = 0.0F;
  for (const float weight : weights) {
    const float magnitude = std::fabs(weight);
    largest = magnitude > largest ? magnitude : largest;
  }
  largest = std::min(largest, 1e30F);
  const float scale = weight_scale_of(largest / 127.0F, bias);
  return scale > 1e-30F ? scale : 1.0F;
}

float weight_scale_of(float published, float bias) {
  // With this floor, bias / (s_x * s_w) is at most 2^16 / s_x; what it costs is a rounding of the
  // weights by 2^-17 of the bias.
  return std::max(published, std::min(std::fabs(bias), 1e30F) * 0x1p-16F);
}

std::int8_t quantize_weight(float weight, float scale) {
  const double steps = static_cast<double>(weight) / static_cast<double>(scale);
  if (std::isnan(steps)) return 0;
  return static_cast<std::int8_t>(std::nearbyint(std::clamp(steps, -127.0, 127.0)));
}

}  // namespace mpe
