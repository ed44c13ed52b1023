// Loops over int8 tensors without conversions, as these take long on cores with half arithmetic
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

// Rounds sixteen values in output steps, each within kBoundedSteps.
inline void store_sixteen(std::int8_t* to, const F32 (&steps)[1][4], int16x8_t zero_point) {
  BoundedOutputs::store_rows(steps, {zero_point}, to, 0);
}
inline int16x8_t eight_of(std::int32_t zero_point) {
  return vdupq_n_s16(static_cast<std::int16_t>(zero_point));
}
inline uint8x16_t load_without_sign(const std::int8_t* from) {
  return veorq_u8(vreinterpretq_u8_s8(vld1q_s8(from)), vdupq_n_u8(0x80));
}
inline F32 byte_base(std::int32_t zero_point) {
  return F32(8388608.0F + 128.0F + static_cast<float>(zero_point));
}

inline void quantize_bounded(const float* from, std::int8_t* to, std::int64_t count, float inverse,
                             std::int32_t zero_point) {
  const F32 factor(inverse);
  const int16x8_t zero = eight_of(zero_point);
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    F32 steps[1][4];
    unroll<4>([&](auto v) MPE_UNROLLED {
      steps[0][v.value] = limit_for_rounding(F32::load(from + i + 4 * v.value) * factor);
    });
    store_sixteen(to + i, steps, zero);
  }
  quantize_values(from + i, to + i, count - i, inverse, zero_point);
}

inline void requantize_by_tables(const std::int8_t* from, std::int8_t* to, std::int64_t count,
                                 std::int32_t from_zero_point, float ratio,
                                 std::int32_t zero_point) {
  std::int64_t i = 0;
  if (255.0F * ratio <= kBoundedSteps) {
    const F32 factor(ratio);
    const F32 base = byte_base(from_zero_point);
    const int16x8_t zero = eight_of(zero_point);
    for (; i + 16 <= count; i += 16) {
      const uint8x16_t bytes = load_without_sign(from + i);
      F32 steps[1][4];
      unroll<4>([&](auto v) MPE_UNROLLED {
        steps[0][v.value] = value_of_bytes<v.value>(bytes, base) * factor;
      });
      store_sixteen(to + i, steps, zero);
    }
  }
  requantize_values(from + i, to + i, count - i, from_zero_point, ratio, zero_point);
}

// Returns how many sums it has written.
template <Activation kActivation>
inline std::int64_t add_sixteens(const std::int8_t* a, const std::int8_t* b, std::int8_t* to,
                                 std::int64_t count, const Int8Addition& addition) {
  const F32 bases[] = {byte_base(addition.zero_points[0]), byte_base(addition.zero_points[1])};
  const F32 scales[] = {F32(addition.scales[0]), F32(addition.scales[1])};
  const F32 inverse(addition.inverse);
  const int16x8_t zero = eight_of(addition.sum_zero_point);
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16_t bytes[] = {load_without_sign(a + i), load_without_sign(b + i)};
    F32 sums[1][4];
    unroll<4>([&](auto v) MPE_UNROLLED {
      sums[0][v.value] = value_of_bytes<v.value>(bytes[0], bases[0]) * scales[0] +
                         value_of_bytes<v.value>(bytes[1], bases[1]) * scales[1];
    });
    activate_sums<kActivation>(kActivation, sums);
    unroll<4>([&](auto v) MPE_UNROLLED { sums[0][v.value] = sums[0][v.value] * inverse; });
    store_sixteen(to + i, sums, zero);
  }
  return i;
}

inline void add_bytes_by_tables(const std::int8_t* a, const std::int8_t* b, std::int8_t* to,
                                std::int64_t count, const Int8Addition& addition) {
  const auto largest = [&](int i) { return 255.0F * addition.scales[i]; };
  const bool bounded = (largest(0) + largest(1)) * addition.inverse <= kBoundedSteps;
  std::int64_t done = 0;
  if (bounded) {
    with_activation(addition.activation, [&](auto kind) {
      if constexpr (is_simple(kind.value)) {
        done = add_sixteens<kind.value>(a, b, to, count, addition);
      }
    });
  }
  if (done < count) add_bytes(a + done, b + done, to + done, count - done, addition);
}

}  // namespace
}  // namespace mpe
