// The sum of two int8 tensors without conversions, as these take long on cores with half arithmetic
// (Cortex-A76): a byte becomes the lowest one of 2^23, a float whose step is one. Outputs are
// rounded as those of neon/bounded_outputs.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/generic/elementwise.h"
#include "kernels/neon/bounded_outputs.h"

namespace mpe {
namespace {

// Four of the sixteen bytes, less their zero point; `base` is 2^23 + 128 + the zero point.
template <int kQuarter>
inline F32 value_of_bytes(uint8x16_t bytes, F32 base) {
  constexpr std::uint8_t kAt = 4 * kQuarter;
  static const std::uint8_t kPlaces[16] = {kAt,     17, 17, 16, kAt + 1, 17, 17, 16,
                                           kAt + 2, 17, 17, 16, kAt + 3, 17, 17, 16};
  const uint8x16x2_t table = {{bytes, vreinterpretq_u8_u32(vdupq_n_u32(0x4B))}};
  return F32(vreinterpretq_f32_u8(vqtbl2q_u8(table, vld1q_u8(kPlaces)))) - base;
}

inline void add_bytes_by_tables(const std::int8_t* a, const std::int8_t* b, std::int8_t* to,
                                std::int64_t count, const Int8Addition& addition) {
  constexpr float kByteBase = 8388608.0F + 128.0F;
  const auto largest = [&](int i) { return 255.0F * addition.scales[i]; };
  const bool bounded = (largest(0) + largest(1)) * addition.inverse <= kBoundedSteps;
  if (!bounded) return add_bytes(a, b, to, count, addition);
  const F32 bases[] = {F32(kByteBase + static_cast<float>(addition.zero_points[0])),
                       F32(kByteBase + static_cast<float>(addition.zero_points[1]))};
  const F32 scales[] = {F32(addition.scales[0]), F32(addition.scales[1])};
  const F32 inverse(addition.inverse);
  const int16x8_t zero = vdupq_n_s16(static_cast<std::int16_t>(addition.sum_zero_point));
  const uint8x16_t sign = vdupq_n_u8(0x80);
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16_t bytes[] = {veorq_u8(vreinterpretq_u8_s8(vld1q_s8(a + i)), sign),
                                veorq_u8(vreinterpretq_u8_s8(vld1q_s8(b + i)), sign)};
    F32 sums[1][4];
    unroll<4>([&](auto v) MPE_UNROLLED {
      sums[0][v.value] = value_of_bytes<v.value>(bytes[0], bases[0]) * scales[0] +
                         value_of_bytes<v.value>(bytes[1], bases[1]) * scales[1];
    });
    activate_all(addition.activation, sums);
    unroll<4>([&](auto v) MPE_UNROLLED { sums[0][v.value] = sums[0][v.value] * inverse; });
    BoundedOutputs::store_rows(sums, {zero}, to + i, 0);
  }
  if (i < count) add_bytes(a + i, b + i, to + i, count - i, addition);
}

}  // namespace
}  // namespace mpe
