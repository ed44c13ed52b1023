// Numbers that vectors are multiplied by, each all lanes of one. Sets that multiply by a lane of
// another vector keep the numbers in vectors, which are read whole: so much must be there.
#pragma once

namespace mpe {
namespace {

template <typename Vector, int kCount>
struct Factors {
  const typename Vector::Value* from;

  explicit Factors(const typename Vector::Value* numbers) : from(numbers) {}
  template <int kIndex>
  Vector times(Vector x) const {
    return x * Vector(from[kIndex]);
  }
  template <int kIndex>
  Vector add_product(Vector sum, Vector x) const {
    return multiply_add(sum, x, Vector(from[kIndex]));
  }
};

}  // namespace
}  // namespace mpe
