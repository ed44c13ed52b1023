// The one rule by which int8 layers compute, shared by every kernel, so that the same network gives
// the same bits on every instruction set, algorithm and number of threads.
//
//   weights     symmetric per output channel:  qw = rne(w / s_w), in [-127, 127]
//   sum         acc = sum((qx - z_x) * qw) + bias_q, exact in int32; padding contributes 0
//   bias        bias_q = rne(bias / (s_x * s_w)), in double, limited to +-2^30
//   to int8     linear, leaky, relu, relu6 ("foldable"):
//                 y = float(acc) * m,  m = float(s_x * s_w / s_o)       [product in double]
//                 y = activation in units of the output's step
//                 q = clamp(rne(y) + z_o)
//               all others:
//                 x = float(acc) * float(s_x * s_w)
//                 y = intercept + slope * x  [rounded once], of the activation's line for x
//                 q = clamp(rne(y * float(1 / s_o)) + z_o)
//   to float    y = activate(float(acc) * float(s_x * s_w))
//
// An activation has a line for each 32nd of [-16, 16]: floor(trunc(2048 x) / 64) counts them, and x
// beyond has the last of its side. quant/activation_lines.h makes them. They are off by at most
// 7e-5 (at a bend: hard_swish at -3 2e-4, hard_mish at -2 4e-4).
//
// int16 activations (TensorFlow Lite's 16x8) have no zero point, the same weights, sums in int64
// and float outputs: y = activate(float(acc) * float(s_x * s_w) + bias).
//
// rne is round to nearest, ties to even; clamp limits to [-128, 127]. Every float operation is one
// IEEE binary32 operation, never contracted. Values are limited to +-kRoundLimit before they are
// rounded, as instruction sets differ beyond int32; NaN counts as the lower limit.
// s_x, s_o and the zero points belong to the input and output channel where they are per channel.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "inline.h"
#include "model/activation.h"

namespace mpe {

// Beyond any int8 and any zero point, and small enough for the rounding below.
inline constexpr float kRoundLimit = 4096.0F;
inline constexpr std::int32_t kBiasLimit = 1 << 30;
// Keeps the product of a multiplier and any int32 finite.
inline constexpr float kMultiplierLimit = 1e28F;
// The most terms of one sum whose total, with the bias, fits in int32: 255 * 127 * n + 2^30 < 2^31.
inline constexpr int kMaxInt8Depth = 33000;

// NaN gives the lower limit, as in `maxps(value, limit)` followed by `minps`.
MPE_INLINE float limit_for_rounding(float value) {
  value = value > -kRoundLimit ? value : -kRoundLimit;
  return value < kRoundLimit ? value : kRoundLimit;
}

// Round to nearest even of |value| < 2^22, without libm and without a rounding instruction:
// at 1.5 * 2^23 a float's step is one.
MPE_INLINE std::int32_t round_half_even(float value) {
  constexpr float kMagic = 12582912.0F;
  return static_cast<std::int32_t>((value + kMagic) - kMagic);
}

// q = clamp(rne(value) + zero_point) to [-32768, 32767].
MPE_INLINE std::int16_t saturate_int16(float value, std::int32_t zero_point) {
  constexpr float kLimit = 65536.0F;  // beyond any int16, zero point included
  value = value > -kLimit ? value : -kLimit;
  std::int32_t q = round_half_even(value < kLimit ? value : kLimit) + zero_point;
  q = q > -32768 ? q : -32768;
  return static_cast<std::int16_t>(q < 32767 ? q : 32767);
}

// q = clamp(rne(value) + zero_point), where value is in units of the scale.
MPE_INLINE std::int8_t saturate_int8(float value, std::int32_t zero_point) {
  std::int32_t q = round_half_even(limit_for_rounding(value)) + zero_point;
  q = q > -128 ? q : -128;
  return static_cast<std::int8_t>(q < 127 ? q : 127);
}

// Activations that commute with a positive scale.
MPE_INLINE bool is_foldable(Activation activation) {
  return activation == Activation::kLinear || activation == Activation::kLeaky ||
         activation == Activation::kRelu || activation == Activation::kRelu6;
}

// A foldable activation on a value in output steps. `six` is relu6_limit(s_o).
MPE_INLINE float activate_folded(Activation activation, float value, float six) {
  switch (activation) {
    case Activation::kLeaky:
      return value < 0.0F ? value * 0.1F : value;
    case Activation::kRelu:
      return value > 0.0F ? value : 0.0F;
    case Activation::kRelu6:
      value = value > 0.0F ? value : 0.0F;
      return value < six ? value : six;
    default:
      return value;
  }
}

MPE_INLINE float relu6_limit(float output_scale) {
  return static_cast<float>(6.0 / static_cast<double>(output_scale));
}

MPE_INLINE float inverse_scale(float scale) {
  return static_cast<float>(1.0 / static_cast<double>(scale));
}

// float(s_x * s_w): from sums to real values.
MPE_INLINE float dequantize_multiplier(float input_scale, float weight_scale) {
  const double product = static_cast<double>(input_scale) * static_cast<double>(weight_scale);
  return product < kMultiplierLimit ? static_cast<float>(product) : kMultiplierLimit;
}

// float(s_x * s_w / s_o): from sums to output steps.
MPE_INLINE float requantize_multiplier(float input_scale, float weight_scale, float output_scale) {
  const double product = static_cast<double>(input_scale) * static_cast<double>(weight_scale) /
                         static_cast<double>(output_scale);
  return product < kMultiplierLimit ? static_cast<float>(product) : kMultiplierLimit;
}

MPE_INLINE std::int32_t quantize_bias(float bias, float input_scale, float weight_scale) {
  const double steps = static_cast<double>(bias) /
                       (static_cast<double>(input_scale) * static_cast<double>(weight_scale));
  constexpr double kLimit = kBiasLimit;
  if (!(steps > -kLimit)) return steps <= -kLimit ? -kBiasLimit : 0;  // NaN: 0
  return static_cast<std::int32_t>(std::nearbyint(steps < kLimit ? steps : kLimit));
}

// The step of one output channel's weights: max|w| / 127, but never so small against the bias that
// the bias would not fit into int32 (channels that training has emptied have weights of 1e-20
// beside ordinary biases). 1 for a channel of zeros. Always finite and positive.
float weight_scale_of(std::span<const float> weights, float bias);

// A published step, made as large for the bias as that of weight_scale_of().
float weight_scale_of(float published, float bias);

// rne(w / scale), limited to [-127, 127]; NaN gives 0.
std::int8_t quantize_weight(float weight, float scale);

}  // namespace mpe
