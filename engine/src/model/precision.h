// The precisions in which tensors are stored and layers compute.
#pragma once

#include <cstdint>
#include <string_view>

namespace mpe {

enum class Precision : std::uint8_t { kFp32, kFp16, kInt8 };

std::string_view name_of(Precision precision);  // "fp32", "fp16", "int8"

}  // namespace mpe
