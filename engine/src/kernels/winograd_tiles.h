// The transforms of Winograd's convolution F(m x m, 3 x 3): an output tile of m x m pixels from an
// input tile of (m + 2) x (m + 2), by (m + 2)^2 products where the plain sum takes 9 m^2. Along
// each of the two directions it is a product of polynomials, evaluated at m + 1 points and at
// infinity, multiplied there, and interpolated (Toom and Cook). Which points decides the rounding
// errors.
//
// Written once over a type `V` that is double where weights are prepared and a vector in the
// kernels; internal linkage, as in kernels/activation.h.
#pragma once

#include "inline.h"

namespace mpe {

template <int kOutput>
struct WinogradTiles;

// Points 0, 1, -1.
template <>
struct WinogradTiles<2> {
  static constexpr int kOutput = 2;
  static constexpr int kInput = 4;

  template <typename V>
  static inline __attribute__((always_inline)) void transform_input(const V (&d)[4], V (&t)[4]) {
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[3] - d[1];
  }
  template <typename V>
  static inline __attribute__((always_inline)) void transform_output(const V (&m)[4], V (&y)[2]) {
    y[0] = (m[0] + m[1]) + m[2];
    y[1] = (m[1] - m[2]) + m[3];
  }
  static constexpr double kWeights[4][3] = {
      {1.0, 0.0, 0.0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0.0, 0.0, 1.0}};
};

// Points 0, 3/4, -3/4, 3/2, -3/2. Integers would need fewer operations, but lose ten times the
// accuracy, as values far from one meet; with these every constant is exact in half as well.
template <>
struct WinogradTiles<4> {
  static constexpr int kOutput = 4;
  static constexpr int kInput = 6;

  template <typename V>
  static inline __attribute__((always_inline)) void transform_input(const V (&d)[6], V (&t)[6]) {
    constexpr float kProduct = static_cast<float>(kA * kA * kB * kB);
    constexpr float kMinusSum = -static_cast<float>(kA * kA + kB * kB);
    t[0] = multiply_add(multiply_add(d[4], d[2], V(kMinusSum)), d[0], V(kProduct));
    t[5] = multiply_add(multiply_add(d[5], d[3], V(kMinusSum)), d[1], V(kProduct));
    input_pair(d, kA, kB, t[1], t[2]);
    input_pair(d, kB, kA, t[3], t[4]);
  }
  template <typename V>
  static inline __attribute__((always_inline)) void transform_output(const V (&m)[6], V (&y)[4]) {
    const V even_a = m[1] + m[2];
    const V odd_a = m[1] - m[2];
    const V even_b = m[3] + m[4];
    const V odd_b = m[3] - m[4];
    y[0] = (m[0] + even_a) + even_b;
    y[1] = multiply_add(odd_b * V(static_cast<float>(kB)), odd_a, V(static_cast<float>(kA)));
    y[2] = multiply_add(even_b * V(static_cast<float>(kB * kB)), even_a,
                        V(static_cast<float>(kA * kA)));
    y[3] = multiply_add(multiply_add(m[5], odd_b, V(static_cast<float>(kB * kB * kB))), odd_a,
                        V(static_cast<float>(kA * kA * kA)));
  }

 private:
  static constexpr double kA = 0.75;
  static constexpr double kB = 1.5;

  // The points p and -p; `other` is the positive one of the other pair.
  template <typename V>
  static inline __attribute__((always_inline)) void input_pair(const V (&d)[6], double p,
                                                               double other, V& plus, V& minus) {
    const V minus_square(-static_cast<float>(other * other));
    const V even = multiply_add(d[4], d[2], minus_square);
    const V odd = multiply_add(d[3], d[1], minus_square);
    plus = multiply_add(even, odd, V(static_cast<float>(p)));
    minus = multiply_add(even, odd, V(-static_cast<float>(p)));
  }

  // What the polynomial's other factors are worth at a point: the interpolation's divisor.
  static constexpr double kAtZero = kA * kA * kB * kB;
  static constexpr double kAtA = 2 * kA * kA * (kA * kA - kB * kB);
  static constexpr double kAtB = 2 * kB * kB * (kB * kB - kA * kA);

 public:
  static constexpr double kWeights[6][3] = {{1 / kAtZero, 0.0, 0.0},
                                            {1 / kAtA, kA / kAtA, kA * kA / kAtA},
                                            {1 / kAtA, -kA / kAtA, kA * kA / kAtA},
                                            {1 / kAtB, kB / kAtB, kB * kB / kAtB},
                                            {1 / kAtB, -kB / kAtB, kB * kB / kAtB},
                                            {0.0, 0.0, 1.0}};
};

}  // namespace mpe
