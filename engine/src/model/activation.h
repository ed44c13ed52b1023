// The functions that a layer may apply to its output. Their values: kernels/activation.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mpe {

enum class Activation : std::uint8_t {
  kLinear,
  kLeaky,  // slope 0.1 below zero
  kRelu,
  kRelu6,
  kLogistic,
  kTanh,
  kMish,
  kSwish,
  kHardMish,
  kHardSwish,
  kHardSigmoid,  // slope 1/6
  kGelu,         // by the error function
  kGeluTanh,     // its approximation by a hyperbolic tangent
  kElu,          // slope 1 at zero
};

// The words of a cfg, in the order of Activation.
std::span<const std::string_view> activation_names();

std::string_view name_of(Activation activation);

}  // namespace mpe
