// Kernels for arm64 cores with half arithmetic and dot products of bytes (FEAT_DotProd): int8. The
// set below, neon_fp16, serves fp16.

// The generic code is written over these vectors, so they come first.
// clang-format off
#include "kernels/neon/vectors.h"
// clang-format on
#include "kernels/generic/gemm.h"
#include "kernels/generic/vector_product.h"
#include "kernels/neon/bounded_outputs.h"
#include "kernels/neon/int8_depthwise.h"
// Over the outputs of a header before.
#include "kernels/generic/int8_depthwise.h"
#include "kernels/generic/interleaved.h"

namespace mpe {
namespace {

struct Int8Product {
  using Input = std::int8_t;
  using Panel = std::int8_t;
  using Weight = std::int8_t;
  using Multiplier = std::int8_t;
  using Sum = std::int32_t;
  using Accumulator = I32;
  using Bounded = BoundedOutputs;
  static constexpr WeightFormat kWeights = WeightFormat::kInt8;
  static constexpr int kRows = 8;
  static constexpr int kVectors = 3;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kUnit = 4;

  static I32 load_sums(const std::int32_t* sums) { return I32::load(sums); }
  static void store_sums(std::int32_t* to, I32 sums) { store(to, sums); }
  // The first rows of a tile, or all.
  template <int kUsed, int kRowsUsed>
  static inline __attribute__((always_inline)) void step(I32 (&sums)[kRowsUsed][kUsed],
                                                         const std::int8_t* panel,
                                                         const std::int8_t* weights) {
    int8x16_t rows[kRowsUsed / 4];
    unroll<kRowsUsed / 4>([&](auto i)
                              MPE_UNROLLED { rows[i.value] = vld1q_s8(weights + i.value * 16); });
    int8x16_t values[kUsed];
    unroll<kUsed>([&](auto v) MPE_UNROLLED { values[v.value] = vld1q_s8(panel + v.value * 16); });
    unroll_grid<kRowsUsed, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      int32x4_t& sum = sums[r.value][v.value].value;
      sum = vdotq_laneq_s32(sum, values[v.value], rows[r.value / 4], r.value % 4);
    });
  }
  // A copy by a load: loads have units of their own, while moves take the place of arithmetic.
  static inline __attribute__((always_inline)) I32 loaded(const I32& x) {
    I32 copy;
    asm volatile("ldr %q0, %1" : "=w"(copy.value) : "m"(x.value));
    return copy;
  }
  template <int kUsed>
  static void accumulate(const std::int8_t* panel, const std::int8_t* weights, int units,
                         std::int32_t* tile, bool fresh) {
    accumulate_in_registers<Int8Product, kUsed>(panel, weights, units, tile, fresh);
  }

  // Rows along the vectors: a vector of pixels would have three lanes of four idle.
  static void accumulate_pixel(const std::int8_t* panel, const std::int8_t* weights, int units,
                               std::int32_t* tile, bool fresh) {
    constexpr int kColumns = kLanes * kVectors;
    I32 sums[kRows / kLanes];
    for (I32& sum : sums) sum = I32(0);
#pragma GCC unroll 4
    for (int unit = 0; unit < units; ++unit) {
      std::int32_t bits;
      __builtin_memcpy(&bits, panel, sizeof(bits));
      const int8x16_t value = vreinterpretq_s8_s32(vdupq_n_s32(bits));
      unroll<kRows / kLanes>([&](auto i) MPE_UNROLLED {
        sums[i.value].value =
            vdotq_s32(sums[i.value].value, vld1q_s8(weights + 16 * i.value), value);
      });
      panel += kColumns * kUnit;
      weights += kRows * kUnit;
    }
    std::int32_t rows[kRows];
    unroll<kRows / kLanes>([&](auto i)
                               MPE_UNROLLED { store(rows + kLanes * i.value, sums[i.value]); });
    for (int r = 0; r < kRows; ++r, tile += kColumns) {
      const std::int32_t before = fresh ? 0 : tile[0];
      store(tile, I32(vsetq_lane_s32(before + rows[r], vdupq_n_s32(0), 0)));
    }
  }

  // Four terms of twelve pixels: the last four bytes of every load belong to the next row.
  static void interleave(const std::int8_t* rows, std::int8_t* panel) {
    constexpr int kColumns = kLanes * kVectors;
    const int8x16_t a = vld1q_s8(rows);
    const int8x16_t b = vld1q_s8(rows + kColumns);
    const int8x16_t c = vld1q_s8(rows + 2 * kColumns);
    const int8x16_t d = vld1q_s8(rows + 3 * kColumns);
    const int16x8_t ab_low = vreinterpretq_s16_s8(vzip1q_s8(a, b));
    const int16x8_t cd_low = vreinterpretq_s16_s8(vzip1q_s8(c, d));
    const int16x8_t ab_high = vreinterpretq_s16_s8(vzip2q_s8(a, b));
    const int16x8_t cd_high = vreinterpretq_s16_s8(vzip2q_s8(c, d));
    vst1q_s8(panel, vreinterpretq_s8_s16(vzip1q_s16(ab_low, cd_low)));
    vst1q_s8(panel + 16, vreinterpretq_s8_s16(vzip2q_s16(ab_low, cd_low)));
    vst1q_s8(panel + 32, vreinterpretq_s8_s16(vzip1q_s16(ab_high, cd_high)));
  }

  static constexpr bool kArranged = false;
  static void interleave_words(const std::int8_t* const (&rows)[kUnit], std::int8_t* to) {
    interleave_four(rows, to);
  }
};

struct Int8VectorProduct {
  using Input = std::int8_t;
  using Value = std::int8_t;
  using Weight = std::int8_t;
  using Sum = std::int32_t;
  using Accumulator = I32;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kVectors = 4;
  static constexpr int kUnit = 4;

  static int8x16_t load_weights(const std::int8_t* weights) { return vld1q_s8(weights); }
  static int8x16_t broadcast(const std::int8_t* values) {
    std::int32_t bits;
    __builtin_memcpy(&bits, values, sizeof(bits));
    return vreinterpretq_s8_s32(vdupq_n_s32(bits));
  }
  static I32 multiply_add(I32 sum, int8x16_t weights, int8x16_t values) {
    return I32(vdotq_s32(sum.value, weights, values));
  }
  static void store_sums(std::int32_t* to, I32 sum) { store(to, sum); }
};

// Depthwise convolution, four taps of a row at a time.
struct Int8DepthwiseOfDots : Int8DepthwiseOfPairs {
  using Bounded = BoundedOutputs;

  template <int kSize>
  static constexpr int kWords = (kSize + 3) / 4;  // of a row
  template <int kSize>
  static constexpr int kQuads = (kSize * kWords<kSize> + 3) / 4;

  // Of the weights in the words of a filter; beyond the table where there is none.
  template <int kSize>
  struct WeightPlaces {
    std::uint8_t of[kQuads<kSize>][16];
    constexpr WeightPlaces() {
      for (int i = 0; i < kQuads<kSize> * 16; ++i) {
        const int y = i / 4 / kWords<kSize>;
        const int x = i / 4 % kWords<kSize> * 4 + i % 4;
        of[i / 16][i % 16] =
            static_cast<std::uint8_t>(y < kSize && x < kSize ? y * kSize + x : 255);
      }
    }
  };
  template <int kSize>
  static constexpr WeightPlaces<kSize> kWeightPlaces{};

  template <int kSize>
  struct Filter {
    static constexpr bool rows_fit = true;  // a product of four taps has 32 bits
    int8x16_t quads[kQuads<kSize>];

    explicit Filter(const std::int16_t* weights) {
      constexpr int kLoads = (kSize * kSize + 15) / 16;
      uint8x16x2_t bytes = {};
      for (int i = 0; i < kLoads; ++i) {
        bytes.val[i] = vreinterpretq_u8_s8(vmovn_high_s16(vmovn_s16(vld1q_s16(weights + 16 * i)),
                                                          vld1q_s16(weights + 16 * i + 8)));
      }
      for (int i = 0; i < kQuads<kSize>; ++i) {
        quads[i] = vreinterpretq_s8_u8(vqtbl2q_u8(bytes, vld1q_u8(kWeightPlaces<kSize>.of[i])));
      }
    }
  };

  template <int kSize, int kStride, int kGroup, int kRows, int kVectors>
  static inline __attribute__((always_inline)) void add_products(const std::int8_t* from,
                                                                 std::int64_t row_step,
                                                                 const Filter<kSize>& filter,
                                                                 I32 (&sums)[kRows][kVectors]) {
    constexpr int kRowWords = kWords<kSize>;
    static const std::uint8_t kPlaces[2][16] = {{0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6},
                                                {0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9}};
    const uint8x16_t places = vld1q_u8(kPlaces[kStride - 1]);
    unroll_grid<(kRows - 1) * kStride + kSize, kRowWords * kVectors>(
        [&](auto row, auto i) MPE_UNROLLED {
          constexpr int kVector = i.value / kRowWords;
          constexpr int kWord = i.value % kRowWords;
          const int8x16_t values = vqtbl1q_s8(
              vld1q_s8(from + row.value * row_step + kVector * 4 * kStride + kWord * 4), places);
          unroll<kRows>([&](auto r) MPE_UNROLLED {
            constexpr int kTapRow = row.value - r.value * kStride;
            if constexpr (kTapRow >= 0 && kTapRow < kSize) {
              constexpr int kAt = kTapRow * kRowWords + kWord;
              int32x4_t& sum = sums[r.value][kVector].value;
              sum = vdotq_laneq_s32(sum, values, filter.quads[kAt / 4], kAt % 4);
            }
          });
        });
  }
};

constexpr DepthwiseKernel kInt8DepthwiseKernel = int8_depthwise_kernel<Int8DepthwiseOfDots>();

constexpr GemmKernel kInt8Gemm =
    with_vector_product<Int8VectorProduct>(gemm_kernel<Int8Product>(1024));

constexpr InterleavedKernel kInt8Interleaved = interleaved_kernel<Int8Product>(256, 32 * 1024);

bool supported(const CpuFeatures& features) {
  return features.neon && features.fp16 && features.dotprod;
}

}  // namespace

constexpr KernelSet kNeonDotprodKernels = {"neon_dotprod",
                                           supported,
                                           {nullptr, nullptr, &kInt8Gemm},
                                           {nullptr, nullptr, &kInt8DepthwiseKernel},
                                           {},
                                           nullptr,
                                           nullptr,
                                           &kInt8Interleaved};

}  // namespace mpe
