// Int8 outputs of bounded sums (OutputStage::bounded), whose conversions are additions: from
// 1.5 * 2^23 on a float's step is one, so the bits of kBase + n are those of kBase and n more. A
// Cortex-A76 converts one vector in the time of four additions. The results are those of
// quant/requantize.h, as no step of it rounds or limits otherwise within the bounds.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <limits>

#include "kernels/generic/output.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

struct BoundedOutputs {
  static constexpr float kBase = 12582912.0F;
  static constexpr std::int32_t kBaseBits = 0x4B400000;

  // Of one channel.
  struct Constants {
    F32 multiplier;
    F32 lowest;  // relu6's limits: this and
    F32 scale;   // this; or what costly activations are multiplied by
    int16x8_t zero_point;

    template <Activation kActivation>
    static inline Constants load(const OutputStage& stage, int channel) {
      Constants constants;
      constants.multiplier = F32(stage.multiplier[channel]);
      constants.zero_point = vdupq_n_s16(static_cast<std::int16_t>(stage.zero_point[channel]));
      if constexpr (kActivation == Activation::kRelu6) {
        constants.lowest = F32(0.0F);
        constants.scale = F32(stage.six[channel]);
      } else if constexpr (kActivation == Activation::kLogistic) {
        constants.scale = F32(stage.inverse_scale[channel]);
      }
      return constants;
    }

    // Limits with which relu6 computes the stage's activation: linear, relu or relu6.
    static inline Constants load_limits(const OutputStage& stage, int channel) {
      if (stage.activation == Activation::kRelu6) return load<Activation::kRelu6>(stage, channel);
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      Constants constants = load<Activation::kRelu>(stage, channel);
      constants.lowest = F32(stage.activation == Activation::kRelu ? 0.0F : -kInfinity);
      constants.scale = F32(kInfinity);
      return constants;
    }
  };

  // What the sums of a channel start from.
  static I32 start(const OutputStage& stage, int channel) {
    return I32(stage.offset[channel] + kBaseBits);
  }

  // The value of a sum that started so, before its multiplier.
  static F32 value_of(I32 sum) { return F32(vreinterpretq_f32_s32(sum.value)) - F32(kBase); }

  // Writes kRows rows of outputs, each with its constants, of sums that started so.
  template <Activation kActivation, int kRows, int kVectors>
  static inline __attribute__((always_inline)) void write(const ActivationLine* lines,
                                                          const Constants (&constants)[kRows],
                                                          const I32 (&sums)[kRows][kVectors],
                                                          std::int8_t* output,
                                                          std::int64_t row_step) {
    F32 values[kRows][kVectors];
    int16x8_t zeros[kRows];
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      zeros[r.value] = constants[r.value].zero_point;
      unroll<kVectors>([&](auto v) MPE_UNROLLED {
        values[r.value][v.value] = value_of(sums[r.value][v.value]) * constants[r.value].multiplier;
      });
    });
    activate<kActivation>(lines, constants, values);
    store_rows(values, zeros, output, row_step);
  }

  // Whole rows of outputs whose activation is looked up: of successive channels (kChannelStep 1),
  // or all of one (0). All values leave the registers first: the look-up needs them.
  template <int kChannelStep, int kRows, int kVectors>
  static inline __attribute__((always_inline)) void write_by_lines(
      const OutputStage& stage, int channel, const I32 (&sums)[kRows][kVectors],
      std::int8_t* output, std::int64_t row_step) {
    F32 values[kRows * kVectors];
    F32* near = in_register(values);
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      const F32 multiplier(stage.multiplier[channel + r.value * kChannelStep]);
      unroll<kVectors>([&](auto v) MPE_UNROLLED {
        near[r.value * kVectors + v.value] = value_of(sums[r.value][v.value]) * multiplier;
      });
    });
    activate_by_lines(stage.lines, near, Index<kRows * kVectors>{});
    unroll<kRows / 2>([&](auto pair) MPE_UNROLLED {
      constexpr int kRow = 2 * pair.value;
      constexpr int kNext = kRow + 1;
      F32 steps[2][kVectors];
      unroll<2>([&](auto r) MPE_UNROLLED {
        const int at = channel + (kRow + r.value) * kChannelStep;
        const F32 inverse(stage.inverse_scale[at]);
        unroll<kVectors>([&](auto v) MPE_UNROLLED {
          steps[r.value][v.value] = near[(kRow + r.value) * kVectors + v.value] * inverse;
        });
      });
      store_steps(steps,
                  {stage.zero_point[channel + kRow * kChannelStep],
                   stage.zero_point[channel + kNext * kChannelStep]},
                  output + kRow * row_step, row_step);
    });
  }

  // Rounds two rows of outputs in steps and adds each row's zero point.
  template <int kVectors>
  static inline __attribute__((always_inline)) void store_steps(
      const F32 (&values)[2][kVectors], const std::int32_t (&zero_points)[2], std::int8_t* output,
      std::int64_t row_step) {
    const int16x8_t zeros[] = {vdupq_n_s16(static_cast<std::int16_t>(zero_points[0])),
                               vdupq_n_s16(static_cast<std::int16_t>(zero_points[1]))};
    store_rows(values, zeros, output, row_step);
  }

  // Rounds rows of outputs in steps and adds each row's zero point.
  template <int kRows, int kVectors>
  static inline __attribute__((always_inline)) void store_rows(
      const F32 (&values)[kRows][kVectors], const int16x8_t (&zero_points)[kRows],
      std::int8_t* output, std::int64_t row_step) {
    // Steps of two vectors: the lower halves of their bits, and the zero points.
    const auto steps = [&](auto r, auto v, auto other_r, auto other_v) MPE_UNROLLED {
      const auto bits = [](F32 x)
                            MPE_UNROLLED { return vreinterpretq_s16_f32((x + F32(kBase)).value); };
      int16x8_t zeros = zero_points[r.value];
      if constexpr (r.value != other_r.value) {
        zeros = vcombine_s16(vget_low_s16(zeros), vget_low_s16(zero_points[other_r.value]));
      }
      return vqaddq_s16(
          vuzp1q_s16(bits(values[r.value][v.value]), bits(values[other_r.value][other_v.value])),
          zeros);
    };
    constexpr int kPairs = kVectors / 2;
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      std::int8_t* to = output + r.value * row_step;
      unroll<kPairs / 2>([&](auto i) MPE_UNROLLED {
        constexpr int kAt = 4 * i.value;
        const int8x8_t low = vqmovn_s16(steps(r, Index<kAt>{}, r, Index<kAt + 1>{}));
        vst1q_s8(to + 4 * kAt,
                 vqmovn_high_s16(low, steps(r, Index<kAt + 2>{}, r, Index<kAt + 3>{})));
      });
      if constexpr (kPairs % 2 == 1) {
        constexpr int kAt = 2 * (kPairs - 1);
        vst1_s8(to + 4 * kAt, vqmovn_s16(steps(r, Index<kAt>{}, r, Index<kAt + 1>{})));
      }
    });
    if constexpr (kVectors % 2 == 1) {
      // The last vectors of two rows make one.
      constexpr Index<kVectors - 1> kLast;
      unroll<(kRows + 1) / 2>([&](auto pair) MPE_UNROLLED {
        constexpr int kRow = 2 * pair.value;
        constexpr int kOther = kRow + 1 < kRows ? kRow + 1 : kRow;
        const int32x2_t bytes =
            vreinterpret_s32_s8(vqmovn_s16(steps(Index<kRow>{}, kLast, Index<kOther>{}, kLast)));
        std::int8_t* to = output + kRow * row_step + 4 * kLast.value;
        vst1_lane_s32(reinterpret_cast<std::int32_t*>(to), bytes, 0);
        if constexpr (kOther != kRow) {
          vst1_lane_s32(reinterpret_cast<std::int32_t*>(to + row_step), bytes, 1);
        }
      });
    }
  }

 private:
  template <Activation kActivation, int kRows, int kVectors>
  static inline __attribute__((always_inline)) void activate(const ActivationLine* lines,
                                                             const Constants (&constants)[kRows],
                                                             F32 (&values)[kRows][kVectors]) {
    if constexpr (kActivation == Activation::kLogistic) {
      activate_copy(values, [lines](F32* all, int vectors)
                                MPE_UNROLLED { activate_by_lines(lines, all, vectors); });
    }
    unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
      F32& x = values[r.value][v.value];
      if constexpr (kActivation == Activation::kLogistic) {
        x = x * constants[r.value].scale;
      } else if constexpr (kActivation == Activation::kRelu) {
        x = larger(x, F32(0.0F));
      } else if constexpr (kActivation == Activation::kRelu6) {
        x = smaller(larger(x, constants[r.value].lowest), constants[r.value].scale);
      } else {
        x = activate_simple<kActivation>(x);
      }
    });
  }
};

}  // namespace
}  // namespace mpe
