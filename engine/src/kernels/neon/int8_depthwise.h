// Int8 depthwise convolution of any size (generic/depthwise.h) without dot products.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

struct Int8DepthwiseOfPairs {
  using Input = std::int8_t;
  using Value = std::int16_t;
  using Sum = std::int32_t;
  static constexpr WeightFormat kWeights = WeightFormat::kInt16;
  static constexpr int kLanes = 8;

  static void convert(const std::int8_t* from, std::int16_t* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }

  template <int kSteps>
  static void accumulate(const std::int16_t* strip, const std::int16_t* weights,
                         const std::int32_t* offsets, int taps, std::int32_t* sums) {
    int32x4_t low[kSteps];
    int32x4_t high[kSteps];
    unroll<kSteps>([&](auto s) MPE_UNROLLED { low[s.value] = high[s.value] = vdupq_n_s32(0); });
    for (int tap = 0; tap < taps; ++tap) {
      const int16x8_t weight = vdupq_n_s16(weights[tap]);
      const std::int16_t* values = strip + offsets[tap];
      unroll<kSteps>([&](auto s) MPE_UNROLLED {
        const int16x8_t value = vld1q_s16(values + s.value * kLanes);
        low[s.value] = vmlal_s16(low[s.value], vget_low_s16(value), vget_low_s16(weight));
        high[s.value] = vmlal_high_s16(high[s.value], value, weight);
      });
    }
    unroll<kSteps>([&](auto s) MPE_UNROLLED {
      vst1q_s32(sums + s.value * kLanes, low[s.value]);
      vst1q_s32(sums + s.value * kLanes + 4, high[s.value]);
    });
  }
};

}  // namespace
}  // namespace mpe
