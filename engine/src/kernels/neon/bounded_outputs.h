// Int8 outputs of bounded sums (OutputStage::bounded), whose conversions are additions: from
// 1.5 * 2^23 on a float's step is one, so the bits of kBase + n are those of kBase and n more. A
// Cortex-A76 converts one vector in the time of four additions. The results are those of
// quant/requantize.h, as no step of it rounds or limits otherwise within the bounds.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/generic/output.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// kLoads: are the vectors that sums start from loaded anew for each sum? Cores that execute out of
// order have units for loads, while moves take the place of arithmetic.
template <bool kLoads>
struct BoundedOutputs {
  static constexpr float kBase = 12582912.0F;
  static constexpr std::int32_t kBaseBits = 0x4B400000;

  // Of successive channels, four to a vector of those that arithmetic takes by lane.
  template <int kChannels>
  struct Constants {
    static constexpr int kFours = (kChannels + 3) / 4;
    F32 multiplier[kFours];
    F32 scale[kFours];  // what costly activations are multiplied by
    int16x8_t zero_point[kChannels];
    int16x8_t lowest[kChannels];  // limits of relu's and relu6's outputs
    int16x8_t highest[kChannels];

    template <Activation kActivation>
    static inline Constants load(const OutputStage& stage, int channel) {
      Constants constants;
      for (int i = 0; i < kFours; ++i) {
        constants.multiplier[i] = F32::load(stage.multiplier + channel + 4 * i);
        if constexpr (kActivation == Activation::kLogistic) {
          constants.scale[i] = F32::load(stage.inverse_scale + channel + 4 * i);
        }
      }
      for (int c = 0; c < kChannels; ++c) {
        const std::int32_t zero_point = stage.zero_point[channel + c];
        constants.zero_point[c] = eight_of(zero_point);
        if constexpr (kActivation == Activation::kRelu || kActivation == Activation::kRelu6) {
          constants.lowest[c] = constants.zero_point[c];
        }
        if constexpr (kActivation == Activation::kRelu6) {
          const float six = stage.six[channel + c];
          constants.highest[c] =
              eight_of(zero_point + round_half_even(six < kBoundedSteps ? six : kBoundedSteps));
        }
      }
      return constants;
    }

    // Limits with which relu6 computes the stage's activation: linear, relu or relu6.
    static inline Constants load_limits(const OutputStage& stage, int channel) {
      if (stage.activation == Activation::kRelu6) return load<Activation::kRelu6>(stage, channel);
      Constants constants = load<Activation::kRelu>(stage, channel);
      for (int c = 0; c < kChannels; ++c) {
        if (stage.activation != Activation::kRelu) constants.lowest[c] = eight_of(-32768);
        constants.highest[c] = eight_of(32767);
      }
      return constants;
    }

   private:
    static inline int16x8_t eight_of(std::int32_t value) {
      return vdupq_n_s16(static_cast<std::int16_t>(value < 32767 ? value : 32767));
    }
  };

  // What the sums of a channel start from.
  static I32 start(const OutputStage& stage, int channel) {
    return I32(stage.offset[channel] + kBaseBits);
  }

  // A copy that may be overwritten.
  template <typename Vector>
  static inline __attribute__((always_inline)) Vector copy_of(const Vector& x) {
    if constexpr (!kLoads) return x;
    Vector copy;
    asm volatile("ldr %q0, %1" : "=w"(copy.value) : "m"(x.value));
    return copy;
  }

  // The value of a sum that started so, before its multiplier.
  static F32 value_of(I32 sum) { return F32(vreinterpretq_f32_s32(sum.value)) - F32(kBase); }

  // The same times a lane.
  template <int kLane>
  static F32 product_of(I32 sum, F32 fours) {
    return F32(vmulq_laneq_f32(value_of(sum).value, fours.value, kLane));
  }

  // Writes kRows rows of outputs of sums that started so: of successive channels (kChannelStep 1),
  // the first of which is number kFirst of the constants, or all of it (0).
  template <Activation kActivation, int kFirst, int kChannelStep, int kChannels, int kRows,
            int kVectors>
  static inline __attribute__((always_inline)) void write(const ActivationLine* lines,
                                                          const Constants<kChannels>& constants,
                                                          const I32 (&sums)[kRows][kVectors],
                                                          std::int8_t* output,
                                                          std::int64_t row_step) {
    F32 values[kRows][kVectors];
    if constexpr (kActivation == Activation::kLogistic) {
      unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
        constexpr int kAt = kFirst + r.value * kChannelStep;
        values[r.value][v.value] =
            product_of<kAt % 4>(sums[r.value][v.value], constants.multiplier[kAt / 4]);
      });
      activate_copy(values, [lines](F32* all, int vectors)
                                MPE_UNROLLED { activate_by_lines(lines, all, vectors); });
      unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
        constexpr int kAt = kFirst + r.value * kChannelStep;
        F32& x = values[r.value][v.value];
        x = F32(vmulq_laneq_f32(x.value, constants.scale[kAt / 4].value, kAt % 4)) + F32(kBase);
      });
    } else {
      round<kActivation, kFirst, kChannelStep>(constants, sums, values);
    }
    store<kActivation, kFirst, kChannelStep>(constants, values, output, row_step);
  }

  // Activates and rounds sums that started so, onto the base, but does not limit them yet;
  // constants as for write(). Not of costly activations.
  template <Activation kActivation, int kFirst, int kChannelStep, int kChannels, int kRows,
            int kVectors>
  static inline __attribute__((always_inline)) void round(const Constants<kChannels>& constants,
                                                          const I32 (&sums)[kRows][kVectors],
                                                          F32 (&values)[kRows][kVectors]) {
    unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
      constexpr int kAt = kFirst + r.value * kChannelStep;
      F32 x = product_of<kAt % 4>(sums[r.value][v.value], constants.multiplier[kAt / 4]);
      if constexpr (kActivation == Activation::kLeaky) x = leaky(x);
      values[r.value][v.value] = x + F32(kBase);
    });
  }

  // Stores rows of values rounded so; constants as for write().
  template <Activation kActivation, int kFirst, int kChannelStep, int kChannels, int kRows,
            int kVectors>
  static inline __attribute__((always_inline)) void store(const Constants<kChannels>& constants,
                                                          const F32 (&values)[kRows][kVectors],
                                                          std::int8_t* output,
                                                          std::int64_t row_step) {
    const auto limited = [&](int16x8_t steps, auto row, auto other) MPE_UNROLLED {
      constexpr int kOne = kFirst + row.value * kChannelStep;
      constexpr int kTwo = kFirst + other.value * kChannelStep;
      const auto of_both = [](const auto& limits) MPE_UNROLLED {
        return kOne == kTwo ? limits[kOne] : halves_of(limits[kOne], limits[kTwo]);
      };
      steps = vqaddq_s16(steps, of_both(constants.zero_point));
      if constexpr (kActivation == Activation::kRelu || kActivation == Activation::kRelu6) {
        steps = vmaxq_s16(steps, of_both(constants.lowest));
      }
      if constexpr (kActivation == Activation::kRelu6) {
        steps = vminq_s16(steps, of_both(constants.highest));
      }
      return steps;
    };
    store_rows(values, output, row_step, limited);
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
      F32 rounded[2][kVectors];
      unroll<2>([&](auto r) MPE_UNROLLED {
        const int at = channel + (kRow + r.value) * kChannelStep;
        const F32 inverse(stage.inverse_scale[at]);
        unroll<kVectors>([&](auto v) MPE_UNROLLED {
          rounded[r.value][v.value] =
              near[(kRow + r.value) * kVectors + v.value] * inverse + F32(kBase);
        });
      });
      const auto zero_of = [&](int row) MPE_UNROLLED {
        return vdupq_n_s16(
            static_cast<std::int16_t>(stage.zero_point[channel + row * kChannelStep]));
      };
      const int16x8_t zeros[] = {zero_of(kRow), zero_of(kRow + 1)};
      store_rows(rounded, output + kRow * row_step, row_step,
                 [&](int16x8_t steps, auto one, auto other) MPE_UNROLLED {
                   const bool same = one.value == other.value;
                   return vqaddq_s16(steps, same ? zeros[one.value]
                                                 : halves_of(zeros[one.value], zeros[other.value]));
                 });
    });
  }

  // Stores rows of outputs that have been rounded onto the base. adjust(steps, row, other row)
  // gives the outputs of eight: of one row, or four of each.
  template <int kRows, int kVectors, typename Adjust>
  static inline __attribute__((always_inline)) void store_rows(
      const F32 (&rounded)[kRows][kVectors], std::int8_t* output, std::int64_t row_step,
      const Adjust& adjust) {
    // Of two vectors: the lower halves of their bits.
    const auto steps = [&](auto r, auto v, auto other_r, auto other_v) MPE_UNROLLED {
      const auto bits = [](F32 x) MPE_UNROLLED { return vreinterpretq_s16_f32(x.value); };
      return adjust(
          vuzp1q_s16(bits(rounded[r.value][v.value]), bits(rounded[other_r.value][other_v.value])),
          r, other_r);
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
  // The first four of one and of the other.
  static inline __attribute__((always_inline)) int16x8_t halves_of(int16x8_t a, int16x8_t b) {
    return vcombine_s16(vget_low_s16(a), vget_low_s16(b));
  }
};

}  // namespace
}  // namespace mpe
