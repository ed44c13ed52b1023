// Loads of activation lines (quant/activation_lines.h), for AVX2 and AVX-512. One load brings a
// line's intercept and slope. Two gathers for these take nearly twice as long on Zen 4.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "quant/activation_lines.h"

namespace mpe {
namespace {

inline __m128 load_two_lines(const ActivationLine* lines, const std::int16_t* indices) {
  const auto* first = reinterpret_cast<const __m128i*>(lines + indices[0]);
  const auto* second = reinterpret_cast<const __m64*>(lines + indices[1]);
  return _mm_loadh_pi(_mm_castsi128_ps(_mm_loadl_epi64(first)), second);
}

inline __m256 load_four_lines(const ActivationLine* lines, const std::int16_t* indices) {
  const __m256 two = _mm256_castps128_ps256(load_two_lines(lines, indices));
  return _mm256_insertf128_ps(two, load_two_lines(lines, indices + 2), 1);
}

}  // namespace
}  // namespace mpe
