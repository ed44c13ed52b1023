// Kernels for x86-64 with AVX2, FMA and F16C. fp16 is storage: sums are formed in float.
#include "kernels/avx2/int8_winograd.h"
#include "kernels/avx2/vectors.h"
#include "kernels/generic/broadcast_product.h"
#include "kernels/generic/elementwise.h"
#include "kernels/generic/int8_winograd.h"
#include "kernels/generic/interleaved.h"

namespace mpe {
namespace {

// Two 16-bit values.
inline __m256i broadcast_pair(const std::int16_t* pair) {
  std::int32_t bits;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  return _mm256_set1_epi32(bits);
}

inline I32 add_products(I32 sum, __m256i a, __m256i b) {
  return I32(_mm256_add_epi32(sum.value, _mm256_madd_epi16(a, b)));
}

inline __m128i load_eight(const std::int8_t* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}

// Pairs of int8 values are widened to 16 bits for vpmaddwd, which is exact; vpmaddubsw saturates.
struct Int8Product {
  using Input = std::int8_t;
  using Panel = std::int16_t;
  using Weight = std::int8_t;
  using Multiplier = std::int16_t;
  using Sum = std::int32_t;
  using Accumulator = I32;
  static constexpr WeightFormat kWeights = WeightFormat::kInt8;
  static constexpr int kRows = 4;
  static constexpr int kVectors = 3;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kUnit = 2;

  static I32 load_sums(const std::int32_t* sums) { return I32::load(sums); }
  static void store_sums(std::int32_t* to, I32 sums) { store(to, sums); }
  static __m256i load_panel(const std::int16_t* panel) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel));
  }
  static __m256i broadcast(const std::int16_t* weights) { return broadcast_pair(weights); }
  static I32 multiply_add(I32 sum, __m256i values, __m256i weights) {
    return add_products(sum, values, weights);
  }
  template <int kUsed>
  static void step(I32 (&sums)[kRows][kUsed], const std::int16_t* panel,
                   const std::int16_t* weights) {
    broadcast_step<Int8Product, kUsed>(sums, panel, weights);
  }
  template <int kUsed>
  static void accumulate(const std::int16_t* panel, const std::int16_t* weights, int units,
                         std::int32_t* tile, bool fresh) {
    accumulate_in_registers<Int8Product, kUsed>(panel, weights, units, tile, fresh);
  }

  static void interleave(const std::int8_t* rows, std::int16_t* panel) {
    constexpr int kColumns = kLanes * kVectors;
    for (int column = 0; column < kColumns; column += kLanes) {
      const __m128i first = _mm_cvtepi8_epi16(load_eight(rows + column));
      const __m128i second = _mm_cvtepi8_epi16(load_eight(rows + kColumns + column));
      auto* to = reinterpret_cast<__m128i*>(panel + column * kUnit);
      _mm_storeu_si128(to, _mm_unpacklo_epi16(first, second));
      _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(first, second));
    }
  }
  static constexpr bool kArranged = false;
  static void interleave_words(const std::int8_t* const (&rows)[kUnit], std::int16_t* words) {
    for (int i = 0; i < 16; i += 8) {
      const __m128i first = _mm_cvtepi8_epi16(load_eight(rows[0] + i));
      const __m128i second = _mm_cvtepi8_epi16(load_eight(rows[1] + i));
      auto* to = reinterpret_cast<__m128i*>(words + i * kUnit);
      _mm_storeu_si128(to, _mm_unpacklo_epi16(first, second));
      _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(first, second));
    }
  }
  static void widen(const std::int8_t* from, std::int16_t* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
};

struct Int8VectorProduct {
  using Input = std::int8_t;
  using Value = std::int16_t;
  using Weight = std::int8_t;
  using Sum = std::int32_t;
  using Accumulator = I32;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kVectors = 4;
  static constexpr int kUnit = 2;

  static void prepare(const std::int8_t* from, std::int16_t* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
  static __m256i load_weights(const std::int8_t* weights) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(weights)));
  }
  static __m256i broadcast(const std::int16_t* values) { return broadcast_pair(values); }
  static I32 multiply_add(I32 sum, __m256i weights, __m256i values) {
    return add_products(sum, weights, values);
  }
  static void store_sums(std::int32_t* to, I32 sums) { store(to, sums); }
};

struct Int8Depthwise {
  using Input = std::int8_t;
  using Value = std::int16_t;
  using Sum = std::int32_t;
  static constexpr WeightFormat kWeights = WeightFormat::kInt16;
  static constexpr int kLanes = 16;

  static void convert(const std::int8_t* from, std::int16_t* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }

  // Two taps at a time, interleaved. Unpacking works within 128 bits, so `low` ends up with the
  // sums of outputs 0-3 and 8-11.
  template <int kSteps>
  static void accumulate(const std::int16_t* strip, const std::int16_t* weights,
                         const std::int32_t* offsets, int taps, std::int32_t* sums) {
    I32 low[kSteps];
    I32 high[kSteps];
    unroll<kSteps>([&](auto s) MPE_UNROLLED { low[s.value] = high[s.value] = I32(0); });
    for (int tap = 0; tap < taps; tap += 2) {
      const __m256i weight = broadcast_pair(weights + tap);
      const std::int16_t* first = strip + offsets[tap];
      const std::int16_t* second = strip + offsets[tap + 1];
      unroll<kSteps>([&](auto s) MPE_UNROLLED {
        const __m256i a = Int8Product::load_panel(first + s.value * kLanes);
        const __m256i b = Int8Product::load_panel(second + s.value * kLanes);
        low[s.value] = add_products(low[s.value], _mm256_unpacklo_epi16(a, b), weight);
        high[s.value] = add_products(high[s.value], _mm256_unpackhi_epi16(a, b), weight);
      });
    }
    unroll<kSteps>([&](auto s) MPE_UNROLLED {
      const __m256i a = low[s.value].value;
      const __m256i b = high[s.value].value;
      std::int32_t* to = sums + s.value * kLanes;
      store(to, I32(_mm256_permute2x128_si256(a, b, 0x20)));
      store(to + I32::kLanes, I32(_mm256_permute2x128_si256(a, b, 0x31)));
    });
  }
};

// Twelve sums, three vectors of pixels and a weight fill the sixteen registers.
using Fp32Product = BroadcastFp32Product<4, 3>;

constexpr GemmKernel kFp32Gemm =
    with_vector_product<Fp32VectorProduct>(gemm_kernel<Fp32Product>(384));
constexpr GemmKernel kFp16Gemm =
    with_vector_product<HalfVectorProduct>(gemm_kernel<StoredAsHalf<Fp32Product>>(384));
constexpr GemmKernel kInt8Gemm =
    with_vector_product<Int8VectorProduct>(gemm_kernel<Int8Product>(768));
constexpr InterleavedKernel kInt8Interleaved = interleaved_kernel<Int8Product>(192, 12 * 1024);
constexpr WinogradKernel kFp32Winograd = winograd_kernel<Fp32Tiles<Fp32Product>>();
constexpr WinogradKernel kFp16Winograd = winograd_kernel<HalfTiles<Fp32Product>>();
constexpr Int8WinogradKernel kInt8Winograd = int8_winograd_kernel<Avx2Winograd>();
constexpr DepthwiseKernel kFp32DepthwiseKernel = depthwise_rows_kernel<Fp32Depthwise>();
constexpr DepthwiseKernel kFp16DepthwiseKernel =
    depthwise_kernel<DepthwiseOfHalves<Fp32Depthwise>>();
constexpr DepthwiseKernel kInt8DepthwiseKernel = depthwise_kernel<Int8Depthwise>();

constexpr ElementwiseKernels kElementwise = elementwise_kernels_of_set();

bool supported(const CpuFeatures& features) { return features.avx2; }

}  // namespace

constexpr KernelSet kAvx2Kernels = {
    "avx2",
    supported,
    {&kFp32Gemm, &kFp16Gemm, &kInt8Gemm},
    {&kFp32DepthwiseKernel, &kFp16DepthwiseKernel, &kInt8DepthwiseKernel},
    {&kFp32Winograd, &kFp16Winograd, nullptr},
    &kElementwise,
    &kInt8Winograd,
    &kInt8Interleaved};

}  // namespace mpe
