// Loops that must be unrolled completely, so that arrays of vectors stay in registers.
#pragma once

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

// Calls body(row, column) for every place, row by row.
template <int kRows, int kColumns, int kFirst = 0, typename Body>
__attribute__((always_inline)) inline void unroll_grid(const Body& body) {
  constexpr int kCount = kRows * kColumns;
  if constexpr (kFirst < kCount) body(Index<kFirst / kColumns>{}, Index<kFirst % kColumns>{});
  if constexpr (kFirst + 1 < kCount)
    body(Index<(kFirst + 1) / kColumns>{}, Index<(kFirst + 1) % kColumns>{});
  if constexpr (kFirst + 2 < kCount)
    body(Index<(kFirst + 2) / kColumns>{}, Index<(kFirst + 2) % kColumns>{});
  if constexpr (kFirst + 3 < kCount)
    body(Index<(kFirst + 3) / kColumns>{}, Index<(kFirst + 3) % kColumns>{});
  if constexpr (kFirst + 4 < kCount)
    body(Index<(kFirst + 4) / kColumns>{}, Index<(kFirst + 4) % kColumns>{});
  if constexpr (kFirst + 5 < kCount)
    body(Index<(kFirst + 5) / kColumns>{}, Index<(kFirst + 5) % kColumns>{});
  if constexpr (kFirst + 6 < kCount)
    body(Index<(kFirst + 6) / kColumns>{}, Index<(kFirst + 6) % kColumns>{});
  if constexpr (kFirst + 7 < kCount)
    body(Index<(kFirst + 7) / kColumns>{}, Index<(kFirst + 7) % kColumns>{});
  if constexpr (kFirst + 8 < kCount) unroll_grid<kRows, kColumns, kFirst + 8>(body);
}

}  // namespace
}  // namespace mpe

// The body of a lambda handed to unroll(), inlined wherever it is called.
#define MPE_UNROLLED __attribute__((always_inline))
