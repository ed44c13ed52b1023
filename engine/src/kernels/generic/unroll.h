// Loops that must be unrolled completely, so that arrays of vectors stay in registers.
#pragma once

#include <utility>

namespace mpe {
namespace {

template <int kIndex>
struct Index {
  static constexpr int value = kIndex;
};

// Calls body(Index<0>{}), ..., body(Index<kCount - 1>{}). Eight calls in one function: compilers
// spend most of their time on the functions that they inline.
template <int kCount, int kFirst = 0, typename Body>
__attribute__((always_inline)) inline void unroll(const Body& body) {
  if constexpr (kFirst < kCount) body(Index<kFirst>{});
  if constexpr (kFirst + 1 < kCount) body(Index<kFirst + 1>{});
  if constexpr (kFirst + 2 < kCount) body(Index<kFirst + 2>{});
  if constexpr (kFirst + 3 < kCount) body(Index<kFirst + 3>{});
  if constexpr (kFirst + 4 < kCount) body(Index<kFirst + 4>{});
  if constexpr (kFirst + 5 < kCount) body(Index<kFirst + 5>{});
  if constexpr (kFirst + 6 < kCount) body(Index<kFirst + 6>{});
  if constexpr (kFirst + 7 < kCount) body(Index<kFirst + 7>{});
  if constexpr (kFirst + 8 < kCount) unroll<kCount, kFirst + 8>(body);
}

template <int kColumns, typename Body, int... kPlaces>
__attribute__((always_inline)) inline void unroll_places(const Body& body,
                                                         std::integer_sequence<int, kPlaces...>) {
  (body(Index<kPlaces / kColumns>{}, Index<kPlaces % kColumns>{}), ...);
}

// Calls body(row, column) for every place, row by row, with no function for each row.
template <int kRows, int kColumns, typename Body>
__attribute__((always_inline)) inline void unroll_grid(const Body& body) {
  unroll_places<kColumns>(body, std::make_integer_sequence<int, kRows * kColumns>{});
}

}  // namespace
}  // namespace mpe

// The body of a lambda handed to these, inlined wherever it is called.
#define MPE_UNROLLED __attribute__((always_inline))
