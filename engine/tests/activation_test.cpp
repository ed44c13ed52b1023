// Activations against the C library within their stated accuracy, and their exact bits, which must
// not depend on compiler or machine.
#include "kernels/activation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "check.h"

namespace {

// A float that will be stored as half.
struct ForHalf {
  float value;
  explicit ForHalf(float x) : value(x) {}
};
ForHalf operator+(ForHalf a, ForHalf b) { return ForHalf(a.value + b.value); }
ForHalf operator-(ForHalf a, ForHalf b) { return ForHalf(a.value - b.value); }
ForHalf operator*(ForHalf a, ForHalf b) { return ForHalf(a.value * b.value); }
ForHalf larger(ForHalf a, ForHalf b) { return ForHalf(mpe::larger(a.value, b.value)); }
ForHalf smaller(ForHalf a, ForHalf b) { return ForHalf(mpe::smaller(a.value, b.value)); }
ForHalf multiply_add(ForHalf sum, ForHalf a, ForHalf b) {
  return ForHalf(mpe::multiply_add(sum.value, a.value, b.value));
}
ForHalf multiply_subtract(ForHalf sum, ForHalf a, ForHalf b) {
  return ForHalf(mpe::multiply_subtract(sum.value, a.value, b.value));
}
ForHalf two_less_product(ForHalf a, ForHalf b) {
  return ForHalf(mpe::two_less_product(a.value, b.value));
}
ForHalf shift_into_exponent(ForHalf x) { return ForHalf(mpe::shift_into_exponent(x.value)); }
ForHalf subtract_bits(std::uint32_t bits, ForHalf x) {
  return ForHalf(mpe::subtract_bits(bits, x.value));
}

}  // namespace

template <>
inline constexpr bool mpe::kIsForHalf<ForHalf> = true;

namespace {

using mpe::activate;
using mpe::Activation;

float activated(Activation activation, float x) { return activate(activation, x); }
float activated_for_half(Activation activation, float x) {
  return mpe::activate_costly(activation, ForHalf(x)).value;
}

// The largest relative error over steps of a small prime fraction, and near zero.
template <typename Exact>
double worst_error(Activation activation, Exact&& exact,
                   float (*function)(Activation, float) = activated) {
  double worst = 0.0;
  const auto visit = [&](float x) {
    const double expected = exact(static_cast<double>(x));
    const double error = std::abs(function(activation, x) - expected) / std::abs(expected);
    if (!(error <= worst)) worst = error;
  };
  for (int i = -800000; i < 800000; ++i) visit(static_cast<float>(i) * 1.00003e-4F + 1e-6F);
  for (float x = 1e-9F; x < 1.0F; x *= 1.01F) {
    visit(x);
    visit(-x);
  }
  return worst;
}

std::uint32_t bits_digest(Activation activation) {
  std::uint32_t digest = 0;
  for (int i = -20000; i <= 20000; ++i) {
    const float y = activate(activation, static_cast<float>(i) * 0.001F);
    std::uint32_t bits;
    std::memcpy(&bits, &y, sizeof(bits));
    digest = digest * 31 + bits;
  }
  return digest;
}

TEST(smooth_activations_are_accurate) {
  CHECK(worst_error(Activation::kLogistic, [](double x) { return 1 / (1 + std::exp(-x)); }) < 1e-6);
  CHECK(worst_error(Activation::kTanh, [](double x) { return std::tanh(x); }) < 1e-6);
  CHECK(worst_error(Activation::kSwish, [](double x) { return x / (1 + std::exp(-x)); }) < 1e-6);
  CHECK(worst_error(Activation::kMish,
                    [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }) < 1e-6);
  CHECK(worst_error(Activation::kElu, [](double x) { return x > 0 ? x : std::expm1(x); }) < 1e-6);
}

TEST(activations_for_halves_have_the_digits_of_a_half) {
  const auto error = [](Activation activation, auto&& exact) {
    return worst_error(activation, exact, activated_for_half);
  };
  CHECK(error(Activation::kLogistic, [](double x) { return 1 / (1 + std::exp(-x)); }) < 2e-5);
  CHECK(error(Activation::kTanh, [](double x) { return std::tanh(x); }) < 2e-5);
  CHECK(error(Activation::kSwish, [](double x) { return x / (1 + std::exp(-x)); }) < 2e-5);
  CHECK(error(Activation::kMish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }) <
        2e-5);
  CHECK(error(Activation::kElu, [](double x) { return x > 0 ? x : std::expm1(x); }) < 2e-5);
  // Where a layer's sums are small, its bound is, too.
  for (float x = -1e-3F; x < 1e-3F; x += 1e-6F) {
    const double expected = 1 / (1 + std::exp(-static_cast<double>(x)));
    CHECK(std::abs(activated_for_half(Activation::kLogistic, x) / expected - 1) < 3.9e-6);
  }
  CHECK(std::isnan(activated_for_half(Activation::kSwish, NAN)));
}

TEST(gelu_is_accurate_where_it_is_not_next_to_zero) {
  const auto worst = [](Activation activation, double from, auto&& exact) {
    double error = 0.0;
    for (double x = from; x < 20; x += 1.37e-4) {
      const double expected = exact(static_cast<double>(static_cast<float>(x)));
      const double actual = activate(activation, static_cast<float>(x));
      error = std::max(error, std::abs(actual - expected) / std::abs(expected));
    }
    return error;
  };
  CHECK(worst(Activation::kGelu, -12.0,
              [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); }) < 1.5e-6);
  CHECK(worst(Activation::kGeluTanh, -5.0, [](double x) {
          const double u = std::sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x);
          return x / (1 + std::exp(-2 * u));
        }) < 4e-6);
}

TEST(bits_are_the_same_everywhere) {
  CHECK_EQUAL(bits_digest(Activation::kLogistic), 2819568996U);
  CHECK_EQUAL(bits_digest(Activation::kTanh), 2127551081U);
  CHECK_EQUAL(bits_digest(Activation::kMish), 1948560230U);
  CHECK_EQUAL(bits_digest(Activation::kSwish), 536066519U);
  CHECK_EQUAL(bits_digest(Activation::kHardMish), 3064102446U);
}

TEST(piecewise_activations) {
  CHECK_EQUAL(activate(Activation::kLinear, -3.0F), -3.0F);
  CHECK_EQUAL(activate(Activation::kLeaky, -3.0F), -3.0F * 0.1F);
  CHECK_EQUAL(activate(Activation::kLeaky, 3.0F), 3.0F);
  CHECK_EQUAL(activate(Activation::kRelu, -3.0F), 0.0F);
  CHECK_EQUAL(activate(Activation::kRelu6, 7.0F), 6.0F);
  CHECK_EQUAL(activate(Activation::kRelu6, -1.0F), 0.0F);
  CHECK_EQUAL(activate(Activation::kHardMish, 1.5F), 1.5F);
  CHECK_EQUAL(activate(Activation::kHardMish, -1.0F), -0.5F);
  CHECK_EQUAL(activate(Activation::kHardMish, -2.5F), 0.0F);
  CHECK_EQUAL(activate(Activation::kHardSigmoid, -3.0F), 0.0F);
  CHECK_EQUAL(activate(Activation::kHardSigmoid, 0.0F), 0.5F);
  CHECK_EQUAL(activate(Activation::kHardSigmoid, 3.5F), 1.0F);
  CHECK_EQUAL(activate(Activation::kHardSwish, -4.0F), 0.0F);
  CHECK_EQUAL(activate(Activation::kHardSwish, 4.0F), 4.0F);
}

TEST(extremes_stay_finite) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  for (const Activation activation :
       {Activation::kLogistic, Activation::kTanh, Activation::kMish, Activation::kSwish,
        Activation::kHardSwish, Activation::kHardSigmoid, Activation::kGelu, Activation::kGeluTanh,
        Activation::kElu}) {
    CHECK(std::isfinite(activate(activation, kHuge)));
    CHECK(std::isfinite(activate(activation, -kHuge)));
    CHECK(std::isnan(activate(activation, std::numeric_limits<float>::quiet_NaN())));
  }
  CHECK_EQUAL(activate(Activation::kLogistic, kHuge), 1.0F);
  CHECK_EQUAL(activate(Activation::kTanh, -kHuge), -1.0F);
}

}  // namespace
