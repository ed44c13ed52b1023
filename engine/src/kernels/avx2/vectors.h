// Vectors of eight 32-bit lanes: AVX2, FMA, F16C.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/avx2/lines.h"

namespace mpe {
namespace {

struct F32 {
  using Value = float;
  static constexpr float kLowest = -3.402823466e38F;
  static constexpr int kLanes = 8;
  __m256 value;

  F32() = default;
  explicit F32(__m256 v) : value(v) {}
  explicit F32(float scalar) : value(_mm256_set1_ps(scalar)) {}
  explicit F32(int scalar) : F32(static_cast<float>(scalar)) {}
  static F32 load(const float* from) { return F32(_mm256_loadu_ps(from)); }
};

struct Mask {
  __m256 value;
};

inline F32 operator+(F32 a, F32 b) { return F32(_mm256_add_ps(a.value, b.value)); }
inline F32 operator-(F32 a, F32 b) { return F32(_mm256_sub_ps(a.value, b.value)); }
inline F32 operator*(F32 a, F32 b) { return F32(_mm256_mul_ps(a.value, b.value)); }
inline F32 multiply_add(F32 sum, F32 a, F32 b) {
  return F32(_mm256_fmadd_ps(a.value, b.value, sum.value));
}
inline F32 multiply_subtract(F32 sum, F32 a, F32 b) {
  return F32(_mm256_fnmadd_ps(a.value, b.value, sum.value));
}
inline F32 two_less_product(F32 a, F32 b) { return multiply_subtract(F32(2.0F), a, b); }
inline void settle(F32& x) { asm volatile("" : "+x"(x.value)); }
inline F32 larger(F32 a, F32 b) { return F32(_mm256_max_ps(a.value, b.value)); }
inline F32 smaller(F32 a, F32 b) { return F32(_mm256_min_ps(a.value, b.value)); }
// `largest`, a number, unless x is a larger one.
inline F32 keep_larger(F32 largest, F32 x) { return F32(_mm256_max_ps(x.value, largest.value)); }
inline F32 keep_larger_value(F32 largest, F32 x) { return keep_larger(largest, x); }
inline Mask less(F32 a, F32 b) { return {_mm256_cmp_ps(a.value, b.value, _CMP_LT_OQ)}; }
inline F32 choose(Mask mask, F32 if_true, F32 if_false) {
  return F32(_mm256_blendv_ps(if_false.value, if_true.value, mask.value));
}
inline F32 shift_into_exponent(F32 x) {
  return F32(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.value), 23)));
}
inline F32 subtract_bits(std::uint32_t bits, F32 x) {
  const __m256i all = _mm256_set1_epi32(static_cast<std::int32_t>(bits));
  return F32(_mm256_castsi256_ps(_mm256_sub_epi32(all, _mm256_castps_si256(x.value))));
}
inline constexpr int kActivatedAtOnce = 4;
inline constexpr bool kStoresAsActivated = false;  // see generic/gemm.h

// As activate_by_lines() of quant/activation_lines.h, but what is stored are indices of lines.
inline void store_places(std::int16_t* to, F32 x) {
  const F32 scaled = x * F32(1 << kPlaceBits);
  const F32 limited = smaller(F32(32767.0F), larger(F32(-32768.0F), scaled));
  const __m256i indices = _mm256_srai_epi32(_mm256_cvttps_epi32(limited.value), kPlaceShift);
  const __m128i low = _mm256_castsi256_si128(indices);
  const __m128i high = _mm256_extracti128_si256(indices, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(low, high));
}
inline void load_lines(const ActivationLine* lines, const std::int16_t* indices, F32& intercepts,
                       F32& slopes) {
  const __m256 first = load_four_lines(lines, indices);
  const __m256 second = load_four_lines(lines, indices + 4);
  const __m256 low = _mm256_permute2f128_ps(first, second, 0x20);
  const __m256 high = _mm256_permute2f128_ps(first, second, 0x31);
  intercepts = F32(_mm256_shuffle_ps(low, high, 0x88));
  slopes = F32(_mm256_shuffle_ps(low, high, 0xDD));
}

// Half as many floats.
struct HalfF32 {
  static constexpr int kLanes = 4;
  __m128 value;

  explicit HalfF32(__m128 v) : value(v) {}
  explicit HalfF32(float scalar) : value(_mm_set1_ps(scalar)) {}
  static HalfF32 load(const float* from) { return HalfF32(_mm_loadu_ps(from)); }
};

inline HalfF32 multiply_add(HalfF32 sum, HalfF32 a, HalfF32 b) {
  return HalfF32(_mm_fmadd_ps(a.value, b.value, sum.value));
}
inline void store(float* to, HalfF32 x) { _mm_storeu_ps(to, x.value); }

struct I32 {
  static constexpr int kLanes = 8;
  __m256i value;

  I32() = default;
  explicit I32(__m256i v) : value(v) {}
  explicit I32(std::int32_t scalar) : value(_mm256_set1_epi32(scalar)) {}
  static I32 load(const std::int32_t* from) {
    return I32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
};

inline I32 operator+(I32 a, I32 b) { return I32(_mm256_add_epi32(a.value, b.value)); }
inline I32 larger(I32 a, I32 b) { return I32(_mm256_max_epi32(a.value, b.value)); }
// Of neighbours in `a`, then in `b`.
inline I32 larger_of_pairs(I32 a, I32 b) {
  const __m256 first = _mm256_castsi256_ps(a.value);
  const __m256 second = _mm256_castsi256_ps(b.value);
  const __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0x88));
  const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0xDD));
  return I32(_mm256_permute4x64_epi64(_mm256_max_epi32(even, odd), 0xD8));
}
inline F32 to_float(I32 x) { return F32(_mm256_cvtepi32_ps(x.value)); }
inline I32 round_to_int(F32 x) { return I32(_mm256_cvtps_epi32(x.value)); }

// The order of operands makes NaN the lower limit.
inline F32 limit_for_rounding(F32 x) {
  const __m256 above = _mm256_max_ps(x.value, _mm256_set1_ps(-4096.0F));
  return F32(_mm256_min_ps(above, _mm256_set1_ps(4096.0F)));
}

// Lanes [0, count) as a mask for _mm256_maskstore.
inline __m256i first_lanes(int count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
}

inline void store(float* to, F32 x) { _mm256_storeu_ps(to, x.value); }
inline void store(std::int32_t* to, I32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x.value);
}

inline void store(float* to, F32 x, int count) {
  if (count == F32::kLanes) return store(to, x);
  _mm256_maskstore_ps(to, first_lanes(count), x.value);
}

inline F32 load_half(const std::uint16_t* from) {
  return F32(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

inline F32 rounded_to_half(F32 x) {
  return F32(_mm256_cvtph_ps(_mm256_cvtps_ph(x.value, _MM_FROUND_TO_NEAREST_INT)));
}

inline void store_half(std::uint16_t* to, F32 x, int count) {
  const __m128i half = _mm256_cvtps_ph(x.value, _MM_FROUND_TO_NEAREST_INT);
  if (count == F32::kLanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), half);
  } else {
    __builtin_memcpy(to, &half, static_cast<std::size_t>(count) * 2);
  }
}

// Transposes the four by four values of each half.
inline void transpose(const __m256 (&rows)[4], __m256 (&columns)[4]) {
  const __m256 low_01 = _mm256_unpacklo_ps(rows[0], rows[1]);
  const __m256 high_01 = _mm256_unpackhi_ps(rows[0], rows[1]);
  const __m256 low_23 = _mm256_unpacklo_ps(rows[2], rows[3]);
  const __m256 high_23 = _mm256_unpackhi_ps(rows[2], rows[3]);
  columns[0] = _mm256_shuffle_ps(low_01, low_23, 0x44);
  columns[1] = _mm256_shuffle_ps(low_01, low_23, 0xEE);
  columns[2] = _mm256_shuffle_ps(high_01, high_23, 0x44);
  columns[3] = _mm256_shuffle_ps(high_01, high_23, 0xEE);
}

inline void deinterleave(const float* from, F32 (&columns)[4]) {
  __m256 rows[4];
  __m256 transposed[4];
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from + 4 * i)),
                                   _mm_loadu_ps(from + 16 + 4 * i), 1);
  }
  transpose(rows, transposed);
  for (int i = 0; i < 4; ++i) columns[i].value = transposed[i];
}

inline F32 following(F32 x, F32 next) {
  const __m256i middle = _mm256_castps_si256(_mm256_permute2f128_ps(x.value, next.value, 0x21));
  const __m256i bytes = _mm256_alignr_epi8(middle, _mm256_castps_si256(x.value), 4);
  return F32(_mm256_castsi256_ps(bytes));
}

inline void interleave(float* to, const F32 (&columns)[4]) {
  __m256 rows[4];
  const __m256 values[4] = {columns[0].value, columns[1].value, columns[2].value, columns[3].value};
  transpose(values, rows);
  for (int i = 0; i < 4; ++i) {
    _mm_storeu_ps(to + 4 * i, _mm256_castps256_ps128(rows[i]));
    _mm_storeu_ps(to + 16 + 4 * i, _mm256_extractf128_ps(rows[i], 1));
  }
}

// The first or the second of each of eight pairs of 16-bit values.
inline constexpr int kPairedHalves = 8;
template <int kWhich>
inline void copy_of_pairs(const std::uint16_t* from, std::uint16_t* to) {
  const auto load = [](const std::uint16_t* pairs) {
    const __m128i loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs));
    return kWhich == 0 ? _mm_and_si128(loaded, _mm_set1_epi32(0xFFFF)) : _mm_srli_epi32(loaded, 16);
  };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packus_epi32(load(from), load(from + 8)));
}

// The same of sixteen pairs of bytes.
inline constexpr int kPairedBytes = 16;
template <int kWhich>
inline void copy_of_pairs(const std::int8_t* from, std::int8_t* to) {
  const auto load = [](const std::int8_t* pairs) {
    const __m128i loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs));
    return kWhich == 0 ? _mm_and_si128(loaded, _mm_set1_epi16(0xFF)) : _mm_srli_epi16(loaded, 8);
  };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(load(from), load(from + 16)));
}

inline void deinterleave(const float* from, F32 (&columns)[2]) {
  const __m256 first = _mm256_loadu_ps(from);
  const __m256 second = _mm256_loadu_ps(from + 8);
  const __m256 low = _mm256_permute2f128_ps(first, second, 0x20);
  const __m256 high = _mm256_permute2f128_ps(first, second, 0x31);
  columns[0].value = _mm256_shuffle_ps(low, high, 0x88);
  columns[1].value = _mm256_shuffle_ps(low, high, 0xDD);
}

inline void interleave(float* to, const F32 (&columns)[1]) { store(to, columns[0]); }

inline void interleave(float* to, const F32 (&columns)[2]) {
  const __m256 low = _mm256_unpacklo_ps(columns[0].value, columns[1].value);
  const __m256 high = _mm256_unpackhi_ps(columns[0].value, columns[1].value);
  _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
  _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
}

inline I32 load_int8(const std::int8_t* from) {
  return I32(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}

inline constexpr int kPooledBytes = 16;
inline void maximum_of_four(const std::int8_t* upper, const std::int8_t* lower, std::int8_t* to) {
  const __m256i larger =
      _mm256_max_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(upper)),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lower)));
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(larger, 8), 8);
  const __m256i largest = _mm256_max_epi16(even, _mm256_srai_epi16(larger, 8));
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

inline __m256i order_of_halves(__m256i bits) {
  return _mm256_xor_si256(bits, _mm256_srli_epi16(_mm256_srai_epi16(bits, 15), 1));
}

inline constexpr int kPooledHalves = 8;
inline void maximum_of_four(const std::uint16_t* upper, const std::uint16_t* lower,
                            std::uint16_t* to, std::int16_t lowest) {
  const auto load = [](const std::uint16_t* row) {
    return order_of_halves(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row)));
  };
  const __m256i larger =
      _mm256_max_epi16(_mm256_max_epi16(load(upper), load(lower)), _mm256_set1_epi16(lowest));
  const __m256i even = _mm256_srai_epi32(_mm256_slli_epi32(larger, 16), 16);
  const __m256i largest = order_of_halves(_mm256_max_epi32(even, _mm256_srai_epi32(larger, 16)));
  // Each in the lower half of 32 bits whose upper half goes.
  const __m256i halves = _mm256_srai_epi32(_mm256_slli_epi32(largest, 16), 16);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packs_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
}

// Saturates.
inline void store_int8(std::int8_t* to, I32 x, int count) {
  const __m128i half =
      _mm_packs_epi32(_mm256_castsi256_si128(x.value), _mm256_extracti128_si256(x.value, 1));
  const __m128i bytes = _mm_packs_epi16(half, half);
  if (count == F32::kLanes) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
  } else {
    __builtin_memcpy(to, &bytes, static_cast<std::size_t>(count));
  }
}

inline void store_int8(std::int8_t* to, const I32 (&x)[4]) {
  for (int i = 0; i < 4; ++i) store_int8(to + i * I32::kLanes, x[i], I32::kLanes);
}

// Rounded, with `zero` added.
inline I32 round_to_steps(F32 x, I32 zero) { return round_to_int(limit_for_rounding(x)) + zero; }

}  // namespace
}  // namespace mpe
