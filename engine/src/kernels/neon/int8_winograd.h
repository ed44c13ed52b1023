// Advanced SIMD for generic/int8_winograd.h.
#pragma once

#include <arm_neon.h>

#include "kernels/neon/bounded_outputs.h"
#include "kernels/neon/int16_tile.h"
#include "kernels/neon/vectors.h"

namespace mpe {
namespace {

struct I16 {
  int16x8_t value;
};

inline I16 operator+(I16 a, I16 b) { return {vaddq_s16(a.value, b.value)}; }
inline I16 operator-(I16 a, I16 b) { return {vsubq_s16(a.value, b.value)}; }
template <int kBits>
inline I16 shift_left(I16 a) {
  return {vshlq_n_s16(a.value, kBits)};
}
template <int kFactor>
inline I16 times(I16 a) {
  return {vmulq_n_s16(a.value, kFactor)};
}
template <int kFactor>
inline I16 add_multiple(I16 sum, I16 a) {
  return {vmlaq_n_s16(sum.value, a.value, kFactor)};
}
inline void store(std::int16_t* to, I16 x) { vst1q_s16(to, x.value); }

inline I32 operator-(I32 a, I32 b) { return I32(vsubq_s32(a.value, b.value)); }
template <int kBits>
inline I32 shift_left(I32 a) {
  return I32(vshlq_n_s32(a.value, kBits));
}
inline I32 divide_by_576(I32 a) {
  // Without a sign: the product is modulo 2^32, and GCC's header multiplies by the plain operator,
  // which may not overflow with one.
  const uint32x4_t ninth = vmulq_n_u32(vreinterpretq_u32_s32(a.value), kInverseOfNine);
  return I32(vshrq_n_s32(vreinterpretq_s32_u32(ninth), 6));
}
inline void store_four_apart(std::int32_t* to, I32 a, I32 b, I32 c, I32 d) {
  const int32x4x4_t all = {{a.value, b.value, c.value, d.value}};
  vst4q_s32(to, all);
}

inline void interleave(I32 a, I32 b, I32 (&to)[2]) {
  to[0] = I32(vzip1q_s32(a.value, b.value));
  to[1] = I32(vzip2q_s32(a.value, b.value));
}

// 16-bit numbers and values, whose products have 32 bits.
template <int kCount>
struct Factors<I32, kCount> {
  int16x8_t eights[(kCount + 7) / 8];

  explicit Factors(const std::int16_t* from) {
    for (int i = 0; i < (kCount + 7) / 8; ++i) eights[i] = vld1q_s16(from + 8 * i);
  }
  template <int kIndex>
  I32 times(int16x4_t x) const {
    return I32(vmull_laneq_s16(x, eights[kIndex / 8], kIndex % 8));
  }
  template <int kIndex>
  I32 add_product(I32 sum, int16x4_t x) const {
    return I32(vmlal_laneq_s16(sum.value, x, eights[kIndex / 8], kIndex % 8));
  }
};

struct NeonWinograd {
  static constexpr int kTiles = 8;
  static constexpr int kRows = 8;
  static constexpr int kFewTiles = 4;
  static constexpr bool kPairs = false;
  static constexpr bool kOfImages = true;
  using I16 = mpe::I16;
  using Bounded = BoundedOutputs;
  using ImageWeights = Factors<I32, 6 * kImageChannels>;

  static int16x4_t load_vector(const std::int16_t* from) { return vld1_s16(from); }

  static void load_four_apart(const std::int8_t* from, I16 (&to)[4]) {
    const int8x8x4_t bytes = vld4_s8(from);
    for (int j = 0; j < 4; ++j) to[j] = {vmovl_s8(bytes.val[j])};
  }
  static I16 load_bytes(const std::int8_t* from) { return {vmovl_s8(vld1_s8(from))}; }
  static void multiply(const std::int16_t* panel, const std::int16_t* weights, int depth,
                       bool first, std::int32_t* tile) {
    multiply_int16_tile(panel, weights, depth, first, tile);
  }
  static void multiply_few(const std::int16_t* panel, const std::int16_t* weights, int depth,
                           int tiles, bool first, bool last, std::int32_t* tile) {
    unroll<kFewTiles>([&](auto t) MPE_UNROLLED {
      constexpr int kCount = t.value + 1;
      if (tiles != kCount) return;
      multiply_few_int16_tiles<kCount>(panel, weights, depth, first, last, tile);
    });
  }
};

}  // namespace
}  // namespace mpe
