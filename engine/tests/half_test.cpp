// binary16 conversions against the definition of the format, in double.
#include "half.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "check.h"

using namespace mpe;

namespace {

std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The value of the bits: sign, five bits of exponent, ten of fraction.
double meaning(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

}  // namespace

TEST(every_finite_half_has_its_value_and_comes_back) {
  int wrong = 0;
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    if ((bits & 0x7C00U) == 0x7C00U) continue;
    const float value = half_to_float(half);
    if (static_cast<double>(value) != meaning(half.bits) || half_from_float(value) != half) ++wrong;
  }
  CHECK_EQUAL(wrong, 0);
  CHECK_EQUAL(bits_of(half_to_float(Half{0x8000})), 0x80000000U);
}

TEST(values_between_two_halves_round_to_the_nearer_and_ties_to_even) {
  int wrong = 0;
  for (unsigned bits = 0; bits < 0x7BFFU; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((meaning(low) + meaning(high)) / 2);  // exact
    const float below = std::nextafter(middle, 0.0F);
    const float above = std::nextafter(middle, 1e9F);
    const std::uint16_t even = bits % 2 == 0 ? low : high;
    for (const float sign : {1.0F, -1.0F}) {
      const unsigned flag = sign < 0 ? 0x8000U : 0U;
      if (half_from_float(sign * below).bits != (low | flag)) ++wrong;
      if (half_from_float(sign * middle).bits != (even | flag)) ++wrong;
      if (half_from_float(sign * above).bits != (high | flag)) ++wrong;
    }
  }
  CHECK_EQUAL(wrong, 0);
}

TEST(large_values_become_infinity_and_nan_stays_nan) {
  CHECK_EQUAL(half_from_float(65519.996F).bits, 0x7BFF);
  CHECK_EQUAL(half_from_float(65520.0F).bits, 0x7C00);
  CHECK_EQUAL(half_from_float(-1e30F).bits, 0xFC00);
  CHECK_EQUAL(half_from_float(std::numeric_limits<float>::infinity()).bits, 0x7C00);
  CHECK(std::isinf(half_to_float(Half{0x7C00})));
  CHECK(std::isnan(half_to_float(Half{0x7C01})));
  const Half nan = half_from_float(std::numeric_limits<float>::quiet_NaN());
  CHECK((nan.bits & 0x7E00U) == 0x7E00U);
  CHECK_EQUAL(half_from_float(1e-30F).bits, 0);
}
