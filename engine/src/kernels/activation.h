// Activation functions with the same bits on every machine: nothing but single IEEE binary32
// operations in a fixed order (no libm, no contraction), written once over a type `F` that is
// `float` in the plain loops and a vector of floats in the kernels.
//
// A vector type offers F(float) as a broadcast, + - * /, and these functions, found by argument
// dependent lookup: larger(a, b), NaN if both are, less(a, b) -> mask, choose(mask, if_true,
// if_false), power_of_two(n) for integral n in [-126, 127].
//
// Everything here has internal linkage and is always inlined: this header is compiled for several
// instruction sets in one program, and the linker must not mix the copies.
#pragma once

#include <cstdint>

#include "inline.h"
#include "model/activation.h"

namespace mpe {

MPE_INLINE bool less(float a, float b) { return a < b; }
MPE_INLINE float choose(bool mask, float if_true, float if_false) {
  return mask ? if_true : if_false;
}
MPE_INLINE float larger(float a, float b) { return a > b ? a : b; }
MPE_INLINE float power_of_two(float n) {
  const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) * (1 << 23);
  return __builtin_bit_cast(float, bits);
}

// e^x to 1e-7 relative; x is limited to [-87, 87], where the result is a normal number. NaN stays.
template <typename F>
MPE_INLINE F exponential(F x) {
  x = choose(less(x, F(-87.0F)), F(-87.0F), x);
  x = choose(less(F(87.0F), x), F(87.0F), x);
  // x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer; ln 2 comes in two
  // parts, the first of which has so few bits that n times it is exact.
  const F magic(12582912.0F);
  const F nearest = (x * F(1.44269504F) + magic) - magic;
  // A NaN must not reach the conversion to integer inside power_of_two.
  const F n = choose(less(nearest, F(128.0F)), nearest, F(0.0F));
  const F r = (x - n * F(0.693359375F)) - n * F(-2.12194440e-4F);
  // Minimax for (e^r - 1 - r) / r^2.
  F p(0.00139504799F);
  p = p * r + F(0.00836888887F);
  p = p * r + F(0.041666206F);
  p = p * r + F(0.166665182F);
  p = p * r + F(0.5F);
  return ((p * (r * r) + r) + F(1.0F)) * power_of_two(n);
}

template <typename F>
MPE_INLINE F logistic(F x) {
  return F(1.0F) / (F(1.0F) + exponential(F(0.0F) - x));
}

template <typename F>
MPE_INLINE F hyperbolic_tangent(F x) {
  const F magnitude = choose(less(x, F(0.0F)), F(0.0F) - x, x);
  // Minimax for (tanh(x) - x) / x^3 as a polynomial in x^2, on |x| < 0.625.
  const F square = x * x;
  F p(-0.00570419291F);
  p = p * square + F(0.0206384007F);
  p = p * square + F(-0.0537395142F);
  p = p * square + F(0.133314401F);
  p = p * square + F(-0.333332807F);
  const F near_zero = (p * square) * x + x;
  const F limited = choose(less(F(10.0F), magnitude), F(10.0F), magnitude);
  const F far = F(1.0F) - F(2.0F) / (exponential(limited + limited) + F(1.0F));
  const F signed_far = choose(less(x, F(0.0F)), F(0.0F) - far, far);
  return choose(less(magnitude, F(0.625F)), near_zero, signed_far);
}

// x tanh(ln(1 + e^x)). With e = e^x the hyperbolic tangent is e (e + 2) / (e (e + 2) + 2), which
// keeps its relative accuracy on both sides and is 1 in float from x = 20 on.
template <typename F>
MPE_INLINE F mish(F x) {
  const F e = exponential(choose(less(F(20.0F), x), F(20.0F), x));
  const F n = e * (e + F(2.0F));
  return x * (n / (n + F(2.0F)));
}

template <typename F>
MPE_INLINE F swish(F x) {
  return x * logistic(x);
}

// 0 below -2, then x^2 / 2 + x up to 0, then x.
template <typename F>
MPE_INLINE F hard_mish(F x) {
  const F curve = (x * x) * F(0.5F) + x;
  return choose(less(F(0.0F), x), x, choose(less(F(-2.0F), x), curve, F(0.0F)));
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
    case Activation::kLogistic:
      return logistic(x);
    case Activation::kTanh:
      return hyperbolic_tangent(x);
    case Activation::kMish:
      return mish(x);
    case Activation::kSwish:
      return swish(x);
    case Activation::kHardMish:
      return hard_mish(x);
  }
  return x;
}

}  // namespace mpe
