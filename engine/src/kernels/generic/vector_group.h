// Several vectors as one value for kernels/activation.h: each operation is that of all vectors,
// side by side, so that no vector waits for its own results. kForHalf: the result is stored as
// half.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/generic/unroll.h"

namespace mpe {
namespace {

template <typename Vector, int kCount, bool kForHalf = false>
struct Group {
  Vector vectors[kCount];

  Group() = default;
  explicit Group(float scalar) {
    unroll<kCount>([&](auto i) MPE_UNROLLED { vectors[i.value] = Vector(scalar); });
  }
};

// function(a, ...) of each vector.
template <typename Vector, int kCount, bool kForHalf, typename Function, typename... Others>
inline __attribute__((always_inline)) Group<Vector, kCount, kForHalf> for_each_vector(
    const Function& function, const Group<Vector, kCount, kForHalf>& a, const Others&... others) {
  Group<Vector, kCount, kForHalf> result;
  unroll<kCount>([&](auto i) MPE_UNROLLED {
    result.vectors[i.value] = function(a.vectors[i.value], others.vectors[i.value]...);
  });
  return result;
}

#define MPE_OF_EACH_VECTOR(name, expression)                                        \
  template <typename V, int kCount, bool kForHalf>                                  \
  inline __attribute__((always_inline)) Group<V, kCount, kForHalf> name(            \
      const Group<V, kCount, kForHalf>& a, const Group<V, kCount, kForHalf>& b) {   \
    return for_each_vector([](V x, V y) MPE_UNROLLED { return expression; }, a, b); \
  }
MPE_OF_EACH_VECTOR(operator+, x + y)
MPE_OF_EACH_VECTOR(operator-, x - y)
MPE_OF_EACH_VECTOR(operator*, x* y)
MPE_OF_EACH_VECTOR(larger, larger(x, y))
MPE_OF_EACH_VECTOR(smaller, smaller(x, y))
MPE_OF_EACH_VECTOR(two_less_product, two_less_product(x, y))
#undef MPE_OF_EACH_VECTOR

template <typename V, int kCount, bool kForHalf>
inline __attribute__((always_inline)) Group<V, kCount, kForHalf> multiply_add(
    const Group<V, kCount, kForHalf>& sum, const Group<V, kCount, kForHalf>& a,
    const Group<V, kCount, kForHalf>& b) {
  return for_each_vector([](V s, V x, V y) MPE_UNROLLED { return multiply_add(s, x, y); }, sum, a,
                         b);
}
template <typename V, int kCount, bool kForHalf>
inline __attribute__((always_inline)) Group<V, kCount, kForHalf> multiply_subtract(
    const Group<V, kCount, kForHalf>& sum, const Group<V, kCount, kForHalf>& a,
    const Group<V, kCount, kForHalf>& b) {
  return for_each_vector([](V s, V x, V y) MPE_UNROLLED { return multiply_subtract(s, x, y); }, sum,
                         a, b);
}
template <typename V, int kCount, bool kForHalf>
inline __attribute__((always_inline)) Group<V, kCount, kForHalf> shift_into_exponent(
    const Group<V, kCount, kForHalf>& a) {
  return for_each_vector([](V x) MPE_UNROLLED { return shift_into_exponent(x); }, a);
}
template <typename V, int kCount, bool kForHalf>
inline __attribute__((always_inline)) Group<V, kCount, kForHalf> subtract_bits(
    std::uint32_t bits, const Group<V, kCount, kForHalf>& a) {
  return for_each_vector([bits](V x) MPE_UNROLLED { return subtract_bits(bits, x); }, a);
}

}  // namespace

template <typename Vector, int kCount>
inline constexpr bool kIsForHalf<Group<Vector, kCount, true>> = true;

}  // namespace mpe
