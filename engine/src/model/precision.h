// The precisions in which tensors are stored and layers compute.
//
//            activations  weights  sums
//   fp32     float        float    float
//   fp16     half         half     half, where the instruction set adds in half, else float
//   int8     int8         int8     int32
//   int16    int16        int8     int64: TensorFlow Lite's 16x8. Only inputs of layers with
//   weights
//                                  are stored so; such layers write float.
#pragma once

#include <cstdint>
#include <string_view>

namespace mpe {

enum class Precision : std::uint8_t { kFp32, kFp16, kInt8, kInt16 };

// Whether its numbers need a scale.
constexpr bool is_quantised(Precision precision) {
  return precision == Precision::kInt8 || precision == Precision::kInt16;
}

std::string_view name_of(Precision precision);  // "fp32", "fp16", "int8", "int16"

}  // namespace mpe
