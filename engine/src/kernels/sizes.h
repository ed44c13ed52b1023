// Small sums over sizes that every algorithm needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "error.h"
#include "kernels/kernel_set.h"

namespace mpe {

template <typename T>
constexpr T divide_up(T value, T step) {
  return (value + step - 1) / step;
}

// For sizes and offsets that kernels count in int. Throws mpe::Error where they do not fit.
inline int to_int(std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    throw Error("a convolution needs a buffer of " + std::to_string(value) +
                " values, more than this engine can address");
  }
  return static_cast<int>(value);
}

constexpr std::size_t weight_size(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFloat:
      return sizeof(float);
    case WeightFormat::kInt8:
      return sizeof(std::int8_t);
    default:
      return sizeof(std::int16_t);
  }
}

constexpr std::size_t value_size(Precision precision) {
  return precision == Precision::kFp32 ? 4 : precision == Precision::kFp16 ? 2 : 1;
}

}  // namespace mpe
