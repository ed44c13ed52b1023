// AVX2 for generic/int8_winograd.h: vpmaddwd adds the products of two channels.
#pragma once

#include "kernels/avx2/vectors.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

struct I16 {
  __m128i value;

  I16() = default;
  explicit I16(__m128i v) : value(v) {}
  explicit I16(int scalar) : value(_mm_set1_epi16(static_cast<std::int16_t>(scalar))) {}
  static I16 load(const std::int16_t* from) {
    return I16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
};

inline I16 operator+(I16 a, I16 b) { return I16(_mm_add_epi16(a.value, b.value)); }
inline I16 operator-(I16 a, I16 b) { return I16(_mm_sub_epi16(a.value, b.value)); }
template <int kBits>
inline I16 shift_left(I16 a) {
  return I16(_mm_slli_epi16(a.value, kBits));
}
template <int kFactor>
inline I16 times(I16 a) {
  return I16(_mm_mullo_epi16(a.value, I16(kFactor).value));
}
template <int kFactor>
inline I16 add_multiple(I16 sum, I16 a) {
  return sum + times<kFactor>(a);
}
inline void store(std::int16_t* to, I16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x.value);
}
inline void store_pairs(std::int16_t* to, I16 a, I16 b) {
  store(to, I16(_mm_unpacklo_epi16(a.value, b.value)));
  store(to + 8, I16(_mm_unpackhi_epi16(a.value, b.value)));
}

inline I32 operator-(I32 a, I32 b) { return I32(_mm256_sub_epi32(a.value, b.value)); }
template <int kBits>
inline I32 shift_left(I32 a) {
  return I32(_mm256_slli_epi32(a.value, kBits));
}
inline I32 divide_by_576(I32 a) {
  return I32(_mm256_srai_epi32(_mm256_mullo_epi32(a.value, I32(kInverseOfNine).value), 6));
}
inline void store_four_apart(std::int32_t* to, I32 a, I32 b, I32 c, I32 d) {
  const auto bits = [](I32 x) MPE_UNROLLED { return F32(_mm256_castsi256_ps(x.value)); };
  const F32 columns[4] = {bits(a), bits(b), bits(c), bits(d)};
  interleave(reinterpret_cast<float*>(to), columns);
}
inline void interleave(I32 a, I32 b, I32 (&to)[2]) {
  const __m256i low = _mm256_unpacklo_epi32(a.value, b.value);
  const __m256i high = _mm256_unpackhi_epi32(a.value, b.value);
  to[0] = I32(_mm256_permute2x128_si256(low, high, 0x20));
  to[1] = I32(_mm256_permute2x128_si256(low, high, 0x31));
}

struct Avx2Winograd {
  static constexpr int kTiles = I32::kLanes;
  static constexpr int kRows = 8;
  static constexpr int kFewTiles = 0;
  static constexpr bool kPairs = true;
  static constexpr bool kOfImages = false;
  using I16 = mpe::I16;
  using Bounded = void;

  static void load_four_apart(const std::int8_t* from, I16 (&to)[4]) {
    // The bytes of a lane's four words, by word; then the two lanes' together.
    const __m256i by_word = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
                                             0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i words = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(bytes, by_word),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m256i first = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(words));
    const __m256i second = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(words, 1));
    to[0] = I16(_mm256_castsi256_si128(first));
    to[1] = I16(_mm256_extracti128_si256(first, 1));
    to[2] = I16(_mm256_castsi256_si128(second));
    to[3] = I16(_mm256_extracti128_si256(second, 1));
  }
  static I16 load_bytes(const std::int8_t* from) {
    return I16(_mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
  static void multiply(const std::int16_t* panel, const std::int16_t* weights, int depth,
                       bool first, std::int32_t* tile) {
    I32 sums[kRows];
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      sums[r.value] = first ? I32(0) : I32::load(tile + r.value * kTiles);
    });
    for (int i = 0; i < depth; i += 2, panel += 2 * kTiles, weights += 2 * kRows) {
      const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel));
      unroll<kRows>([&](auto r) MPE_UNROLLED {
        std::int32_t pair;
        __builtin_memcpy(&pair, weights + 2 * r.value, sizeof(pair));
        sums[r.value] = sums[r.value] + I32(_mm256_madd_epi16(values, _mm256_set1_epi32(pair)));
      });
    }
    unroll<kRows>([&](auto r) MPE_UNROLLED { store(tile + r.value * kTiles, sums[r.value]); });
  }
};

}  // namespace
}  // namespace mpe
