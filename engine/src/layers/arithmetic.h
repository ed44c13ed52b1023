// Arithmetic of two or more maps, value by value. An axis of size 1 is repeated, as in NumPy.
#pragma once

#include <cstdint>

#include "layers/operation.h"

namespace mpe {

enum class Arithmetic : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kMinimum, kMaximum };

inline float compute(Arithmetic operation, float a, float b) {
  switch (operation) {
    case Arithmetic::kAdd:
      return a + b;
    case Arithmetic::kSubtract:
      return a - b;
    case Arithmetic::kMultiply:
      return a * b;
    case Arithmetic::kDivide:
      return a / b;
    case Arithmetic::kMinimum:
      return b < a ? b : a;
    case Arithmetic::kMaximum:
      return b > a ? b : a;
  }
  return a;
}

void reference_arithmetic(Arithmetic operation, const LayerCall& call);

}  // namespace mpe
