// Activation functions with the same bits on every machine: nothing but single IEEE binary32
// operations in a fixed order (no contraction; a multiply-add has one rounding everywhere), written
// once over a type `F` that is `float` in the plain loops, and a vector of floats or several of
// them in the kernels. None divides: cores have one slow divider for all lanes.
//
// A vector type offers F(float) as a broadcast, + - *, and these functions, found by argument
// dependent lookup:
//   less(a, b) -> mask, choose(mask, if_true, if_false)   for single vectors only
//   larger(a, b), smaller(a, b)             b if that is NaN
//   multiply_add(sum, a, b)                 sum + a b, rounded once
//   multiply_subtract(sum, a, b)            sum - a b, rounded once
//   two_less_product(a, b)                  2 - a b, rounded once
//   shift_into_exponent(x)                  the bits of x, 23 places up
//   subtract_bits(bits, x)                  bits less those of x, as integers
//
// Everything here has internal linkage and is always inlined: this header is compiled for several
// instruction sets in one program, and the linker must not mix the copies.
#pragma once

#include <cstdint>

#include "inline.h"
#include "model/activation.h"

namespace mpe {

namespace {

MPE_INLINE bool less(float a, float b) { return a < b; }
MPE_INLINE float choose(bool mask, float if_true, float if_false) {
  return mask ? if_true : if_false;
}
MPE_INLINE float larger(float a, float b) { return a > b ? a : b; }
MPE_INLINE float smaller(float a, float b) { return a < b ? a : b; }
MPE_INLINE float multiply_add(float sum, float a, float b) { return __builtin_fmaf(a, b, sum); }
MPE_INLINE float multiply_subtract(float sum, float a, float b) {
  return __builtin_fmaf(-a, b, sum);
}
MPE_INLINE float two_less_product(float a, float b) { return multiply_subtract(2.0F, a, b); }
MPE_INLINE float shift_into_exponent(float x) {
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) << 23);
}
MPE_INLINE float subtract_bits(std::uint32_t bits, float x) {
  return __builtin_bit_cast(float, bits - __builtin_bit_cast(std::uint32_t, x));
}

}  // namespace

// Is a value of type F stored as half? Then it needs no more than that: functions are precise to
// 2e-5 relative, in fewer operations.
template <typename F>
inline constexpr bool kIsForHalf = false;

// e^t = scale (1 + kSign rest); the scale is a power of two.
template <int kSign, typename F>
struct Exponential {
  F scale;
  F rest;

  F value() const {
    return kSign < 0 ? multiply_subtract(scale, scale, rest) : multiply_add(scale, scale, rest);
  }
};

// kSign (e^t - 1 - t) / t^2 for t = kSign r, |r| <= ln 2 / 2: minimax for e^t, to 1e-7 relative, or
// 6e-6 for a half.
template <int kSign, typename F>
MPE_INLINE F curve_for_value(F r, F square) {
  if constexpr (kIsForHalf<F>) {
    const F high = multiply_add(F(0.16753514F), r, F(kSign * 0.04127775F));
    return multiply_add(F(kSign * 0.50005116F), r, high);
  }
  const F low = multiply_add(F(kSign * 0.49999231F), r, F(0.16667115F));
  const F high = multiply_add(F(kSign * 0.04189016F), r, F(0.00831252F));
  return multiply_add(low, square, high);
}
// The same for e^t - 1, to 3e-8 relative.
template <int kSign, typename F>
MPE_INLINE F curve_for_rest(F r, F square) {
  const F low = multiply_add(F(kSign * 0.49999997F), r, F(0.16666542F));
  const F middle = multiply_add(F(kSign * 0.0416676F), r, F(0.00836668F));
  const F high = multiply_add(middle, square, F(kSign * 0.00138582F));
  return multiply_add(low, square, high);
}

// e^t for t = kSign x, |x| <= 87. NaN stays in `rest`, which kPrecise keeps precise near x = 0.
template <int kSign, bool kPrecise = false, typename F>
MPE_INLINE Exponential<kSign, F> exponential_parts(F x) {
  // t = n ln 2 + kSign r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds t / ln 2 to n in the lowest
  // bits, and 127 makes it the exponent of 2^n. A multiply-add does not round n ln 2, so that one
  // float is precise enough for ln 2.
  const F magic(12582912.0F + 127.0F);
  const F exponent = multiply_add(magic, x, F(kSign * 1.44269504F));
  const F r = multiply_subtract(x, exponent - magic, F(kSign * 0.693147182F));
  const F square = r * r;
  const F curve = kPrecise ? curve_for_rest<kSign>(r, square) : curve_for_value<kSign>(r, square);
  return {shift_into_exponent(exponent), multiply_add(r, square, curve)};
}

// 1 / x to 1.5e-7 relative for x in [1, 2^125]; for a half 1.4e-5, and 3.5e-6 at powers of two, the
// denominators of values near zero. NaN stays.
template <typename F>
MPE_INLINE F reciprocal(F x) {
  // The difference negates the exponent, which gives a value within 5.1 % (6.1 % for a half, and
  // 4.3 % at powers of two). Newton's steps square its error. With the first constant 1 / 1 is
  // exactly 1.
  F y = subtract_bits(kIsForHalf<F> ? 0x7EF4F0D8 : 0x7EF311C4, x);
  y = y * two_less_product(x, y);
  y = y * two_less_product(x, y);
  return kIsForHalf<F> ? y : y * two_less_product(x, y);
}

template <typename F>
MPE_INLINE F limited(F x, float limit) {
  return smaller(F(limit), larger(F(-limit), x));
}

// e^x to 1e-7 relative; x is limited to [-87, 87], where the result is a normal number. NaN stays.
template <typename F>
MPE_INLINE F exponential(F x) {
  return exponential_parts<1>(limited(x, 87.0F)).value();
}

template <typename F>
MPE_INLINE F logistic(F x) {
  return reciprocal(F(1.0F) + exponential_parts<-1>(limited(x, 87.0F)).value());
}

// With e = e^2x, (e - 1) / (e + 1). Near zero e's scale is 1, and e - 1 the rest.
template <typename F>
MPE_INLINE F hyperbolic_tangent(F x) {
  const F half = limited(x, 10.0F);
  const auto e = exponential_parts<1, true>(half + half);
  const F n = multiply_add(e.scale - F(1.0F), e.scale, e.rest);
  return n * reciprocal(n + F(2.0F));
}

// x tanh(ln(1 + e^x)). With e = e^x the hyperbolic tangent is e (e + 2) / (e (e + 2) + 2), which
// keeps its relative accuracy on both sides and is 1 in float from x = 20 on.
template <typename F>
MPE_INLINE F mish(F x) {
  const F e = exponential_parts<1>(smaller(F(20.0F), larger(F(-87.0F), x))).value();
  const F n = multiply_add(e + e, e, e);
  return x * (n * reciprocal(n + F(2.0F)));
}

template <typename F>
MPE_INLINE F swish(F x) {
  return x * logistic(x);
}

// 0 below -2, then x^2 / 2 + x up to 0, then x.
template <typename F>
MPE_INLINE F hard_mish(F x) {
  const F bent = larger(F(-2.0F), smaller(F(0.0F), x));
  return larger(F(0.0F), x) + ((bent * bent) * F(0.5F) + bent);
}

// x / 6 + 1 / 2, limited to [0, 1].
template <typename F>
MPE_INLINE F hard_sigmoid(F x) {
  return smaller(F(1.0F), larger(F(0.0F), multiply_add(F(0.5F), x, F(0.166666667F))));
}

template <typename F>
MPE_INLINE F hard_swish(F x) {
  return x * hard_sigmoid(x);
}

// x for x > 0, else e^x - 1.
template <typename F>
MPE_INLINE F elu(F x) {
  const auto e = exponential_parts<1, true>(smaller(F(0.0F), larger(F(-87.0F), x)));
  return larger(F(0.0F), x) + multiply_add(e.scale - F(1.0F), e.scale, e.rest);
}

// x / 2 (1 + erf(x / sqrt(2))). With z = |x| / sqrt(2) and t = 1 / (1 + 0.3275911 z), 1 - erf(z) is
// a polynomial in t times e^(-z^2): the form of 7.1.26 of Abramowitz and Stegun's Handbook of
// Mathematical Functions, here minimax to 1e-7 relative. What z^2 = x^2 / 2 loses in rounding is
// put back.
template <typename F>
MPE_INLINE F gelu(F x) {
  const F size = smaller(F(12.7F), larger(F(0.0F) - x, x));  // beyond, the rest is next to nothing
  const F z = size * F(0.707106781F);
  const F t = reciprocal(multiply_add(F(1.0F), z, F(0.3275911F)));
  F curve = multiply_add(F(0.502969205F), t, F(-0.142609939F));
  curve = multiply_add(F(-0.416959226F), t, curve);
  curve = multiply_add(F(0.463697553F), t, curve);
  curve = multiply_add(F(0.0196967646F), t, curve);
  curve = multiply_add(F(0.207711011F), t, curve);
  curve = multiply_add(F(0.180419967F), t, curve);
  curve = multiply_add(F(0.185074732F), t, curve) * t;
  const F half = F(0.5F) * size;
  const F square = half * size;
  const F lost = multiply_subtract(square, half, size);
  const F power = exponential_parts<-1>(square).value();
  const F half_rest = F(0.5F) * (curve * multiply_add(power, power, lost));
  return multiply_subtract(larger(F(0.0F), x), size, half_rest);
}

template <typename F>
MPE_INLINE F gelu_tanh(F x) {
  const F cube = (x * x) * x;
  return x * logistic(F(1.59576912F) * multiply_add(x, cube, F(0.044715F)));
}

template <typename F>
MPE_INLINE F relu(F x) {
  return choose(less(F(0.0F), x), x, F(0.0F));
}

template <typename F>
MPE_INLINE F relu6(F x) {
  const F positive = relu(x);
  return choose(less(positive, F(6.0F)), positive, F(6.0F));
}

template <typename F>
MPE_INLINE F leaky(F x) {
  return larger(x * F(0.1F), x);
}

// Those that are not simple; any other counts as kLogistic.
template <typename F>
MPE_INLINE F activate_costly(Activation activation, F x) {
  switch (activation) {
#define ACTIVATION(kind, word, function) \
  case Activation::k##kind:              \
    return function(x);
#include "model/activations.def"
    default:
      return logistic(x);
  }
}

template <typename F>
MPE_INLINE F activate(Activation activation, F x) {
  switch (activation) {
    case Activation::kLinear:
      return x;
    case Activation::kLeaky:
      return leaky(x);
    case Activation::kRelu:
      return relu(x);
    case Activation::kRelu6:
      return relu6(x);
    default:
      return activate_costly(activation, x);
  }
}

}  // namespace mpe
