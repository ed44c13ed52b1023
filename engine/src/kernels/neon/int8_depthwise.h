// Int8 depthwise convolution without dot products: of any size (generic/depthwise.h), and of 3x3
// and 5x5 (generic/int8_depthwise.h).
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"
#include "kernels/neon/bounded_outputs.h"

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

// The products of a row of the filter are added up in 16 bits where they fit, which they do for
// most channels, otherwise those of two taps; then they are widened.
struct Int8DepthwiseOfRows : Int8DepthwiseOfPairs {
  using Bounded = BoundedOutputs;

  template <int kSize>
  struct Filter {
    int8x8_t taps[kSize * kSize];
    bool rows_fit = true;

    explicit Filter(const std::int16_t* weights) {
      constexpr int kMostTotal = 255;  // 255 * 128 < 2^15
      for (int y = 0; y < kSize; ++y) {
        int total = 0;
        for (int x = 0; x < kSize; ++x) {
          const int weight = weights[y * kSize + x];
          taps[y * kSize + x] = vdup_n_s8(static_cast<std::int8_t>(weight));
          total += weight < 0 ? -weight : weight;
        }
        rows_fit = rows_fit && total <= kMostTotal;
      }
    }
  };

  template <int kSize, int kStride, int kGroup, int kRows, int kVectors>
  static inline __attribute__((always_inline)) void add_products(const std::int8_t* from,
                                                                 std::int64_t row_step,
                                                                 const Filter<kSize>& filter,
                                                                 I32 (&sums)[kRows][kVectors]) {
    constexpr int kEights = (kVectors + 1) / 2;
    unroll<((kRows - 1) * kStride + kSize) * kEights>([&](auto i) MPE_UNROLLED {
      constexpr int kRow = i.value / kEights;
      constexpr int kEight = i.value % kEights;
      int8x8_t values[kSize];
      load<kStride>(from + kRow * row_step + 8 * kEight * kStride, values);
      unroll<kRows>([&](auto r) MPE_UNROLLED {
        constexpr int kTapRow = kRow - r.value * kStride;
        if constexpr (kTapRow >= 0 && kTapRow < kSize) {
          int32x4_t& low = sums[r.value][2 * kEight].value;
          // Compilers unroll loops of so few steps by themselves.
          for (int first = 0; first < kSize; first += kGroup) {
            const int8x8_t* taps = filter.taps + kTapRow * kSize;
            int16x8_t products = vmull_s8(values[first], taps[first]);
            for (int tap = first + 1; tap < kSize && tap < first + kGroup; ++tap) {
              products = vmlal_s8(products, values[tap], taps[tap]);
            }
            low = vaddw_s16(low, vget_low_s16(products));
            if constexpr (2 * kEight + 1 < kVectors) {
              int32x4_t& high = sums[r.value][2 * kEight + 1].value;
              high = vaddw_high_s16(high, products);
            }
          }
        }
      });
    });
  }

 private:
  // Values for each tap of a row, for eight outputs.
  template <int kStride, int kSize>
  static inline __attribute__((always_inline)) void load(const std::int8_t* from,
                                                         int8x8_t (&values)[kSize]) {
    for (int x = 0; x < kSize; ++x) {
      if constexpr (kStride == 1) {
        values[x] = vld1_s8(from + x);
      } else {
        const int16x8_t pairs = vreinterpretq_s16_s8(vld1q_s8(from + x / 2 * 2));
        values[x] = x % 2 == 0 ? vmovn_s16(pairs) : vshrn_n_s16(pairs, 8);
      }
    }
  }
};

}  // namespace
}  // namespace mpe
