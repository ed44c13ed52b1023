// Kernels for x86-64 with AVX-512 and its integer dot products (VNNI). fp16 is storage: sums are
// formed in float.
#include "kernels/avx512_vnni/vectors.h"
#include "kernels/generic/broadcast_product.h"
#include "kernels/generic/elementwise.h"
#include "kernels/generic/interleaved.h"

namespace mpe {
namespace {

inline __m512i load_vector(const void* from) { return _mm512_loadu_si512(from); }

// Four int8 or two int16 values.
inline __m512i broadcast_word(const void* from) {
  std::int32_t bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return _mm512_set1_epi32(bits);
}

inline __m128i load_sixteen(const std::int8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// vpdpbusd multiplies unsigned by signed bytes: inputs are packed with 128 added, which the output
// stage takes back.
constexpr int kInputOffset = 128;

struct Int8Product {
  using Input = std::int8_t;
  using Panel = std::uint8_t;
  using Weight = std::int8_t;
  using Multiplier = std::int8_t;
  using Sum = std::int32_t;
  using Accumulator = I32;
  static constexpr WeightFormat kWeights = WeightFormat::kInt8;
  static constexpr int kRows = 8;
  static constexpr int kVectors = 3;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kUnit = 4;

  static I32 load_sums(const std::int32_t* sums) { return I32::load(sums); }
  static void store_sums(std::int32_t* to, I32 sums) { store(to, sums); }
  static __m512i load_panel(const std::uint8_t* panel) { return load_vector(panel); }
  static __m512i broadcast(const std::int8_t* weights) { return broadcast_word(weights); }
  static I32 multiply_add(I32 sum, __m512i values, __m512i weights) {
    return I32(_mm512_dpbusd_epi32(sum.value, values, weights));
  }
  template <int kUsed>
  static void step(I32 (&sums)[kRows][kUsed], const std::uint8_t* panel,
                   const std::int8_t* weights) {
    broadcast_step<Int8Product, kUsed>(sums, panel, weights);
  }
  template <int kUsed>
  static void accumulate(const std::uint8_t* panel, const std::int8_t* weights, int units,
                         std::int32_t* tile, bool fresh) {
    accumulate_in_registers<Int8Product, kUsed>(panel, weights, units, tile, fresh);
  }

  static void interleave(const std::int8_t* rows, std::uint8_t* panel) {
    constexpr int kColumns = kLanes * kVectors;
    for (int column = 0; column < kColumns; column += kLanes) {
      const std::int8_t* from = rows + column;
      interleave_words({from, from + kColumns, from + 2 * kColumns, from + 3 * kColumns},
                       panel + column * kUnit);
    }
  }

  static constexpr bool kArranged = false;
  static void interleave_words(const std::int8_t* const (&rows)[kUnit], std::uint8_t* words) {
    const __m128i offset = _mm_set1_epi8(static_cast<char>(kInputOffset));
    const __m128i a = _mm_xor_si128(load_sixteen(rows[0]), offset);
    const __m128i b = _mm_xor_si128(load_sixteen(rows[1]), offset);
    const __m128i c = _mm_xor_si128(load_sixteen(rows[2]), offset);
    const __m128i d = _mm_xor_si128(load_sixteen(rows[3]), offset);
    const __m128i ab_low = _mm_unpacklo_epi8(a, b);
    const __m128i ab_high = _mm_unpackhi_epi8(a, b);
    const __m128i cd_low = _mm_unpacklo_epi8(c, d);
    const __m128i cd_high = _mm_unpackhi_epi8(c, d);
    auto* to = reinterpret_cast<__m128i*>(words);
    _mm_storeu_si128(to, _mm_unpacklo_epi16(ab_low, cd_low));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(ab_low, cd_low));
    _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(ab_high, cd_high));
    _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(ab_high, cd_high));
  }
};

struct Int8VectorProduct {
  using Input = std::int8_t;
  using Value = std::uint8_t;
  using Weight = std::int8_t;
  using Sum = std::int32_t;
  using Accumulator = I32;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kVectors = 4;
  static constexpr int kUnit = 4;

  static void prepare(const std::int8_t* from, std::uint8_t* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(from[i] + kInputOffset);
  }
  static __m512i load_weights(const std::int8_t* weights) { return load_vector(weights); }
  static __m512i broadcast(const std::uint8_t* values) { return broadcast_word(values); }
  static I32 multiply_add(I32 sum, __m512i weights, __m512i values) {
    return I32(_mm512_dpbusd_epi32(sum.value, values, weights));
  }
  static void store_sums(std::int32_t* to, I32 sums) { store(to, sums); }
};

struct Int8Depthwise {
  using Input = std::int8_t;
  using Value = std::int16_t;
  using Sum = std::int32_t;
  static constexpr WeightFormat kWeights = WeightFormat::kInt16;
  static constexpr int kLanes = 32;

  static void convert(const std::int8_t* from, std::int16_t* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }

  // Two taps at a time, interleaved. Unpacking works within 128 bits, so `low` ends up with the
  // sums of outputs 0-3, 8-11, 16-19 and 24-27.
  template <int kSteps>
  static void accumulate(const std::int16_t* strip, const std::int16_t* weights,
                         const std::int32_t* offsets, int taps, std::int32_t* sums) {
    __m512i low[kSteps];
    __m512i high[kSteps];
    unroll<kSteps>([&](auto s)
                       MPE_UNROLLED { low[s.value] = high[s.value] = _mm512_setzero_si512(); });
    for (int tap = 0; tap < taps; tap += 2) {
      const __m512i weight = broadcast_word(weights + tap);
      const std::int16_t* first = strip + offsets[tap];
      const std::int16_t* second = strip + offsets[tap + 1];
      unroll<kSteps>([&](auto s) MPE_UNROLLED {
        const __m512i a = load_vector(first + s.value * kLanes);
        const __m512i b = load_vector(second + s.value * kLanes);
        low[s.value] = _mm512_dpwssd_epi32(low[s.value], _mm512_unpacklo_epi16(a, b), weight);
        high[s.value] = _mm512_dpwssd_epi32(high[s.value], _mm512_unpackhi_epi16(a, b), weight);
      });
    }
    // In units of 64 bits: 0 to 7 are of `low`, 8 to 15 of `high`.
    const __m512i first_half = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second_half = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    unroll<kSteps>([&](auto s) MPE_UNROLLED {
      std::int32_t* to = sums + s.value * kLanes;
      store(to, I32(_mm512_permutex2var_epi64(low[s.value], first_half, high[s.value])));
      store(to + I32::kLanes,
            I32(_mm512_permutex2var_epi64(low[s.value], second_half, high[s.value])));
    });
  }
};

using Fp32Product = BroadcastFp32Product<8, 3>;

constexpr GemmKernel kFp32Gemm =
    with_vector_product<Fp32VectorProduct>(gemm_kernel<Fp32Product>(384));
constexpr GemmKernel kFp16Gemm =
    with_vector_product<HalfVectorProduct>(gemm_kernel<StoredAsHalf<Fp32Product>>(384));
constexpr GemmKernel kInt8Gemm =
    with_vector_product<Int8VectorProduct>(gemm_kernel<Int8Product>(1024, kInputOffset));
constexpr InterleavedKernel kInt8Interleaved =
    interleaved_kernel<Int8Product>(288, 24 * 1024, kInputOffset);
constexpr WinogradKernel kFp32Winograd = winograd_kernel<Fp32Tiles<Fp32Product>>();
constexpr WinogradKernel kFp16Winograd = winograd_kernel<HalfTiles<Fp32Product>>();
constexpr DepthwiseKernel kFp32DepthwiseKernel = depthwise_rows_kernel<Fp32Depthwise>();
constexpr DepthwiseKernel kFp16DepthwiseKernel =
    depthwise_kernel<DepthwiseOfHalves<Fp32Depthwise>>();
constexpr DepthwiseKernel kInt8DepthwiseKernel = depthwise_kernel<Int8Depthwise>();

constexpr ElementwiseKernels kElementwise = elementwise_kernels_of_set();

bool supported(const CpuFeatures& features) { return features.avx512_vnni; }

}  // namespace

constexpr KernelSet kAvx512VnniKernels = {
    "avx512_vnni",
    supported,
    {&kFp32Gemm, &kFp16Gemm, &kInt8Gemm},
    {&kFp32DepthwiseKernel, &kFp16DepthwiseKernel, &kInt8DepthwiseKernel},
    {&kFp32Winograd, &kFp16Winograd, nullptr},
    &kElementwise,
    nullptr,
    &kInt8Interleaved};

}  // namespace mpe
