// Kernels for arm64 cores with half arithmetic (FEAT_FP16): twice as many lanes for fp16. Sums of
// up to kHalfTerms products are formed in half, these are added in half up to the kernel's step of
// depth, and the steps' sums in float. A sum of n halves is off by at most n 2^-12 of the sum of
// its terms' magnitudes, in the mean by a root of that: 3 % and 0.3 % for the longest. Where one
// step is the whole of it, the bias is the first term, and a simple activation is computed in half
// as well, which adds at most 2^-11 of the output; SiLU and the logistic function add 3.5 times as
// much (half_activations.h).
// Winograd's sums wait in half, so that those of several kHalfTerms are added in half too, and its
// transforms are computed in half: docs/performance.md has what that adds, and
// winograd_weights.cpp and winograd_convolution.cpp see to it that nothing overflows.

// The generic code is written over these vectors, so they come first.
// clang-format off
#include "kernels/neon/vectors.h"
// clang-format on
#include "kernels/generic/depthwise_rows.h"
#include "kernels/generic/elementwise.h"
#include "kernels/generic/gemm.h"
#include "kernels/generic/winograd.h"
#include "kernels/neon/int8_elementwise.h"
#include "kernels/neon_fp16/half_activations.h"

namespace mpe {
namespace {

constexpr int kHalfTerms = 128;

inline float16x8_t load_halves(const std::uint16_t* from) {
  return vreinterpretq_f16_u16(vld1q_u16(from));
}

// Eight halves and their arithmetic, for Winograd's transforms.
struct F16 {
  using Value = std::uint16_t;
  static constexpr float kLowest = -65504.0F;
  static constexpr int kLanes = 8;
  float16x8_t value;

  F16() = default;
  explicit F16(float16x8_t v) : value(v) {}
  explicit F16(float scalar) : value(vdupq_n_f16(static_cast<float16_t>(scalar))) {}
  static F16 load(const std::uint16_t* from) { return F16(load_halves(from)); }
};

inline F16 operator+(F16 a, F16 b) { return F16(vaddq_f16(a.value, b.value)); }
inline F16 operator-(F16 a, F16 b) { return F16(vsubq_f16(a.value, b.value)); }
inline F16 operator*(F16 a, F16 b) { return F16(vmulq_f16(a.value, b.value)); }
inline void settle(F16& x) { asm volatile("" : "+w"(x.value)); }
// NaN wins, as it does among halves compared as integers.
inline F16 keep_larger(F16 largest, F16 x) { return F16(vmaxq_f16(largest.value, x.value)); }
inline F16 keep_larger_value(F16 largest, F16 x) { return keep_larger(largest, x); }
inline F16 multiply_add(F16 sum, F16 a, F16 b) {
  return F16(vfmaq_f16(sum.value, a.value, b.value));
}
inline void store(std::uint16_t* to, F16 x) { vst1q_u16(to, vreinterpretq_u16_f16(x.value)); }
inline void store(std::uint16_t* to, F16 x, int count) {
  if (count == F16::kLanes) return store(to, x);
  __builtin_memcpy(to, &x.value, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
}

template <int kCount>
struct Factors<F16, kCount> {
  float16x8_t vectors[(kCount + 7) / 8];

  explicit Factors(const std::uint16_t* from) {
    for (int i = 0; i < (kCount + 7) / 8; ++i) vectors[i] = load_halves(from + 8 * i);
  }
  template <int kIndex>
  F16 times(F16 x) const {
    return F16(vmulq_laneq_f16(x.value, vectors[kIndex / 8], kIndex % 8));
  }
  template <int kIndex>
  F16 add_product(F16 sum, F16 x) const {
    return F16(vfmaq_laneq_f16(sum.value, x.value, vectors[kIndex / 8], kIndex % 8));
  }
};

inline F16 leaky(F16 x) { return F16(vmaxq_f16(x.value, vmulq_f16(x.value, F16(0.1F).value))); }
inline F16 relu(F16 x) { return F16(vmaxnmq_f16(x.value, F16(0.0F).value)); }
inline F16 relu6(F16 x) { return F16(vminnmq_f16(relu(x).value, F16(6.0F).value)); }
// Costly activations are computed in float: there are no digits to spare in half.
template <bool kForHalf, typename I>
inline void put_into(ActivationGroup<kForHalf>& group, I i, F16 x) {
  group.vectors[2 * i.value] = F32(vcvt_f32_f16(vget_low_f16(x.value)));
  group.vectors[2 * i.value + 1] = F32(vcvt_high_f32_f16(x.value));
}
template <bool kForHalf, typename I>
inline void take_from(const ActivationGroup<kForHalf>& group, I i, F16& x) {
  const float16x4_t low = vcvt_f16_f32(group.vectors[2 * i.value].value);
  x = F16(vcvt_high_f16_f32(low, group.vectors[2 * i.value + 1].value));
}

constexpr int kHalvesAtOnce = 4;  // vectors

template <Activation kActivation, int kCount>
inline __attribute__((always_inline)) void activate_halves(const HalfConstants& constants,
                                                           F16* values) {
  float16x8_t few[kCount];
  unroll<kCount>([&](auto i) MPE_UNROLLED { few[i.value] = values[i.value].value; });
  activate_halves<kActivation>(constants, few);
  unroll<kCount>([&](auto i) MPE_UNROLLED { values[i.value].value = few[i.value]; });
}

template <Activation kActivation>
inline __attribute__((always_inline)) void activate_halves(F16* values, int count) {
  const HalfConstants constants;
  for (; count >= kHalvesAtOnce; count -= kHalvesAtOnce, values += kHalvesAtOnce) {
    activate_halves<kActivation, kHalvesAtOnce>(constants, values);
  }
  for (; count > 0; --count, ++values) activate_halves<kActivation, 1>(constants, values);
}

inline __attribute__((noinline)) void activate_logistic(F16* values, int count) {
  activate_halves<Activation::kLogistic>(values, count);
}

// Sums in half are no more precise than these two in half. They are the commonest costly
// activations. SiLU is inlined, as most networks that have one use it in every layer.
inline __attribute__((always_inline)) void activate_costly_values(Activation activation,
                                                                  F16* values, int count) {
  if (activation == Activation::kSwish) return activate_halves<Activation::kSwish>(values, count);
  if (activation == Activation::kLogistic) return activate_logistic(values, count);
  activate_vectors(activation, values, count);
}

inline void deinterleave(const std::uint16_t* from, F16 (&columns)[4]) {
  const uint16x8x4_t loaded = vld4q_u16(from);
  for (int i = 0; i < 4; ++i) columns[i].value = vreinterpretq_f16_u16(loaded.val[i]);
}

inline void deinterleave(const std::uint16_t* from, F16 (&columns)[2]) {
  const uint16x8x2_t loaded = vld2q_u16(from);
  for (int i = 0; i < 2; ++i) columns[i].value = vreinterpretq_f16_u16(loaded.val[i]);
}

inline F16 following(F16 x, F16 next) { return F16(vextq_f16(x.value, next.value, 1)); }

inline void interleave(std::uint16_t* to, const F16 (&columns)[4]) {
  uint16x8x4_t stored;
  for (int i = 0; i < 4; ++i) stored.val[i] = vreinterpretq_u16_f16(columns[i].value);
  vst4q_u16(to, stored);
}

inline void interleave(std::uint16_t* to, const F16 (&columns)[2]) {
  uint16x8x2_t stored;
  for (int i = 0; i < 2; ++i) stored.val[i] = vreinterpretq_u16_f16(columns[i].value);
  vst2q_u16(to, stored);
}

inline void interleave(std::uint16_t* to, const F16 (&columns)[1]) { store(to, columns[0]); }

// Adds eight halves to eight sums, or starts them.
inline void add_to(std::uint16_t* sums, float16x8_t halves, bool fresh) {
  store(sums, fresh ? F16(halves) : F16::load(sums) + F16(halves));
}
inline void add_to(float* sums, float16x8_t halves, bool fresh) {
  const F32 low(vcvt_f32_f16(vget_low_f16(halves)));
  const F32 high(vcvt_high_f32_f16(halves));
  store(sums, fresh ? low : F32::load(sums) + low);
  store(sums + F32::kLanes, fresh ? high : F32::load(sums + F32::kLanes) + high);
}

// Winograd's weights, transformed in half for every inference.
struct HalfWeights {
  using Vector = F16;
  static F16 load(const std::uint16_t* from) { return F16::load(from); }
  static void store(std::uint16_t* to, F16 x) { mpe::store(to, x); }
};

// Not merged with other loads of the same values: copies would keep the multiply-adds waiting.
inline void load_alone(F16& to, const std::uint16_t* from) {
  asm volatile("ldr %q0, %1" : "=w"(to.value) : "m"(*reinterpret_cast<const uint16x8_t*>(from)));
}

struct Fp16Product {
  using Vector = F16;
  using Input = std::uint16_t;
  using Panel = std::uint16_t;
  using Weight = std::uint16_t;
  using Multiplier = std::uint16_t;
  using Sum = float;
  static constexpr WeightFormat kWeights = WeightFormat::kHalf;
  static constexpr int kRows = 8;
  static constexpr int kVectors = 3;
  static constexpr int kLanes = 8;
  static constexpr int kUnit = 1;

  using Transform = F16;
  using Sums = F16;
  using WeightTransform = HalfWeights;
  static F16 load_input(const std::uint16_t* from) { return F16(load_halves(from)); }
  static F16 load_input(const float* from) {
    return F16(vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(from)), vld1q_f32(from + 4)));
  }

  // Always inlined: with few channels there are few products for each call.
  template <int kUsed, typename Tile>
  static inline __attribute__((always_inline)) void accumulate(
      const std::uint16_t* panel, const std::uint16_t* weights, int units, Tile* tile, bool fresh,
      int panel_stride = kVectors * kLanes, int tile_stride = kVectors * kLanes) {
    F16 sums[kRows][kUsed];
    add_runs<kUsed, true>(sums, panel, weights, units, panel_stride);
    unroll_grid<kRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      add_to(tile + r.value * tile_stride + v.value * kLanes, sums[r.value][v.value].value, fresh);
    });
  }

  static constexpr bool kTakesSingle = true;
  // The same of kUsed vectors and one value more. Its sums lie along the rows, a multiply-add for
  // all of them, and wait so in the first row until the last terms; then they go to their rows,
  // before zeros.
  template <int kUsed>
  static inline __attribute__((always_inline)) void accumulate_with_single(
      const std::uint16_t* panel, const std::uint16_t* weights, int units, std::uint16_t* tile,
      bool first, bool last, int panel_stride, int tile_stride) {
    F16 sums[kRows][kUsed];
    F16 singles;
    add_runs<kUsed, true>(sums, panel, weights, units, panel_stride, &singles);
    unroll_grid<kRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      add_to(tile + r.value * tile_stride + v.value * kLanes, sums[r.value][v.value].value, first);
    });
    std::uint16_t* single_tile = tile + kUsed * kLanes;
    if (!first) singles = F16::load(single_tile) + singles;
    if (!last) return store(single_tile, singles);
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      const float16_t value = vgetq_lane_f16(singles.value, r.value);
      store(single_tile + r.value * tile_stride, F16(vsetq_lane_f16(value, F16(0.0F).value, 0)));
    });
  }

  // Bias, sums and activation in half.
  static constexpr bool kRepeatsBias = true;
  template <int kUsed>
  static void convolve_tile(const std::uint16_t* panel, std::int64_t panel_stride,
                            const std::uint16_t* weights, int units, const OutputStage& stage,
                            int channel, int rows, std::uint16_t* output, std::int64_t pixels) {
    const auto convolve = [&](auto used_rows) MPE_UNROLLED {
      // Or compilers put loads that both forms begin with before the branch, where no products of
      // the first term run beside them.
      asm volatile("" : : "i"(used_rows.value));
      F16 sums[used_rows.value][kUsed];
      start(sums, stage, channel);
      add_runs<kUsed>(sums, panel, weights, units, panel_stride);
      finish(stage, sums, rows, output, pixels);
    };
    if (rows > kRows / 2) {
      convolve(Index<kRows>{});
    } else {
      convolve(Index<kRows / 2>{});
    }
  }

  template <int kUsed>
  static void convolve_taps(const TapRuns<std::uint16_t>& taps, const std::uint16_t* weights,
                            const OutputStage& stage, int channel, int rows, std::uint16_t* output,
                            std::int64_t pixels) {
    static_assert(TapRuns<std::uint16_t>::kMostTerms <= kHalfTerms);
    F16 sums[kRows][kUsed];
    start(sums, stage, channel);
    taps.for_each<kRows>(weights,
                         [&](const std::uint16_t* from, const std::uint16_t* of_tap) MPE_UNROLLED {
                           add_terms<kUsed, false>(sums, from, of_tap, taps.channels, taps.stride);
                         });
    finish(stage, sums, rows, output, pixels);
  }

 private:
  // These need more registers than the sums leave. From the stack they go to the output at once.
  template <int kUsedRows, int kUsed>
  static inline __attribute__((always_inline)) void finish(const OutputStage& stage,
                                                           F16 (&sums)[kUsedRows][kUsed], int rows,
                                                           std::uint16_t* output,
                                                           std::int64_t pixels) {
    const bool swish = stage.activation == Activation::kSwish;
    if ((swish || stage.activation == Activation::kLogistic) && rows >= kUsedRows) {
      F16 columns[kUsedRows / kHalvesAtOnce][kUsed][kHalvesAtOnce];
      unroll_grid<kUsedRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
        columns[r.value / kHalvesAtOnce][v.value][r.value % kHalvesAtOnce] = sums[r.value][v.value];
      });
      const auto activate = swish ? activate_into_rows<Activation::kSwish>
                                  : activate_into_rows<Activation::kLogistic>;
      return activate(columns[0][0], kUsedRows, kUsed, output, pixels);
    }
    activate_all(stage.activation, sums);
    store_rows(sums, rows, output, pixels);
  }

  // From [rows / kHalvesAtOnce][column][kHalvesAtOnce] to rows of the output.
  template <Activation kActivation>
  static __attribute__((noinline)) void activate_into_rows(const F16* values, int rows, int columns,
                                                           std::uint16_t* output,
                                                           std::int64_t pixels) {
    const HalfConstants constants;
    for (; rows > 0; rows -= kHalvesAtOnce, output += kHalvesAtOnce * pixels) {
      for (int i = 0; i < columns; ++i, values += kHalvesAtOnce) {
        float16x8_t few[kHalvesAtOnce];
        unroll<kHalvesAtOnce>([&](auto r) MPE_UNROLLED { few[r.value] = values[r.value].value; });
        activate_halves<kActivation>(constants, few);
        std::uint16_t* to = output + i * kLanes;
        unroll<kHalvesAtOnce>(
            [&](auto r) MPE_UNROLLED { store(to + r.value * pixels, F16(few[r.value])); });
      }
    }
  }

  template <int kUsedRows, int kUsed>
  static inline __attribute__((always_inline)) void start(F16 (&sums)[kUsedRows][kUsed],
                                                          const OutputStage& stage, int channel) {
    const std::uint16_t* bias = stage.repeated_bias + static_cast<std::int64_t>(channel) * kLanes;
    unroll_grid<kUsedRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      load_alone(sums[r.value][v.value], bias + r.value * kLanes);
    });
  }

  // Runs of kHalfTerms. kStarts: the sums begin with the first products. Singles:
  // accumulate_with_single()'s F16*.
  template <int kUsed, bool kStarts = false, int kUsedRows, typename... Singles>
  static inline __attribute__((always_inline)) void add_runs(F16 (&sums)[kUsedRows][kUsed],
                                                             const std::uint16_t* panel,
                                                             const std::uint16_t* weights,
                                                             int units, std::int64_t panel_stride,
                                                             Singles... singles) {
    const int terms = units < kHalfTerms ? units : kHalfTerms;
    add_terms<kUsed, kStarts>(sums, panel, weights, terms, panel_stride, singles...);
    if (units == terms) return;
    F16 waiting[kUsedRows][kUsed];
    F16 waiting_singles[] = {*singles..., F16()};
    copy_sums(sums, waiting);
    add_further_runs(waiting, panel + terms * panel_stride, weights + terms * kRows, units - terms,
                     panel_stride, (static_cast<void>(singles), waiting_singles)...);
    copy_sums(waiting, sums);
    ((*singles = waiting_singles[0]), ...);
  }

  // The registers hold one run's sums, the earlier ones wait in memory. A function of its own, so
  // that sums of one run alone never leave the registers.
  template <int kUsedRows, int kUsed, typename... Singles>
  static __attribute__((noinline)) void add_further_runs(F16 (&sums)[kUsedRows][kUsed],
                                                         const std::uint16_t* panel,
                                                         const std::uint16_t* weights, int units,
                                                         std::int64_t panel_stride,
                                                         Singles... singles) {
    while (units > 0) {
      const int terms = units < kHalfTerms ? units : kHalfTerms;
      F16 run[kUsedRows][kUsed];
      F16 run_singles;
      add_terms<kUsed, true>(run, panel, weights, terms, panel_stride,
                             (static_cast<void>(singles), &run_singles)...);
      F16* to = sums[0];
      asm volatile("" : "+r"(to));  // or compilers load all of them first, and run out of registers
      unroll<kUsedRows * kUsed>([&](auto i) MPE_UNROLLED {
        to[i.value] = to[i.value] + run[i.value / kUsed][i.value % kUsed];
      });
      ((*singles = *singles + run_singles), ...);
      panel += terms * panel_stride;
      weights += terms * kRows;
      units -= terms;
    }
  }

  template <int kUsedRows, int kUsed>
  static inline __attribute__((always_inline)) void copy_sums(const F16 (&from)[kUsedRows][kUsed],
                                                              F16 (&to)[kUsedRows][kUsed]) {
    unroll_grid<kUsedRows, kUsed>(
        [&](auto r, auto v) MPE_UNROLLED { to[r.value][v.value] = from[r.value][v.value]; });
  }

  template <int kUsed, bool kStarts, int kUsedRows, typename... Singles>
  static inline __attribute__((always_inline)) void add_terms(F16 (&sums)[kUsedRows][kUsed],
                                                              const std::uint16_t* panel,
                                                              const std::uint16_t* weights,
                                                              int units, std::int64_t panel_stride,
                                                              Singles... singles) {
    // At least one: no branch lies between the sums' beginning and the first products.
    add_term<kUsed, kStarts>(sums, panel, weights, singles...);
    while (--units > 0) {
      panel += panel_stride;
      weights += kRows;
      add_term<kUsed, false>(sums, panel, weights, singles...);
    }
  }

  template <int kUsed, bool kStarts, int kUsedRows, typename... Singles>
  static inline __attribute__((always_inline)) void add_term(F16 (&sums)[kUsedRows][kUsed],
                                                             const std::uint16_t* panel,
                                                             const std::uint16_t* weights,
                                                             Singles... singles) {
    const float16x8_t rows = load_halves(weights);
    float16x8_t values[kUsed];
    unroll<kUsed>([&](auto v)
                      MPE_UNROLLED { values[v.value] = load_halves(panel + v.value * kLanes); });
    unroll_grid<kUsedRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      float16x8_t& sum = sums[r.value][v.value].value;
      sum = kStarts ? vmulq_laneq_f16(values[v.value], rows, r.value)
                    : vfmaq_laneq_f16(sum, values[v.value], rows, r.value);
    });
    (add_single<kStarts>(*singles, F16(rows), panel + kUsed * kLanes), ...);
  }

  template <bool kStarts>
  static inline __attribute__((always_inline)) void add_single(F16& sums, F16 rows,
                                                               const std::uint16_t* value) {
    const F16 repeated(vreinterpretq_f16_u16(vld1q_dup_u16(value)));
    sums = kStarts ? rows * repeated : multiply_add(sums, rows, repeated);
  }
};

struct Fp16Depthwise {
  using Input = std::uint16_t;
  using Value = std::uint16_t;
  using Sum = float;
  static constexpr WeightFormat kWeights = WeightFormat::kHalf;
  static constexpr int kLanes = 8;

  template <int kSteps>
  static void accumulate(const std::uint16_t* strip, const std::uint16_t* weights,
                         const std::int32_t* offsets, int taps, float* sums) {
    for (int begin = 0; begin < taps; begin += kHalfTerms) {
      const int left = taps - begin;
      const int end = left < kHalfTerms ? taps : begin + kHalfTerms;
      float16x8_t totals[kSteps];
      unroll<kSteps>([&](auto s)
                         MPE_UNROLLED { totals[s.value] = vreinterpretq_f16_u16(vdupq_n_u16(0)); });
      for (int tap = begin; tap < end; ++tap) {
        const float16x8_t weight = vreinterpretq_f16_u16(vdupq_n_u16(weights[tap]));
        const std::uint16_t* values = strip + offsets[tap];
        unroll<kSteps>([&](auto s) MPE_UNROLLED {
          totals[s.value] =
              vfmaq_f16(totals[s.value], load_halves(values + s.value * kLanes), weight);
        });
      }
      unroll<kSteps>([&](auto s) MPE_UNROLLED {
        add_to(sums + s.value * kLanes, totals[s.value], begin == 0);
      });
    }
  }
};

// Multiply-adds stay in the order of the rows, in which no sum waits for itself.
struct Fp16DepthwiseRows : Fp16Depthwise {
  static constexpr int kMostVectors = 3;
  using Vector = F16;

  template <int kTaps>
  struct Weights {
    float16x8_t vectors[(kTaps + 7) / 8];
    explicit Weights(const std::uint16_t* from) {
      for (int i = 0; i < (kTaps + 7) / 8; ++i) vectors[i] = load_halves(from + 8 * i);
    }
  };
  static void fence_loads() {}
  static void start(F16& sum, const std::uint16_t* bias) { load_alone(sum, bias); }
  template <int kOffset>
  static void load(F16& to, const std::uint16_t* from) {
    to = F16(load_halves(from + kOffset));
  }
  template <int kTap, int kTaps>
  static void multiply_add(F16& sum, F16 value, const Weights<kTaps>& weights) {
    asm volatile("fmla %0.8h, %1.8h, %2.h[%3]"
                 : "+w"(sum.value)
                 : "w"(value.value), "x"(weights.vectors[kTap / 8]), "i"(kTap % 8));
  }
  static void store(std::uint16_t* to, F16 value, int count) { mpe::store(to, value, count); }
  static void copy(const std::uint16_t* from, std::uint16_t* to) { *to = *from; }
  static void copy_rows(const std::uint16_t* from, std::int64_t from_step, std::uint16_t* to,
                        std::int64_t to_step, int count, int rows) {
    mpe::copy_rows(to, to_step, from, from_step, count, rows);
  }
  static void split_rows(const std::uint16_t* from, std::int64_t from_step,
                         const SplitRows<std::uint16_t>& to, int count, int rows) {
    mpe::split_rows<F16>(from, from_step, to, count, rows);
  }
};

// The same bits as sums in float, rounded: these have the digits for it.
void add_halves(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* to,
                std::int64_t count, Activation activation) {
  std::int64_t i = 0;
  if (activation == Activation::kLinear) {
    for (; i + kAtOnce * F16::kLanes <= count; i += kAtOnce * F16::kLanes) {
      F16 sums[kAtOnce];
      unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
        constexpr int kAt = v.value * F16::kLanes;
        sums[v.value] = F16::load(a + i + kAt) + F16::load(b + i + kAt);
      });
      unroll<kAtOnce>([&](auto v)
                          MPE_UNROLLED { store(to + i + v.value * F16::kLanes, sums[v.value]); });
    }
  }
  add_values(a + i, b + i, to + i, count - i, activation);
}

constexpr ElementwiseKernels with_half_arithmetic(ElementwiseKernels kernels) {
  kernels.add_halves = add_halves;
  kernels.quantize = quantize_bounded;
  kernels.requantize = requantize_by_tables;
  kernels.add_bytes = add_bytes_by_tables;
  return kernels;
}
constexpr ElementwiseKernels kElementwise = with_half_arithmetic(elementwise_kernels_of_set());

constexpr GemmKernel kFp16Gemm = gemm_kernel<Fp16Product>(576);
constexpr WinogradKernel kFp16Winograd = winograd_kernel<Fp16Product>();
constexpr DepthwiseKernel kFp16DepthwiseKernel = depthwise_rows_kernel<Fp16DepthwiseRows>();

bool supported(const CpuFeatures& features) { return features.neon && features.fp16; }

}  // namespace

constexpr KernelSet kNeonFp16Kernels = {"neon_fp16",
                                        supported,
                                        {nullptr, &kFp16Gemm, nullptr},
                                        {nullptr, &kFp16DepthwiseKernel, nullptr},
                                        {nullptr, &kFp16Winograd, nullptr},
                                        &kElementwise};

}  // namespace mpe
