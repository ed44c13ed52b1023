// IEEE 754 binary16, the same bits on every machine, in loops that a compiler can vectorise: by the
// conversions that every arm64 core has, elsewhere in plain integer arithmetic.
#pragma once

#include <cstdint>

#include "inline.h"

namespace mpe {

struct Half {
  std::uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};

#if defined(__aarch64__)
MPE_INLINE float half_to_float(Half half) {
  return static_cast<float>(__builtin_bit_cast(__fp16, half.bits));
}

MPE_INLINE Half half_from_float(float value) {
  return Half{__builtin_bit_cast(std::uint16_t, static_cast<__fp16>(value))};
}
#else
MPE_INLINE float half_to_float(Half half) {
  const std::uint32_t magnitude = half.bits & 0x7FFFU;
  const std::uint32_t sign = static_cast<std::uint32_t>(half.bits & 0x8000U) << 16;
  // Exponent and fraction in float's position, still with half's bias: one exact multiplication
  // by 2^112 corrects normal and subnormal numbers alike.
  const float scaled =
      __builtin_bit_cast(float, magnitude << 13) * __builtin_bit_cast(float, 0x77800000U);
  const std::uint32_t quiet = magnitude > 0x7C00U ? 0x00400000U : 0U;
  const std::uint32_t special = (magnitude << 13) | 0x7F800000U | quiet;  // infinity or NaN
  const std::uint32_t bits =
      magnitude >= 0x7C00U ? special : __builtin_bit_cast(std::uint32_t, scaled);
  return __builtin_bit_cast(float, bits | sign);
}

// Rounds to nearest, ties to even; overflows to infinity; keeps subnormals; NaN stays NaN,
// made quiet, with the upper bits of its payload.
MPE_INLINE Half half_from_float(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Normal: move the exponent's bias and add half a unit, one less where the result is even.
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  // Below 2^-14: adding 0.5 lets the float adder round at half's smallest step, 2^-24.
  const float shifted = __builtin_bit_cast(float, magnitude < 0x38800000U ? magnitude : 0U) + 0.5F;
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - 0x3F000000U;
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
  result = magnitude >= 0x477FF000U ? 0x7C00U : result;  // 65520 and above
  const std::uint32_t nan = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  result = magnitude > 0x7F800000U ? nan : result;
  return Half{static_cast<std::uint16_t>(result | sign)};
}
#endif

}  // namespace mpe
