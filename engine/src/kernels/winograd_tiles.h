// The transforms of Winograd's convolution F(m x m, 3 x 3): an output tile of m x m pixels from an
// input tile of (m + 2) x (m + 2), by (m + 2)^2 products where the plain sum takes 9 m^2. Along
// each of the two directions it is a product of polynomials, evaluated at m + 1 points and at
// infinity, multiplied there, and interpolated (Toom and Cook). Which points decides the rounding
// errors.
//
// With stride 2, the weights' outer taps meet every second pixel and the middle one the others. The
// outer taps are a kernel of two taps with stride 1, for which F(2, 2) takes three products in
// place of four; the middle one takes two. Those two and the first and the last of the three are
// added to the same outputs, so that three sums hold all five products: 25 products where the plain
// sum takes 36, and 9 sums.
//
// Written once over a type `V` that is a number where weights are prepared and a vector in the
// kernels (which has settle(), see generic/winograd.h); internal linkage, as in
// kernels/activation.h.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "inline.h"

namespace mpe {

// For m = kTileOutput. Along each direction there are kInput values of the input and as many of its
// transform; those from kFirstValue[i] to kFirstValue[i + 1] are multiplied and added at position i
// of kPositions.
template <int kTileOutput, int kTileStride, int... kFirst>
struct WinogradSizes {
  // Where it is not 1, transform_output_rescaled() leaves out powers of it: output (i, j) is to be
  // multiplied by kOutputScale^(i + j), which costs nothing where a bias is added.
  static constexpr double kOutputScale = 1.0;
  static constexpr int kOutput = kTileOutput;
  static constexpr int kStride = kTileStride;
  static constexpr int kPositions = sizeof...(kFirst) - 1;
  static constexpr int kFirstValue[kPositions + 1] = {kFirst...};
  static constexpr int kInput = kFirstValue[kPositions];
};

template <int kTileOutput, int kTileStride>
struct WinogradTiles;

// Points 0, 1, -1.
template <>
struct WinogradTiles<2, 1> : WinogradSizes<2, 1, 0, 1, 2, 3, 4> {
  template <typename V>
  static inline __attribute__((always_inline)) void transform_input(const V (&d)[4], V (&t)[4]) {
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[3] - d[1];
  }
  // y[i] = sums along both directions, of the columns that load(column, m) gives one by one.
  template <typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_output(const Load& load,
                                                                     V (&y)[2][2]) {
    V columns[4][2];
    transform_columns(load, columns, std::make_integer_sequence<int, 4>{});
    for (int i = 0; i < 2; ++i) {
      y[i][0] = (columns[0][i] + columns[1][i]) + columns[2][i];
      y[i][1] = (columns[1][i] - columns[2][i]) + columns[3][i];
    }
  }
  template <typename V>
  static inline __attribute__((always_inline)) void transform_weights(const V (&g)[3], V (&t)[4]) {
    const V even = (g[0] + g[2]) * V(0.5F);
    const V odd = g[1] * V(0.5F);
    t[0] = g[0];
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = g[2];
  }

 private:
  template <typename V, typename Load, int... kColumns>
  static inline __attribute__((always_inline)) void transform_columns(
      const Load& load, V (&columns)[4][2], std::integer_sequence<int, kColumns...>) {
    (transform_column<kColumns>(load, columns[kColumns]), ...);
  }
  template <int kColumn, typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_column(const Load& load, V (&y)[2]) {
    V m[4];
    load(std::integral_constant<int, kColumn>{}, m);
    y[0] = (m[0] + m[1]) + m[2];
    y[1] = (m[1] - m[2]) + m[3];
  }
};

// Points 0 and 1 for the outer taps.
template <>
struct WinogradTiles<2, 2> : WinogradSizes<2, 2, 0, 2, 3, 5> {
  template <typename V>
  static inline __attribute__((always_inline)) void transform_input(const V (&d)[5], V (&t)[5]) {
    t[0] = d[0] - d[2];
    t[1] = d[1];
    t[2] = d[2];
    t[3] = d[4] - d[2];
    t[4] = d[3];
  }
  template <typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_output(const Load& load,
                                                                     V (&y)[2][2]) {
    V columns[3][2];
    transform_column<0>(load, columns[0]);
    transform_column<1>(load, columns[1]);
    transform_column<2>(load, columns[2]);
    for (int i = 0; i < 2; ++i) {
      y[i][0] = columns[0][i] + columns[1][i];
      y[i][1] = columns[1][i] + columns[2][i];
    }
  }
  template <typename V>
  static inline __attribute__((always_inline)) void transform_weights(const V (&g)[3], V (&t)[5]) {
    t[0] = g[0];
    t[1] = g[1];
    t[2] = g[0] + g[2];
    t[3] = g[2];
    t[4] = g[1];
  }

 private:
  template <int kColumn, typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_column(const Load& load, V (&y)[2]) {
    V m[3];
    load(std::integral_constant<int, kColumn>{}, m);
    y[0] = m[0] + m[1];
    y[1] = m[1] + m[2];
  }
};

// Points 0, 3/4, -3/4, 3/2, -3/2. Integers would need fewer operations, but lose ten times the
// accuracy, as values far from one meet; with these every constant is exact in half as well.
template <>
struct WinogradTiles<4, 1> : WinogradSizes<4, 1, 0, 1, 2, 3, 4, 5, 6> {
  static constexpr double kOutputScale = 1.5;
  template <typename V>
  static inline __attribute__((always_inline)) void transform_input(const V (&d)[6], V (&t)[6]) {
    constexpr float kProduct = static_cast<float>(kA * kA * kB * kB);
    constexpr float kMinusSum = -static_cast<float>(kA * kA + kB * kB);
    t[0] = multiply_add(multiply_add(d[4], d[2], V(kMinusSum)), d[0], V(kProduct));
    t[5] = multiply_add(multiply_add(d[5], d[3], V(kMinusSum)), d[1], V(kProduct));
    input_pair(d, kA, kB, t[1], t[2]);
    input_pair(d, kB, kA, t[3], t[4]);
  }
  template <typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_output(const Load& load,
                                                                     V (&y)[4][4]) {
    transform_back<false>(load, y);
  }
  template <typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_output_rescaled(const Load& load,
                                                                              V (&y)[4][4]) {
    transform_back<true>(load, y);
  }

 private:
  static constexpr double kA = 0.75;
  static constexpr double kB = kOutputScale;

  // Columns that are used together come together, so that few values are alive.
  template <bool kRescaled, typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_back(const Load& load, V (&y)[4][4]) {
    V first[4];
    V second[4];
    V even[4];
    V odd[4];
    transform_columns<1, 2, kRescaled>(load, first, second);
    for (int i = 0; i < 4; ++i) {
      even[i] = first[i] + second[i];
      odd[i] = first[i] - second[i];
      settle(even[i]);
      settle(odd[i]);
    }
    transform_columns<3, 4, kRescaled>(load, first, second);
    for (int i = 0; i < 4; ++i) {
      const V pairs[4] = {even[i], odd[i], first[i] + second[i], first[i] - second[i]};
      combine<kRescaled>(pairs, y[i]);
      for (int j = 0; j < 4; ++j) settle(y[i][j]);
    }
    transform_columns<0, 5, kRescaled>(load, first, second);
    for (int i = 0; i < 4; ++i) {
      y[i][0] = y[i][0] + first[i];
      y[i][3] = with_infinity<kRescaled>(y[i][3], second[i]);
    }
  }

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

  // Two at a time, so that neither waits for its own results.
  template <int kFirst, int kSecond, bool kRescaled, typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_columns(const Load& load,
                                                                      V (&first)[4],
                                                                      V (&second)[4]) {
    V a[6];
    V b[6];
    load(std::integral_constant<int, kFirst>{}, a);
    load(std::integral_constant<int, kSecond>{}, b);
    transform_column<kRescaled>(a, first);
    transform_column<kRescaled>(b, second);
    for (int i = 0; i < 4; ++i) {
      settle(first[i]);
      settle(second[i]);
    }
  }
  template <bool kRescaled, typename V>
  static inline __attribute__((always_inline)) void transform_column(const V (&m)[6], V (&y)[4]) {
    const V pairs[4] = {m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]};
    combine<kRescaled>(pairs, y);
    y[0] = y[0] + m[0];
    y[3] = with_infinity<kRescaled>(y[3], m[5]);
  }

  // From sums and differences at the pairs of points; zero and infinity take part in y[0] and y[3].
  template <bool kRescaled, typename V>
  static inline __attribute__((always_inline)) void combine(const V (&p)[4], V (&y)[4]) {
    constexpr double kOfA = kRescaled ? kA / kB : kA;
    y[0] = p[0] + p[2];
    y[1] = multiply_add(times_b<kRescaled>(p[3], kB), p[1], V(static_cast<float>(kOfA)));
    y[2] =
        multiply_add(times_b<kRescaled>(p[2], kB * kB), p[0], V(static_cast<float>(kOfA * kOfA)));
    y[3] = multiply_add(times_b<kRescaled>(p[3], kB * kB * kB), p[1],
                        V(static_cast<float>(kOfA * kOfA * kOfA)));
  }
  template <bool kRescaled, typename V>
  static inline __attribute__((always_inline)) V times_b(V x, double power) {
    if constexpr (kRescaled) {
      return x;
    } else {
      return x * V(static_cast<float>(power));
    }
  }
  template <bool kRescaled, typename V>
  static inline __attribute__((always_inline)) V with_infinity(V sum, V at_infinity) {
    if constexpr (kRescaled) {
      return multiply_add(sum, at_infinity, V(static_cast<float>(1.0 / (kB * kB * kB))));
    } else {
      return sum + at_infinity;
    }
  }

  // The product of the polynomial's other factors at a point: the interpolation's divisor.
  static constexpr double kAtZero = kA * kA * kB * kB;
  static constexpr double kAtA = 2 * kA * kA * (kA * kA - kB * kB);
  static constexpr double kAtB = 2 * kB * kB * (kB * kB - kA * kA);

  // The points p and -p, with their divisor.
  template <typename V>
  static inline __attribute__((always_inline)) void weights_pair(const V (&g)[3], double p,
                                                                 double divisor, V& plus,
                                                                 V& minus) {
    const V even = multiply_add(g[0] * V(static_cast<float>(1.0 / divisor)), g[2],
                                V(static_cast<float>(p * p / divisor)));
    const V odd = g[1] * V(static_cast<float>(p / divisor));
    plus = even + odd;
    minus = even - odd;
  }

 public:
  template <typename V>
  static inline __attribute__((always_inline)) void transform_weights(const V (&g)[3], V (&t)[6]) {
    t[0] = g[0] * V(static_cast<float>(1.0 / kAtZero));
    weights_pair(g, kA, kAtA, t[1], t[2]);
    weights_pair(g, kB, kAtB, t[3], t[4]);
    t[5] = g[2];
  }
};

// Points 0, 1/2, -1/2, 1, -1, 5/2: of those that are small multiples of 1/8, some with the smallest
// rounding errors. Those of the outermost outputs are still up to five times as large as by tiles
// of 4x4, too large for weights that are halves. Maps of 13 and 14 pixels, and those that are a
// multiple of 5, take fewer products by these tiles.
template <>
struct WinogradTiles<5, 1> : WinogradSizes<5, 1, 0, 1, 2, 3, 4, 5, 6, 7> {
  template <typename V>
  static inline __attribute__((always_inline)) void transform_input(const V (&d)[7], V (&t)[7]) {
    const V minus_c(-static_cast<float>(kC));
    const V low = both_pairs(d[0], d[2], d[4]);
    const V middle = both_pairs(d[1], d[3], d[5]);
    const V high = both_pairs(d[2], d[4], d[6]);
    t[0] = multiply_add(middle, low, minus_c);
    t[5] = middle;
    t[6] = multiply_add(high, middle, minus_c);
    input_pair(d, kA, kB, t[1], t[2]);
    input_pair(d, kB, kA, t[3], t[4]);
  }
  // As for tiles of 4x4.
  template <typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_output(const Load& load,
                                                                     V (&y)[5][5]) {
    V column[5];
    V even[5];
    V odd[5];
    transform_column<1>(load, even);
    transform_column<2>(load, column);
    for (int i = 0; i < 5; ++i) {
      const V first = even[i];
      even[i] = first + column[i];
      odd[i] = first - column[i];
      settle(even[i]);
      settle(odd[i]);
    }
    V last[5];
    transform_column<3>(load, last);
    transform_column<4>(load, column);
    for (int i = 0; i < 5; ++i) {
      combine_pairs(even[i], odd[i], last[i] + column[i], last[i] - column[i], y[i]);
      for (int j = 0; j < 5; ++j) settle(y[i][j]);
    }
    transform_column<5>(load, column);
    for (int i = 0; i < 5; ++i) {
      add_powers(column[i], y[i]);
      for (int j = 0; j < 5; ++j) settle(y[i][j]);
    }
    transform_column<0>(load, column);
    for (int i = 0; i < 5; ++i) {
      y[i][0] = y[i][0] + column[i];
      settle(y[i][0]);
    }
    transform_column<6>(load, column);
    for (int i = 0; i < 5; ++i) y[i][4] = y[i][4] + column[i];
  }
  template <typename V>
  static inline __attribute__((always_inline)) void transform_weights(const V (&g)[3], V (&t)[7]) {
    t[0] = g[0] * V(static_cast<float>(-1.0 / (kA * kA * kB * kB * kC)));
    weights_pair(g, kA, kB, t[1], t[2]);
    weights_pair(g, kB, kA, t[3], t[4]);
    constexpr double kDivisor = kC * (kC * kC - kA * kA) * (kC * kC - kB * kB);
    const V at_c = multiply_add(g[0] * V(static_cast<float>(1.0 / kDivisor)), g[1],
                                V(static_cast<float>(kC / kDivisor)));
    t[5] = multiply_add(at_c, g[2], V(static_cast<float>(kC * kC / kDivisor)));
    t[6] = g[2];
  }

 private:
  static constexpr double kA = 0.5;
  static constexpr double kB = 1.0;  // its powers are left out
  static constexpr double kC = 2.5;

  // (x^2 - a^2)(x^2 - b^2)
  template <typename V>
  static inline __attribute__((always_inline)) V both_pairs(V d0, V d2, V d4) {
    return multiply_add(multiply_add(d4, d2, V(-static_cast<float>(kA * kA + kB * kB))), d0,
                        V(static_cast<float>(kA * kA * kB * kB)));
  }

  // The points p and -p; `other` is the positive one of the other pair.
  template <typename V>
  static inline __attribute__((always_inline)) void input_pair(const V (&d)[7], double p,
                                                               double other, V& plus, V& minus) {
    const V minus_square(-static_cast<float>(other * other));
    const V minus_c(-static_cast<float>(kC));
    const V low = multiply_add(d[3], d[1], minus_square);
    const V middle = multiply_add(d[4], d[2], minus_square);
    const V high = multiply_add(d[5], d[3], minus_square);
    const V odd = multiply_add(middle, low, minus_c);
    const V even = multiply_add(high, middle, minus_c);
    plus = multiply_add(even, odd, V(static_cast<float>(p)));
    minus = multiply_add(even, odd, V(-static_cast<float>(p)));
  }

  template <int kColumn, typename V, typename Load>
  static inline __attribute__((always_inline)) void transform_column(const Load& load, V (&y)[5]) {
    V m[7];
    load(std::integral_constant<int, kColumn>{}, m);
    combine_pairs(m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4], y);
    add_powers(m[5], y);
    y[0] = y[0] + m[0];
    y[4] = y[4] + m[6];
    for (int i = 0; i < 5; ++i) settle(y[i]);
  }

  // From sums and differences at the points a and -a, and b and -b.
  template <typename V>
  static inline __attribute__((always_inline)) void combine_pairs(V even_a, V odd_a, V even_b,
                                                                  V odd_b, V (&y)[5]) {
    constexpr double kSquare = kA * kA;
    y[0] = even_a + even_b;
    y[1] = multiply_add(odd_b, odd_a, V(static_cast<float>(kA)));
    y[2] = multiply_add(even_b, even_a, V(static_cast<float>(kSquare)));
    y[3] = multiply_add(odd_b, odd_a, V(static_cast<float>(kSquare * kA)));
    y[4] = multiply_add(even_b, even_a, V(static_cast<float>(kSquare * kSquare)));
  }

  // The point c.
  template <typename V>
  static inline __attribute__((always_inline)) void add_powers(V at_c, V (&y)[5]) {
    constexpr double kSquare = kC * kC;
    y[0] = y[0] + at_c;
    y[1] = multiply_add(y[1], at_c, V(static_cast<float>(kC)));
    y[2] = multiply_add(y[2], at_c, V(static_cast<float>(kSquare)));
    y[3] = multiply_add(y[3], at_c, V(static_cast<float>(kSquare * kC)));
    y[4] = multiply_add(y[4], at_c, V(static_cast<float>(kSquare * kSquare)));
  }

  // The points p and -p, over the product of the polynomial's other factors at each.
  template <typename V>
  static inline __attribute__((always_inline)) void weights_pair(const V (&g)[3], double p,
                                                                 double other, V& plus, V& minus) {
    const double both = 2 * p * p * (p * p - other * other);
    const double at_plus = 1.0 / (both * (p - kC));
    const double at_minus = -1.0 / (both * (p + kC));
    const V even = multiply_add(g[0] * V(static_cast<float>(at_plus)), g[2],
                                V(static_cast<float>(p * p * at_plus)));
    plus = multiply_add(even, g[1], V(static_cast<float>(p * at_plus)));
    minus = multiply_add(even * V(static_cast<float>(at_minus / at_plus)), g[1],
                         V(static_cast<float>(-p * at_minus)));
  }
};

// What the code around the transforms knows of them.
struct WinogradForm {
  int index;  // in the kernels' tables
  int tile;   // outputs of a tile, along each direction, as the following four
  int stride;
  int input;
  int positions;
  int step;  // input pixels from tile to tile
  // In both directions: the values of the transformed tile from first_values[p] on are added at
  // position p.
  std::array<int, 50> first_values;

  constexpr int all_values() const { return input * input; }
  // Whole squares of 2x2 outputs.
  constexpr bool pools() const { return tile % 2 == 0; }
  constexpr int all_positions() const { return positions * positions; }
  // Values that are added at a position.
  constexpr int values_at(int position) const {
    const auto i = static_cast<std::size_t>(position);
    return first_values[i + 1] - first_values[i];
  }
  // The most of any position: the first has as many as any other.
  constexpr int most_values() const { return values_at(0); }
};

template <typename Tiles>
constexpr WinogradForm winograd_form(int index) {
  WinogradForm form = {index,
                       Tiles::kOutput,
                       Tiles::kStride,
                       Tiles::kInput,
                       Tiles::kPositions,
                       Tiles::kOutput * Tiles::kStride,
                       {}};
  int value = 0;
  for (int i = 0; i < Tiles::kPositions; ++i) {
    for (int j = 0; j < Tiles::kPositions; ++j) {
      form.first_values[static_cast<std::size_t>(i * Tiles::kPositions + j)] = value;
      value += (Tiles::kFirstValue[i + 1] - Tiles::kFirstValue[i]) *
               (Tiles::kFirstValue[j + 1] - Tiles::kFirstValue[j]);
    }
  }
  form.first_values[static_cast<std::size_t>(form.all_positions())] = value;
  return form;
}

// Value (a, b) of the transformed tile: its position, and its place among that position's values.
struct WinogradValue {
  int position;
  int place;
};
template <typename Tiles>
constexpr WinogradValue winograd_value(int a, int b) {
  int i = 0;
  int j = 0;
  while (Tiles::kFirstValue[i + 1] <= a) ++i;
  while (Tiles::kFirstValue[j + 1] <= b) ++j;
  const int across = Tiles::kFirstValue[j + 1] - Tiles::kFirstValue[j];
  return {i * Tiles::kPositions + j,
          (a - Tiles::kFirstValue[i]) * across + b - Tiles::kFirstValue[j]};
}

inline constexpr WinogradForm kWinogradForms[] = {
    winograd_form<WinogradTiles<2, 1>>(0), winograd_form<WinogradTiles<4, 1>>(1),
    winograd_form<WinogradTiles<2, 2>>(2), winograd_form<WinogradTiles<5, 1>>(3)};
inline constexpr int kWinogradFormCount = 4;

}  // namespace mpe
