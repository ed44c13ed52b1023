// Vectors of sixteen 32-bit lanes: AVX-512 F, BW, DQ, VL.
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
  static constexpr int kLanes = 16;
  __m512 value;

  F32() = default;
  explicit F32(__m512 v) : value(v) {}
  explicit F32(float scalar) : value(_mm512_set1_ps(scalar)) {}
  explicit F32(int scalar) : F32(static_cast<float>(scalar)) {}
  static F32 load(const float* from) { return F32(_mm512_loadu_ps(from)); }
};

inline F32 operator+(F32 a, F32 b) { return F32(_mm512_add_ps(a.value, b.value)); }
inline F32 operator-(F32 a, F32 b) { return F32(_mm512_sub_ps(a.value, b.value)); }
inline F32 operator*(F32 a, F32 b) { return F32(_mm512_mul_ps(a.value, b.value)); }
inline F32 multiply_add(F32 sum, F32 a, F32 b) {
  return F32(_mm512_fmadd_ps(a.value, b.value, sum.value));
}
inline F32 multiply_subtract(F32 sum, F32 a, F32 b) {
  return F32(_mm512_fnmadd_ps(a.value, b.value, sum.value));
}
inline F32 two_less_product(F32 a, F32 b) { return multiply_subtract(F32(2.0F), a, b); }
inline void settle(F32& x) { asm volatile("" : "+v"(x.value)); }
inline F32 larger(F32 a, F32 b) { return F32(_mm512_max_ps(a.value, b.value)); }
inline F32 smaller(F32 a, F32 b) { return F32(_mm512_min_ps(a.value, b.value)); }
// `largest`, a number, unless x is a larger one.
inline F32 keep_larger(F32 largest, F32 x) { return F32(_mm512_max_ps(x.value, largest.value)); }
inline F32 keep_larger_value(F32 largest, F32 x) { return keep_larger(largest, x); }
inline __mmask16 less(F32 a, F32 b) { return _mm512_cmp_ps_mask(a.value, b.value, _CMP_LT_OQ); }
inline F32 choose(__mmask16 mask, F32 if_true, F32 if_false) {
  return F32(_mm512_mask_blend_ps(mask, if_false.value, if_true.value));
}
inline F32 shift_into_exponent(F32 x) {
  return F32(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x.value), 23)));
}
inline F32 subtract_bits(std::uint32_t bits, F32 x) {
  const __m512i all = _mm512_set1_epi32(static_cast<std::int32_t>(bits));
  return F32(_mm512_castsi512_ps(_mm512_sub_epi32(all, _mm512_castps_si512(x.value))));
}
inline constexpr int kActivatedAtOnce = 8;
inline constexpr bool kStoresAsActivated = false;  // see generic/gemm.h

// As activate_by_lines() of quant/activation_lines.h, but what is stored are indices of lines.
inline void store_places(std::int16_t* to, F32 x) {
  const F32 scaled = x * F32(1 << kPlaceBits);
  const F32 limited = smaller(F32(32767.0F), larger(F32(-32768.0F), scaled));
  const __m512i indices = _mm512_srai_epi32(_mm512_cvttps_epi32(limited.value), kPlaceShift);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(indices));
}
inline void load_lines(const ActivationLine* lines, const std::int16_t* indices, F32& intercepts,
                       F32& slopes) {
  const auto eight = [=](const std::int16_t* from) __attribute__((always_inline)) {
    const __m512 four = _mm512_castps256_ps512(load_four_lines(lines, from));
    return _mm512_insertf32x8(four, load_four_lines(lines, from + 4), 1);
  };
  const __m512 first = eight(indices);
  const __m512 second = eight(indices + 8);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
  intercepts = F32(_mm512_permutex2var_ps(first, even, second));
  slopes = F32(_mm512_permutex2var_ps(first, odd, second));
}

// Half as many floats.
struct HalfF32 {
  static constexpr int kLanes = 8;
  __m256 value;

  explicit HalfF32(__m256 v) : value(v) {}
  explicit HalfF32(float scalar) : value(_mm256_set1_ps(scalar)) {}
  static HalfF32 load(const float* from) { return HalfF32(_mm256_loadu_ps(from)); }
};

inline HalfF32 multiply_add(HalfF32 sum, HalfF32 a, HalfF32 b) {
  return HalfF32(_mm256_fmadd_ps(a.value, b.value, sum.value));
}
inline void store(float* to, HalfF32 x) { _mm256_storeu_ps(to, x.value); }

struct I32 {
  static constexpr int kLanes = 16;
  __m512i value;

  I32() = default;
  explicit I32(__m512i v) : value(v) {}
  explicit I32(std::int32_t scalar) : value(_mm512_set1_epi32(scalar)) {}
  static I32 load(const std::int32_t* from) { return I32(_mm512_loadu_si512(from)); }
};

inline I32 operator+(I32 a, I32 b) { return I32(_mm512_add_epi32(a.value, b.value)); }
inline I32 larger(I32 a, I32 b) { return I32(_mm512_max_epi32(a.value, b.value)); }
// Of neighbours in `a`, then in `b`.
inline I32 larger_of_pairs(I32 a, I32 b) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
  return I32(_mm512_max_epi32(_mm512_permutex2var_epi32(a.value, even, b.value),
                              _mm512_permutex2var_epi32(a.value, odd, b.value)));
}
inline F32 to_float(I32 x) { return F32(_mm512_cvtepi32_ps(x.value)); }
inline I32 round_to_int(F32 x) { return I32(_mm512_cvtps_epi32(x.value)); }

// The order of operands makes NaN the lower limit.
inline F32 limit_for_rounding(F32 x) {
  const __m512 above = _mm512_max_ps(x.value, _mm512_set1_ps(-4096.0F));
  return F32(_mm512_min_ps(above, _mm512_set1_ps(4096.0F)));
}

inline __mmask16 first_lanes(int count) { return static_cast<__mmask16>((1U << count) - 1U); }

inline void store(float* to, F32 x) { _mm512_storeu_ps(to, x.value); }
inline void store(std::int32_t* to, I32 x) { _mm512_storeu_si512(to, x.value); }
inline void store(float* to, F32 x, int count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), x.value);
}

inline F32 load_half(const std::uint16_t* from) {
  return F32(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}

inline F32 rounded_to_half(F32 x) {
  return F32(_mm512_cvtph_ps(_mm512_cvtps_ph(x.value, _MM_FROUND_TO_NEAREST_INT)));
}

inline void store_half(std::uint16_t* to, F32 x, int count) {
  _mm256_mask_storeu_epi16(to, first_lanes(count),
                           _mm512_cvtps_ph(x.value, _MM_FROUND_TO_NEAREST_INT));
}

// Transposes the four by four values of each quarter.
inline void transpose(const __m512 (&rows)[4], __m512 (&columns)[4]) {
  const __m512 low_01 = _mm512_unpacklo_ps(rows[0], rows[1]);
  const __m512 high_01 = _mm512_unpackhi_ps(rows[0], rows[1]);
  const __m512 low_23 = _mm512_unpacklo_ps(rows[2], rows[3]);
  const __m512 high_23 = _mm512_unpackhi_ps(rows[2], rows[3]);
  columns[0] = _mm512_shuffle_ps(low_01, low_23, 0x44);
  columns[1] = _mm512_shuffle_ps(low_01, low_23, 0xEE);
  columns[2] = _mm512_shuffle_ps(high_01, high_23, 0x44);
  columns[3] = _mm512_shuffle_ps(high_01, high_23, 0xEE);
}

// Transposes four by four quarters: it is its own inverse.
inline void transpose_quarters(const __m512 (&rows)[4], __m512 (&columns)[4]) {
  const __m512 low_01 = _mm512_shuffle_f32x4(rows[0], rows[1], 0x44);
  const __m512 high_01 = _mm512_shuffle_f32x4(rows[0], rows[1], 0xEE);
  const __m512 low_23 = _mm512_shuffle_f32x4(rows[2], rows[3], 0x44);
  const __m512 high_23 = _mm512_shuffle_f32x4(rows[2], rows[3], 0xEE);
  columns[0] = _mm512_shuffle_f32x4(low_01, low_23, 0x88);
  columns[1] = _mm512_shuffle_f32x4(low_01, low_23, 0xDD);
  columns[2] = _mm512_shuffle_f32x4(high_01, high_23, 0x88);
  columns[3] = _mm512_shuffle_f32x4(high_01, high_23, 0xDD);
}

inline void deinterleave(const float* from, F32 (&columns)[4]) {
  __m512 loaded[4];
  __m512 rows[4];
  __m512 transposed[4];
  for (int i = 0; i < 4; ++i) loaded[i] = _mm512_loadu_ps(from + 16 * i);
  transpose_quarters(loaded, rows);
  transpose(rows, transposed);
  for (int i = 0; i < 4; ++i) columns[i].value = transposed[i];
}

inline F32 following(F32 x, F32 next) {
  return F32(_mm512_castsi512_ps(
      _mm512_alignr_epi32(_mm512_castps_si512(next.value), _mm512_castps_si512(x.value), 1)));
}

inline void interleave(float* to, const F32 (&columns)[4]) {
  const __m512 values[4] = {columns[0].value, columns[1].value, columns[2].value, columns[3].value};
  __m512 rows[4];
  __m512 stored[4];
  transpose(values, rows);
  transpose_quarters(rows, stored);
  for (int i = 0; i < 4; ++i) _mm512_storeu_ps(to + 16 * i, stored[i]);
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
  const __m512 first = _mm512_loadu_ps(from);
  const __m512 second = _mm512_loadu_ps(from + 16);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  columns[0].value = _mm512_permutex2var_ps(first, even, second);
  columns[1].value = _mm512_permutex2var_ps(first, odd, second);
}

inline void interleave(float* to, const F32 (&columns)[1]) { store(to, columns[0]); }

inline void interleave(float* to, const F32 (&columns)[2]) {
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i second =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  _mm512_storeu_ps(to, _mm512_permutex2var_ps(columns[0].value, first, columns[1].value));
  _mm512_storeu_ps(to + 16, _mm512_permutex2var_ps(columns[0].value, second, columns[1].value));
}

inline I32 load_int8(const std::int8_t* from) {
  return I32(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

inline constexpr int kPooledBytes = 32;
inline void maximum_of_four(const std::int8_t* upper, const std::int8_t* lower, std::int8_t* to) {
  const __m512i larger = _mm512_max_epi8(_mm512_loadu_si512(upper), _mm512_loadu_si512(lower));
  const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(larger, 8), 8);
  const __m512i largest = _mm512_max_epi16(even, _mm512_srai_epi16(larger, 8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(largest));
}

inline __m512i order_of_halves(__m512i bits) {
  return _mm512_xor_si512(bits, _mm512_srli_epi16(_mm512_srai_epi16(bits, 15), 1));
}

inline constexpr int kPooledHalves = 16;
inline void maximum_of_four(const std::uint16_t* upper, const std::uint16_t* lower,
                            std::uint16_t* to, std::int16_t lowest) {
  const __m512i larger =
      _mm512_max_epi16(_mm512_max_epi16(order_of_halves(_mm512_loadu_si512(upper)),
                                        order_of_halves(_mm512_loadu_si512(lower))),
                       _mm512_set1_epi16(lowest));
  const __m512i even = _mm512_srai_epi32(_mm512_slli_epi32(larger, 16), 16);
  const __m512i largest = _mm512_max_epi32(even, _mm512_srai_epi32(larger, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(order_of_halves(largest)));
}

// Saturates.
inline void store_int8(std::int8_t* to, I32 x, int count) {
  _mm512_mask_cvtsepi32_storeu_epi8(to, first_lanes(count), x.value);
}

inline void store_int8(std::int8_t* to, const I32 (&x)[4]) {
  for (int i = 0; i < 4; ++i) store_int8(to + i * I32::kLanes, x[i], I32::kLanes);
}

// Rounded, with `zero` added.
inline I32 round_to_steps(F32 x, I32 zero) { return round_to_int(limit_for_rounding(x)) + zero; }

}  // namespace
}  // namespace mpe
