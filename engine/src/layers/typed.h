// Loops that only move values are written once over the type that a tensor holds.
#pragma once

#include "half.h"
#include "quant/convert.h"

namespace mpe {

// Calls body(const T* input, T* output) for the precision that both tensors share.
template <typename Body>
void with_typed(const TensorView& input, const MutableTensorView& output, Body&& body) {
  switch (input.precision) {
    case Precision::kFp32:
      return body(static_cast<const float*>(input.data), static_cast<float*>(output.data));
    case Precision::kFp16:
      return body(static_cast<const Half*>(input.data), static_cast<Half*>(output.data));
    case Precision::kInt8:
      return body(static_cast<const std::int8_t*>(input.data),
                  static_cast<std::int8_t*>(output.data));
    case Precision::kInt16:
      return;  // the input of a convolution alone, which no layer stores
  }
}

}  // namespace mpe
