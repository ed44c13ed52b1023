// Kernels for every arm64 core. fp16 is storage: sums are formed in float. int8 without dot
// products: two products of bytes fit in 16 bits (2 * 128 * 127 < 2^15, as weights are never -128),
// then neighbouring pairs are added into 32-bit sums.

// The generic code is written over these vectors, so they come first.
// clang-format off
#include "kernels/neon/vectors.h"
// clang-format on
#include "kernels/generic/elementwise.h"
#include "kernels/generic/float_kernels.h"
#include "kernels/neon/int8_depthwise.h"
#include "kernels/neon/int8_tile.h"
#include "kernels/neon/int8_winograd.h"
// Over the vectors of the header before.
#include "kernels/generic/int8_depthwise.h"
#include "kernels/generic/int8_winograd.h"
#include "kernels/generic/interleaved.h"

namespace mpe {
namespace {

#ifdef MPE_NEON_IN_ORDER
constexpr bool kInOrder = true;
#else
constexpr bool kInOrder = false;
#endif

// An in-order core does what it is told in that order, so it is said here and kept (`volatile`):
// the Cortex-A53 takes a multiply-add and a load of 64 bits in one cycle, a load of 128 bits alone,
// and waits for a value that is loaded less than six cycles before its use.
// The loads have no memory operands, because with them the compiler would compute every address
// beforehand. So a barrier must follow the writes of the values that they read.
inline void barrier() { asm volatile("" ::: "memory"); }
template <int kOffset>
inline void load_in_order(float32x2_t& to, const float* from) {
  asm volatile("ldr %d0, [%1, %2]" : "=w"(to) : "r"(from), "i"(kOffset * 4));
}
template <int kOffset>
inline void load_in_order(float32x4_t& to, const float* from) {
  asm volatile("ldr %q0, [%1, %2]" : "=w"(to) : "r"(from), "i"(kOffset * 4));
}
template <int kLane>
inline void multiply_add_in_order(float32x4_t& sum, float32x4_t values, float32x2_t weights) {
  asm volatile("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(sum) : "w"(values), "w"(weights), "i"(kLane));
}

template <int kLane>
inline void multiply_in_order(float32x4_t& product, float32x4_t values, float32x2_t weights) {
  asm volatile("fmul %0.4s, %1.4s, %2.s[%3]"
               : "=w"(product)
               : "w"(values), "w"(weights), "i"(kLane));
}
inline void multiply_in_order(float32x2_t& product, float32x2_t values, float32x2_t weight) {
  asm volatile("fmul %0.2s, %1.2s, %2.s[0]" : "=w"(product) : "w"(values), "w"(weight));
}
inline void multiply_add_in_order(float32x2_t& sum, float32x2_t values, float32x2_t weight) {
  asm volatile("fmla %0.2s, %1.2s, %2.s[0]" : "+w"(sum) : "w"(values), "w"(weight));
}
template <int kLane>
inline void multiply_add_in_order(float32x4_t& sum, float32x4_t values, float32x4_t weights) {
  asm volatile("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(sum) : "w"(values), "w"(weights), "i"(kLane));
}

inline void advance_in_order(const float*& pointer, std::int64_t count) {
  asm volatile("add %0, %0, %1" : "+r"(pointer) : "rI"(count * 4));
}

// Depthwise convolution with a channel's weights in registers, used by lane.
struct OrderedDepthwise : Fp32Depthwise {
  static constexpr int kMostVectors = 3;
  template <int kTaps>
  struct Weights {
    float32x4_t quads[(kTaps + 3) / 4];
    explicit Weights(const float* from) {
      for (int i = 0; i < (kTaps + 3) / 4; ++i) quads[i] = vld1q_f32(from + 4 * i);
    }
  };
  template <int kOffset>
  static void load(F32& to, const float* from) {
    load_in_order<kOffset>(to.value, from);
  }
  static void fence_loads() { barrier(); }
  // A load for every vector: copies of one would keep the multiply-adds waiting. On an in-order
  // core a load of 128 bits does so too.
  static void start(F32& sum, const float* bias) {
    if constexpr (kInOrder) {
      sum = F32::load(bias);
    } else {
      load_in_order<0>(sum.value, bias);
    }
  }
  template <int kTap, int kTaps>
  static void multiply_add(F32& sum, F32 value, const Weights<kTaps>& weights) {
    multiply_add_in_order<kTap % 4>(sum.value, value.value, weights.quads[kTap / 4]);
  }
};

// Weights are read in pairs and used by lane. Everything is loaded ahead of its use: pixels by a
// whole term, weights by one pair of rows or two, as far as the 32 registers reach.
struct Fp32Product {
  using Vector = F32;
  using Input = float;
  using Panel = float;
  using Weight = float;
  using Multiplier = float;
  using Sum = float;
  static constexpr WeightFormat kWeights = WeightFormat::kFloat;
  static constexpr int kRows = 8;
  static constexpr int kVectors = 3;
  static constexpr int kLanes = F32::kLanes;
  static constexpr int kUnit = 1;
  static constexpr bool kTakesSingle = true;

  // Always inlined: with few channels there are few products for each call.
  template <int kUsed>
  static inline __attribute__((always_inline)) void accumulate(
      const float* panel, const float* weights, int units, float* tile, bool fresh,
      int panel_stride = kVectors * kLanes, int tile_stride = kVectors * kLanes) {
    F32 sums[kRows][kUsed];
    if (fresh) {
      add_terms<kUsed, true>(sums, panel, weights, units, panel_stride);
    } else {
      unroll_grid<kRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
        sums[r.value][v.value] = F32::load(tile + r.value * tile_stride + v.value * kLanes);
      });
      add_terms<kUsed>(sums, panel, weights, units, panel_stride);
    }
    unroll_grid<kRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      store(tile + r.value * tile_stride + v.value * kLanes, sums[r.value][v.value]);
    });
  }

  // The same of kUsed vectors and one value more. Its sums lie along the rows, and wait so in the
  // first rows until the last terms; then they go to their rows, before zeros.
  template <int kUsed>
  static inline __attribute__((always_inline)) void accumulate_with_single(
      const float* panel, const float* weights, int units, float* tile, bool first, bool last,
      int panel_stride, int tile_stride) {
    F32 sums[kRows][kUsed];
    float32x2_t singles[kPairs];
    float* single_tile = tile + kUsed * kLanes;
    const auto waiting = [&](auto pair) MPE_UNROLLED {
      return single_tile + pair.value / 2 * tile_stride + pair.value % 2 * 2;
    };
    if (first) {
      add_terms<kUsed, true>(sums, panel, weights, units, panel_stride, &singles[0]);
    } else {
      unroll_grid<kRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
        sums[r.value][v.value] = F32::load(tile + r.value * tile_stride + v.value * kLanes);
      });
      unroll<kPairs>([&](auto i) MPE_UNROLLED { singles[i.value] = vld1_f32(waiting(i)); });
      add_terms<kUsed>(sums, panel, weights, units, panel_stride, &singles[0]);
    }
    unroll_grid<kRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      store(tile + r.value * tile_stride + v.value * kLanes, sums[r.value][v.value]);
    });
    if (!last) {
      unroll<kPairs>([&](auto i) MPE_UNROLLED { vst1_f32(waiting(i), singles[i.value]); });
      return;
    }
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      const float32x4_t zeros = vdupq_n_f32(0.0F);
      const F32 row(vcopyq_lane_f32(zeros, 0, singles[r.value / 2], r.value % 2));
      store(single_tile + r.value * tile_stride, row);
    });
  }

  // Always inlined: a tile of few terms takes little more time than a call.
  template <int kUsed>
  static inline __attribute__((always_inline)) void convolve_tile(
      const float* panel, std::int64_t panel_stride, const float* weights, int units,
      const OutputStage& stage, int channel, int rows, float* output, std::int64_t pixels) {
    convolve_float_tile<Fp32Product, kUsed>(panel, panel_stride, weights, units, stage, channel,
                                            rows, output, pixels);
  }
  template <int kUsed>
  static inline __attribute__((always_inline)) void convolve_taps(
      const TapRuns<float>& taps, const float* weights, const OutputStage& stage, int channel,
      int rows, float* output, std::int64_t pixels) {
    convolve_float_taps<Fp32Product, kUsed>(taps, weights, stage, channel, rows, output, pixels);
  }

  // kStarts: the sums begin with the first products. Singles: accumulate_with_single()'s, for each
  // pair of rows.
  template <int kUsed, bool kStarts = false, typename... Singles>
  static inline __attribute__((always_inline)) void add_terms(F32 (&sums)[kRows][kUsed],
                                                              const float* panel,
                                                              const float* weights, int units,
                                                              std::int64_t panel_stride,
                                                              Singles*... singles) {
    Operands<kUsed> operands;
    barrier();
    unroll<kUsed>([&](auto v) MPE_UNROLLED {
      load_in_order<v.value * kLanes>(operands.values[0][v.value], panel);
    });
    if constexpr (sizeof...(Singles) > 0) load_in_order<kUsed * kLanes>(operands.single[0], panel);
    unroll<kAhead<kUsed>>([&](auto i) MPE_UNROLLED {
      load_in_order<2 * i.value>(operands.weights[i.value], weights);
    });
    Next next = {panel + panel_stride, weights + kRows, panel_stride};
    if constexpr (kStarts) {
      if (units == 1) {
        add_term<kUsed, 0, false, true>(sums, operands, next, singles...);
        return barrier();
      }
      add_term<kUsed, 0, true, true>(sums, operands, next, singles...);
      --units;
    }
    constexpr int kFirst = kStarts ? 1 : 0;
    // Counted down to zero, which costs no comparison.
    int left = (units - 1) / 2;
    if (left > 0) {
      do {
        add_term<kUsed, kFirst>(sums, operands, next, singles...);
        add_term<kUsed, 1 - kFirst>(sums, operands, next, singles...);
      } while (--left > 0);
    }
    if (units % 2 == 0) {
      add_term<kUsed, kFirst>(sums, operands, next, singles...);
      add_term<kUsed, 1 - kFirst, false>(sums, operands, next, singles...);
    } else {
      add_term<kUsed, kFirst, false>(sums, operands, next, singles...);
    }
    barrier();
  }

 private:
  static constexpr int kPairs = kRows / 2;
  template <int kUsed>
  static constexpr int kAhead = kUsed == 3 ? 1 : 2;

  template <int kUsed>
  struct Operands {
    float32x4_t values[2][kUsed];  // of this term and of the next
    float32x2_t single[2];         // with the value after it, which is not used
    float32x2_t weights[2 * kAhead<kUsed>];
  };

  // The term after the one that is added, which the last does not have.
  struct Next {
    const float* panel;
    const float* weights;
    std::int64_t panel_stride;
  };

  template <int kLane, bool kStarts>
  static inline __attribute__((always_inline)) void add_product(float32x4_t& sum, float32x4_t value,
                                                                float32x2_t weight) {
    if constexpr (kStarts) {
      multiply_in_order<kLane>(sum, value, weight);
    } else {
      multiply_add_in_order<kLane>(sum, value, weight);
    }
  }

  // A single's value takes two weights at a time, which the others use one by one.
  template <bool kStarts>
  static inline __attribute__((always_inline)) void add_single(float32x2_t& sums,
                                                               float32x2_t weights,
                                                               float32x2_t value) {
    if constexpr (kStarts) {
      multiply_in_order(sums, weights, value);
    } else {
      multiply_add_in_order(sums, weights, value);
    }
  }

  template <int kUsed, int kCurrent, bool kLoadsNext = true, bool kStarts = false,
            typename... Singles>
  static inline __attribute__((always_inline)) void add_term(F32 (&sums)[kRows][kUsed],
                                                             Operands<kUsed>& operands, Next& next,
                                                             Singles*... singles) {
    constexpr int kSlots = 2 * kAhead<kUsed>;
    unroll<kPairs>([&](auto i) MPE_UNROLLED {
      constexpr int kPair = i.value;
      constexpr int kLoaded = kPair + kAhead<kUsed>;
      const float32x2_t weight = operands.weights[kPair % kSlots];
      unroll<kUsed>([&](auto v) MPE_UNROLLED {
        const float32x4_t value = operands.values[kCurrent][v.value];
        add_product<0, kStarts>(sums[2 * kPair][v.value].value, value, weight);
        if constexpr (v.value == 0 && (kLoadsNext || kLoaded < kPairs)) {
          load_in_order<2 * kLoaded - kRows>(operands.weights[kLoaded % kSlots], next.weights);
        }
        constexpr bool kAdvances = kLoadsNext && kPair == kPairs - 1;
        if constexpr (kAdvances && v.value == kUsed - 1) {
          advance_in_order(next.weights, kRows);
        }
        add_product<1, kStarts>(sums[2 * kPair + 1][v.value].value, value, weight);
        if constexpr (v.value == (kUsed - 1) / 2 && kLoadsNext && kPair < kUsed) {
          load_in_order<kPair * kLanes>(operands.values[1 - kCurrent][kPair], next.panel);
        }
        if constexpr (kAdvances && v.value == 0) advance_in_order(next.panel, next.panel_stride);
      });
      if constexpr (sizeof...(Singles) > 0) {
        (add_single<kStarts>(singles[kPair], weight, operands.single[kCurrent]), ...);
        if constexpr (kLoadsNext && kPair == kUsed) {
          load_in_order<kUsed * kLanes>(operands.single[1 - kCurrent], next.panel);
        }
      }
    });
  }
};

// A unit is four terms of four pixels in 16 bytes: terms 0 and 1 of each pixel, then 2 and 3.
struct Int8Product {
  using Input = std::int8_t;
  using Panel = std::int8_t;
  using Weight = std::int8_t;
  using Multiplier = std::int8_t;
  using Sum = std::int32_t;
  using Accumulator = I32;
  using Bounded = BoundedOutputs;
  static constexpr WeightFormat kWeights = WeightFormat::kInt8;
  static constexpr int kRows = 4;
  static constexpr int kVectors = 4;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kUnit = 4;

  static I32 load_sums(const std::int32_t* sums) { return I32::load(sums); }
  static void store_sums(std::int32_t* to, I32 sums) { store(to, sums); }
  template <int kUsed>
  static inline __attribute__((always_inline)) void step(I32 (&sums)[kRows][kUsed],
                                                         const std::int8_t* panel,
                                                         const std::int8_t* weights) {
    int8x8_t first[kUsed];
    int8x8_t second[kUsed];
    unroll<kUsed>([&](auto v) MPE_UNROLLED {
      first[v.value] = vld1_s8(panel + v.value * 16);
      second[v.value] = vld1_s8(panel + v.value * 16 + 8);
    });
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      const int8x8_t first_weights = load_pair(weights + r.value * kUnit);
      const int8x8_t second_weights = load_pair(weights + r.value * kUnit + 2);
      int16x8_t products[kUsed];
      unroll<kUsed>([&](auto v) MPE_UNROLLED {
        products[v.value] = vmull_s8(first[v.value], first_weights);
      });
      unroll<kUsed>([&](auto v) MPE_UNROLLED {
        products[v.value] = vmlal_s8(products[v.value], second[v.value], second_weights);
      });
      unroll<kUsed>([&](auto v) MPE_UNROLLED {
        int32x4_t& sum = sums[r.value][v.value].value;
        sum = vpadalq_s16(sum, products[v.value]);
      });
    });
  }
  template <int kUsed>
  static void accumulate(const std::int8_t* panel, const std::int8_t* weights, int units,
                         std::int32_t* tile, bool fresh) {
    if constexpr (kUsed == kVectors) {
      accumulate_int8_tile(panel, weights, units, tile, fresh);
    } else {
      accumulate_in_registers<Int8Product, kUsed>(panel, weights, units, tile, fresh);
    }
  }

  static void interleave(const std::int8_t* rows, std::int8_t* panel) {
    const std::int8_t* const four[] = {rows, rows + 16, rows + 32, rows + 48};
    interleave_arranged(four, panel);
  }

  static constexpr bool kArranged = true;
  static void interleave_words(const std::int8_t* const (&rows)[kUnit], std::int8_t* to) {
    interleave_four(rows, to);
  }
  static inline __attribute__((always_inline)) void interleave_arranged(
      const std::int8_t* const (&rows)[kUnit], std::int8_t* panel) {
    const int8x16_t a = vld1q_s8(rows[0]);
    const int8x16_t b = vld1q_s8(rows[1]);
    const int8x16_t c = vld1q_s8(rows[2]);
    const int8x16_t d = vld1q_s8(rows[3]);
    interleave_eight(vzip1q_s8(a, b), vzip1q_s8(c, d), panel);
    interleave_eight(vzip2q_s8(a, b), vzip2q_s8(c, d), panel + 32);
  }
  // Sixteen pixels' four terms, from pixel by pixel to the first and second pairs of four pixels.
  static void arrange(std::int8_t* panel) {
    int16x8_t words[4];
    for (int i = 0; i < 4; ++i) words[i] = vreinterpretq_s16_s8(vld1q_s8(panel + 16 * i));
    int64x2_t pairs[4];
    for (int i = 0; i < 4; i += 2) {
      pairs[i] = vreinterpretq_s64_s16(vuzp1q_s16(words[i], words[i + 1]));
      pairs[i + 1] = vreinterpretq_s64_s16(vuzp2q_s16(words[i], words[i + 1]));
    }
    for (int i = 0; i < 4; i += 2) {
      const int64x2_t low = vzip1q_s64(pairs[i], pairs[i + 1]);
      const int64x2_t high = vzip2q_s64(pairs[i], pairs[i + 1]);
      vst1q_s8(panel + 16 * i, vreinterpretq_s8_s64(low));
      vst1q_s8(panel + 16 * i + 16, vreinterpretq_s8_s64(high));
    }
  }

 private:
  // Two terms' weights for every pixel: a load that repeats costs no arithmetic.
  static int8x8_t load_pair(const std::int8_t* pair) {
    std::int16_t bits;
    __builtin_memcpy(&bits, pair, sizeof(bits));
    return vreinterpret_s8_s16(vdup_n_s16(bits));
  }

  // Eight pixels' first and second pairs of terms.
  static void interleave_eight(int8x16_t first, int8x16_t second, std::int8_t* panel) {
    const int64x2_t a = vreinterpretq_s64_s8(first);
    const int64x2_t b = vreinterpretq_s64_s8(second);
    vst1q_s8(panel, vreinterpretq_s8_s64(vzip1q_s64(a, b)));
    vst1q_s8(panel + 16, vreinterpretq_s8_s64(vzip2q_s64(a, b)));
  }
};

// Four rows' four terms in 16 bytes. The sums of a row are kept in two halves until the end.
struct Int8VectorProduct {
  using Input = std::int8_t;
  using Value = std::int8_t;
  using Weight = std::int8_t;
  using Sum = std::int32_t;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kVectors = 4;
  static constexpr int kUnit = 4;

  struct Accumulator {
    int32x4_t first_rows;
    int32x4_t last_rows;
    Accumulator() = default;
    explicit Accumulator(int scalar)
        : first_rows(vdupq_n_s32(scalar)), last_rows(vdupq_n_s32(scalar)) {}
  };

  static int8x16_t load_weights(const std::int8_t* weights) { return vld1q_s8(weights); }
  static int8x16_t broadcast(const std::int8_t* values) {
    std::int32_t bits;
    __builtin_memcpy(&bits, values, sizeof(bits));
    return vreinterpretq_s8_s32(vdupq_n_s32(bits));
  }
  static Accumulator multiply_add(Accumulator sum, int8x16_t weights, int8x16_t values) {
    sum.first_rows =
        vpadalq_s16(sum.first_rows, vmull_s8(vget_low_s8(weights), vget_low_s8(values)));
    sum.last_rows = vpadalq_s16(sum.last_rows, vmull_high_s8(weights, values));
    return sum;
  }
  static void store_sums(std::int32_t* to, Accumulator sum) {
    vst1q_s32(to, vpaddq_s32(sum.first_rows, sum.last_rows));
  }
};

constexpr GemmKernel kFp32Gemm =
    with_vector_product<Fp32VectorProduct>(gemm_kernel<Fp32Product>(256));
constexpr GemmKernel kFp16Gemm =
    with_vector_product<HalfVectorProduct>(gemm_kernel<StoredAsHalf<Fp32Product>>(256));
constexpr GemmKernel kInt8Gemm =
    with_vector_product<Int8VectorProduct>(gemm_kernel<Int8Product>(1024));
constexpr InterleavedKernel kInt8Interleaved = interleaved_kernel<Int8Product>(128, 8 * 1024);
constexpr WinogradKernel kFp32Winograd = winograd_kernel<Fp32Tiles<Fp32Product>>();
constexpr WinogradKernel kFp16Winograd = winograd_kernel<HalfTiles<Fp32Product>>();
constexpr DepthwiseKernel kFp32DepthwiseKernel = depthwise_rows_kernel<OrderedDepthwise>();
constexpr DepthwiseKernel kFp16DepthwiseKernel =
    depthwise_rows_kernel<DepthwiseOfHalves<OrderedDepthwise>>();
constexpr DepthwiseKernel kInt8DepthwiseKernel = int8_depthwise_kernel<Int8DepthwiseOfRows>();

constexpr Int8WinogradKernel kInt8Winograd = int8_winograd_kernel<NeonWinograd>();

constexpr ElementwiseKernels kElementwise = elementwise_kernels_of_set();

bool supported(const CpuFeatures& features) { return features.neon; }

}  // namespace

#ifndef MPE_NEON_KERNELS
#define MPE_NEON_KERNELS kNeonKernels
#endif
constexpr KernelSet MPE_NEON_KERNELS = {
    "neon",
    supported,
    {&kFp32Gemm, &kFp16Gemm, &kInt8Gemm},
    {&kFp32DepthwiseKernel, &kFp16DepthwiseKernel, &kInt8DepthwiseKernel},
    {&kFp32Winograd, &kFp16Winograd, nullptr},
    &kElementwise,
    &kInt8Winograd,
    &kInt8Interleaved};

}  // namespace mpe
