// Loops that must be unrolled completely, so that arrays of vectors stay in registers.
#pragma once

#include <utility>

namespace mpe {
namespace {

template <int kIndex>
struct Index {
  static constexpr int value = kIndex;
};

template <typename Body, int... kIndices>
__attribute__((always_inline)) inline void unroll_over(const Body& body,
                                                       std::integer_sequence<int, kIndices...>) {
  (body(Index<kIndices>{}), ...);
}

// Calls body(Index<0>{}), ..., body(Index<kCount - 1>{}).
template <int kCount, typename Body>
__attribute__((always_inline)) inline void unroll(const Body& body) {
  unroll_over(body, std::make_integer_sequence<int, kCount>{});
}

}  // namespace
}  // namespace mpe

// The body of a lambda handed to unroll(), inlined wherever it is called.
#define MPE_UNROLLED __attribute__((always_inline))
