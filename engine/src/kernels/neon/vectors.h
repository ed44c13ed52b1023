// Vectors of four 32-bit lanes: Advanced SIMD as every arm64 core has it.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/generic/factors.h"
#include "quant/activation_lines.h"

namespace mpe {
namespace {

struct F32 {
  using Value = float;
  static constexpr float kLowest = -3.402823466e38F;
  static constexpr int kLanes = 4;
  float32x4_t value;

  F32() = default;
  explicit F32(float32x4_t v) : value(v) {}
  explicit F32(float scalar) : value(vdupq_n_f32(scalar)) {}
  explicit F32(int scalar) : F32(static_cast<float>(scalar)) {}
  static F32 load(const float* from) { return F32(vld1q_f32(from)); }
};

inline F32 operator+(F32 a, F32 b) { return F32(vaddq_f32(a.value, b.value)); }
inline F32 operator-(F32 a, F32 b) { return F32(vsubq_f32(a.value, b.value)); }
inline F32 operator*(F32 a, F32 b) { return F32(vmulq_f32(a.value, b.value)); }
inline F32 multiply_add(F32 sum, F32 a, F32 b) {
  return F32(vfmaq_f32(sum.value, a.value, b.value));
}
inline F32 multiply_subtract(F32 sum, F32 a, F32 b) {
  return F32(vfmsq_f32(sum.value, a.value, b.value));
}
inline F32 two_less_product(F32 a, F32 b) { return F32(vrecpsq_f32(a.value, b.value)); }
inline void settle(F32& x) { asm volatile("" : "+w"(x.value)); }
inline F32 larger(F32 a, F32 b) { return F32(vmaxq_f32(a.value, b.value)); }
inline F32 smaller(F32 a, F32 b) { return F32(vminq_f32(a.value, b.value)); }
inline uint32x4_t less(F32 a, F32 b) { return vcltq_f32(a.value, b.value); }
inline F32 choose(uint32x4_t mask, F32 if_true, F32 if_false) {
  return F32(vbslq_f32(mask, if_true.value, if_false.value));
}
// `largest`, a number, unless x is a larger one. Not by maxnm, for which zero is larger than its
// negative.
inline F32 keep_larger(F32 largest, F32 x) { return choose(less(largest, x), x, largest); }
// The same, but for the sign of zero.
inline F32 keep_larger_value(F32 largest, F32 x) {
  return F32(vmaxnmq_f32(largest.value, x.value));
}

template <int kCount>
struct Factors<F32, kCount> {
  float32x4_t quads[(kCount + 3) / 4];

  explicit Factors(const float* from) {
    for (int i = 0; i < (kCount + 3) / 4; ++i) quads[i] = vld1q_f32(from + 4 * i);
  }
  template <int kIndex>
  F32 times(F32 x) const {
    return F32(vmulq_laneq_f32(x.value, quads[kIndex / 4], kIndex % 4));
  }
  template <int kIndex>
  F32 add_product(F32 sum, F32 x) const {
    return F32(vfmaq_laneq_f32(sum.value, x.value, quads[kIndex / 4], kIndex % 4));
  }
};

// The activations of kernels/activation.h, value for value.
inline F32 leaky(F32 x) { return F32(vmaxq_f32(x.value, vmulq_f32(x.value, vdupq_n_f32(0.1F)))); }
inline void multiply_in_order(float32x4_t& product, float32x4_t a, float32x4_t b) {
  asm volatile("fmul %0.4s, %1.4s, %2.4s" : "=w"(product) : "w"(a), "w"(b));
}
inline void keep_larger_in_order(float32x4_t& largest, float32x4_t x) {
  asm volatile("fmax %0.4s, %0.4s, %1.4s" : "+w"(largest) : "w"(x));
}
// Four side by side, in this order. The compiler would use one register for all products, and an
// in-order core wait for each; or it would multiply everything first, and store products for want
// of registers.
inline __attribute__((always_inline)) void leaky_four(F32& a, F32& b, F32& c, F32& d) {
  const float32x4_t slope = vdupq_n_f32(0.1F);
  float32x4_t products[4];
  multiply_in_order(products[0], a.value, slope);
  multiply_in_order(products[1], b.value, slope);
  multiply_in_order(products[2], c.value, slope);
  multiply_in_order(products[3], d.value, slope);
  keep_larger_in_order(a.value, products[0]);
  keep_larger_in_order(b.value, products[1]);
  keep_larger_in_order(c.value, products[2]);
  keep_larger_in_order(d.value, products[3]);
}
// maxnm prefers the number to NaN, and zero to its negative.
inline F32 relu(F32 x) { return F32(vmaxnmq_f32(x.value, vdupq_n_f32(0.0F))); }

inline F32 shift_into_exponent(F32 x) {
  return F32(vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x.value), 23)));
}
inline F32 subtract_bits(std::uint32_t bits, F32 x) {
  return F32(vreinterpretq_f32_u32(vsubq_u32(vdupq_n_u32(bits), vreinterpretq_u32_f32(x.value))));
}
inline constexpr int kActivatedAtOnce = 8;
inline constexpr bool kStoresAsActivated = true;  // see generic/gemm.h

// As activate_by_lines() of quant/activation_lines.h: conversions saturate.
inline void store_places(std::int16_t* to, F32 x) {
  vst1_s16(to, vqmovn_s32(vcvtq_n_s32_f32(x.value, kPlaceBits)));
}
inline __attribute__((always_inline)) void load_lines(const ActivationLine* lines,
                                                      const std::int16_t* places, F32& intercepts,
                                                      F32& slopes) {
  std::int64_t four;
  __builtin_memcpy(&four, places, sizeof(four));
  const auto line = [&](int lane) {
    const std::int64_t index = (four << (48 - 16 * lane)) >> (48 + kPlaceShift);
    return vld1_f32(&lines[index].intercept);
  };
  // A Cortex-A72 transposes three times as fast as it separates even lanes from odd ones.
  const float32x4_t even = vcombine_f32(line(0), line(2));
  const float32x4_t odd = vcombine_f32(line(1), line(3));
  intercepts = F32(vtrn1q_f32(even, odd));
  slopes = F32(vtrn2q_f32(even, odd));
}

struct I32 {
  static constexpr int kLanes = 4;
  int32x4_t value;

  I32() = default;
  explicit I32(int32x4_t v) : value(v) {}
  explicit I32(std::int32_t scalar) : value(vdupq_n_s32(scalar)) {}
  static I32 load(const std::int32_t* from) { return I32(vld1q_s32(from)); }
};

// Without a sign: lanes that are not stored hold anything, and may overflow.
inline I32 operator+(I32 a, I32 b) {
  const uint32x4_t sum = vaddq_u32(vreinterpretq_u32_s32(a.value), vreinterpretq_u32_s32(b.value));
  return I32(vreinterpretq_s32_u32(sum));
}
inline I32 larger(I32 a, I32 b) { return I32(vmaxq_s32(a.value, b.value)); }
// Of neighbours in `a`, then in `b`.
inline I32 larger_of_pairs(I32 a, I32 b) { return I32(vpmaxq_s32(a.value, b.value)); }
// One lane in all, by its Index.
template <typename Lane>
inline I32 lane_of(I32 x, Lane) {
  return I32(vdupq_laneq_s32(x.value, Lane::value));
}
template <typename Lane>
inline F32 lane_of(F32 x, Lane) {
  return F32(vdupq_laneq_f32(x.value, Lane::value));
}
// Both lanes of the first half or of the second, each twice.
template <typename Half>
inline I32 twice_each(I32 x, Half) {
  return I32(Half::value == 0 ? vzip1q_s32(x.value, x.value) : vzip2q_s32(x.value, x.value));
}
template <typename Half>
inline F32 twice_each(F32 x, Half) {
  return F32(Half::value == 0 ? vzip1q_f32(x.value, x.value) : vzip2q_f32(x.value, x.value));
}
inline F32 to_float(I32 x) { return F32(vcvtq_f32_s32(x.value)); }
inline I32 round_to_int(F32 x) { return I32(vcvtnq_s32_f32(x.value)); }

// NaN becomes the lower limit: maxnm prefers the number.
inline F32 limit_for_rounding(F32 x) {
  const float32x4_t above = vmaxnmq_f32(x.value, vdupq_n_f32(-4096.0F));
  return F32(vminnmq_f32(above, vdupq_n_f32(4096.0F)));
}

inline void store(float* to, F32 x) { vst1q_f32(to, x.value); }
inline void store(std::int32_t* to, I32 x) { vst1q_s32(to, x.value); }

inline void store(float* to, F32 x, int count) {
  if (count == F32::kLanes) return store(to, x);
  __builtin_memcpy(to, &x.value, static_cast<std::size_t>(count) * sizeof(float));
}

inline F32 load_half(const std::uint16_t* from) {
  return F32(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))));
}

inline F32 rounded_to_half(F32 x) { return F32(vcvt_f32_f16(vcvt_f16_f32(x.value))); }

inline void store_half(std::uint16_t* to, F32 x, int count) {
  const uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(x.value));
  if (count == F32::kLanes) return vst1_u16(to, half);
  __builtin_memcpy(to, &half, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
}

inline void deinterleave(const float* from, F32 (&columns)[4]) {
  const float32x4x4_t loaded = vld4q_f32(from);
  for (int i = 0; i < 4; ++i) columns[i].value = loaded.val[i];
}

// The first or the second of each of eight pairs of 16-bit values.
inline constexpr int kPairedHalves = 8;
template <int kWhich>
inline void copy_of_pairs(const std::uint16_t* from, std::uint16_t* to) {
  const uint16x8_t low = vld1q_u16(from);
  const uint16x8_t high = vld1q_u16(from + 8);
  vst1q_u16(to, kWhich == 0 ? vuzp1q_u16(low, high) : vuzp2q_u16(low, high));
}

// The same of sixteen pairs of bytes.
inline constexpr int kPairedBytes = 16;
template <int kWhich>
inline void copy_of_pairs(const std::int8_t* from, std::int8_t* to) {
  const int8x16_t low = vld1q_s8(from);
  const int8x16_t high = vld1q_s8(from + 16);
  vst1q_s8(to, kWhich == 0 ? vuzp1q_s8(low, high) : vuzp2q_s8(low, high));
}

inline void deinterleave(const float* from, F32 (&columns)[2]) {
  const float32x4x2_t loaded = vld2q_f32(from);
  for (int i = 0; i < 2; ++i) columns[i].value = loaded.val[i];
}

inline void transpose(const F32 (&rows)[4], F32 (&columns)[4]) {
  const auto pairs = [&](int row) {
    const float32x4_t a = rows[row].value;
    const float32x4_t b = rows[row + 1].value;
    return float64x2x2_t{vreinterpretq_f64_f32(vtrn1q_f32(a, b)),
                         vreinterpretq_f64_f32(vtrn2q_f32(a, b))};
  };
  const float64x2x2_t upper = pairs(0);
  const float64x2x2_t lower = pairs(2);
  for (int i = 0; i < 2; ++i) {
    columns[i].value = vreinterpretq_f32_f64(vtrn1q_f64(upper.val[i], lower.val[i]));
    columns[i + 2].value = vreinterpretq_f32_f64(vtrn2q_f64(upper.val[i], lower.val[i]));
  }
}

inline void deinterleave(const float* from, F32 (&columns)[5]) {
  F32 rows[4];
  for (int i = 0; i < 4; ++i) rows[i] = F32::load(from + 5 * i);
  F32 first[4];
  transpose(rows, first);
  for (int i = 0; i < 4; ++i) columns[i] = first[i];
  float32x4_t last = vld1q_dup_f32(from + 4);
  last = vld1q_lane_f32(from + 9, last, 1);
  last = vld1q_lane_f32(from + 14, last, 2);
  columns[4].value = vld1q_lane_f32(from + 19, last, 3);
}

inline F32 following(F32 x, F32 next) { return F32(vextq_f32(x.value, next.value, 1)); }

inline void interleave(float* to, const F32 (&columns)[4]) {
  float32x4x4_t stored;
  for (int i = 0; i < 4; ++i) stored.val[i] = columns[i].value;
  vst4q_f32(to, stored);
}

inline void interleave(float* to, const F32 (&columns)[5]) {
  const F32 first[4] = {columns[0], columns[1], columns[2], columns[3]};
  F32 rows[4];
  transpose(first, rows);
  for (int i = 0; i < 4; ++i) store(to + 5 * i, rows[i]);
  vst1q_lane_f32(to + 4, columns[4].value, 0);
  vst1q_lane_f32(to + 9, columns[4].value, 1);
  vst1q_lane_f32(to + 14, columns[4].value, 2);
  vst1q_lane_f32(to + 19, columns[4].value, 3);
}

inline void interleave(float* to, const F32 (&columns)[1]) { store(to, columns[0]); }

inline void interleave(float* to, const F32 (&columns)[2]) {
  float32x4x2_t stored;
  for (int i = 0; i < 2; ++i) stored.val[i] = columns[i].value;
  vst2q_f32(to, stored);
}

inline I32 load_int8(const std::int8_t* from) {
  std::int32_t bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  const int16x8_t halves = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bits)));
  return I32(vmovl_s16(vget_low_s16(halves)));
}

inline constexpr int kPooledBytes = 16;
inline void maximum_of_four(const std::int8_t* upper, const std::int8_t* lower, std::int8_t* to) {
  const int8x16x2_t a = vld2q_s8(upper);
  const int8x16x2_t b = vld2q_s8(lower);
  vst1q_s8(to, vmaxq_s8(vmaxq_s8(a.val[0], a.val[1]), vmaxq_s8(b.val[0], b.val[1])));
}

// Sixteen values of each of four rows.
inline void interleave_four(const std::int8_t* const (&rows)[4], std::int8_t* to) {
  const int8x16_t a = vld1q_s8(rows[0]);
  const int8x16_t b = vld1q_s8(rows[1]);
  const int8x16_t c = vld1q_s8(rows[2]);
  const int8x16_t d = vld1q_s8(rows[3]);
  const int16x8_t ab_low = vreinterpretq_s16_s8(vzip1q_s8(a, b));
  const int16x8_t cd_low = vreinterpretq_s16_s8(vzip1q_s8(c, d));
  const int16x8_t ab_high = vreinterpretq_s16_s8(vzip2q_s8(a, b));
  const int16x8_t cd_high = vreinterpretq_s16_s8(vzip2q_s8(c, d));
  vst1q_s8(to, vreinterpretq_s8_s16(vzip1q_s16(ab_low, cd_low)));
  vst1q_s8(to + 16, vreinterpretq_s8_s16(vzip2q_s16(ab_low, cd_low)));
  vst1q_s8(to + 32, vreinterpretq_s8_s16(vzip1q_s16(ab_high, cd_high)));
  vst1q_s8(to + 48, vreinterpretq_s8_s16(vzip2q_s16(ab_high, cd_high)));
}

inline int16x8_t order_of_halves(int16x8_t bits) {
  return veorq_s16(
      bits, vreinterpretq_s16_u16(vshrq_n_u16(vreinterpretq_u16_s16(vshrq_n_s16(bits, 15)), 1)));
}

inline constexpr int kPooledHalves = 8;
inline void maximum_of_four(const std::uint16_t* upper, const std::uint16_t* lower,
                            std::uint16_t* to, std::int16_t lowest) {
  const auto larger = [](const std::uint16_t* row) {
    const uint16x8x2_t pairs = vld2q_u16(row);
    return vmaxq_s16(order_of_halves(vreinterpretq_s16_u16(pairs.val[0])),
                     order_of_halves(vreinterpretq_s16_u16(pairs.val[1])));
  };
  const int16x8_t largest = vmaxq_s16(vmaxq_s16(larger(upper), larger(lower)), vdupq_n_s16(lowest));
  vst1q_u16(to, vreinterpretq_u16_s16(order_of_halves(largest)));
}

// Saturates.
inline void store_int8(std::int8_t* to, I32 x, int count) {
  const int16x4_t half = vqmovn_s32(x.value);
  const int8x8_t bytes = vqmovn_s16(vcombine_s16(half, half));
  if (count == I32::kLanes) {
    __builtin_memcpy(to, &bytes, I32::kLanes);
  } else {
    __builtin_memcpy(to, &bytes, static_cast<std::size_t>(count));
  }
}

// The first half to one place, the second to another.
inline void store_int8_halves(std::int8_t* first, std::int8_t* second, I32 x) {
  const int16x4_t half = vqmovn_s32(x.value);
  const int16x4_t bytes = vreinterpret_s16_s8(vqmovn_s16(vcombine_s16(half, half)));
  vst1_lane_s16(reinterpret_cast<std::int16_t*>(first), bytes, 0);
  vst1_lane_s16(reinterpret_cast<std::int16_t*>(second), bytes, 1);
}

inline void store_int8(std::int8_t* to, const I32 (&x)[4]) {
  const int16x8_t low = vqmovn_high_s32(vqmovn_s32(x[0].value), x[1].value);
  const int16x8_t high = vqmovn_high_s32(vqmovn_s32(x[2].value), x[3].value);
  vst1q_s8(to, vqmovn_high_s16(vqmovn_s16(low), high));
}

// Rounded, with `zero` added, as exact as int8 needs it: the conversion and the addition saturate,
// so that NaN alone has to be made the lower limit.
inline I32 round_to_steps(F32 x, I32 zero) {
  const float32x4_t number = vmaxnmq_f32(x.value, vdupq_n_f32(-4096.0F));
  return I32(vqaddq_s32(vcvtnq_s32_f32(number), zero.value));
}

}  // namespace
}  // namespace mpe
