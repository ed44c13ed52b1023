// The functions that a layer may apply to its output. Their values: kernels/activation.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mpe {

enum class Activation : std::uint8_t {
#define SIMPLE_ACTIVATION(kind, word) k##kind,
#define ACTIVATION(kind, word, function) k##kind,
#include "model/activations.def"
};

constexpr bool is_simple(Activation activation) {
  switch (activation) {
#define SIMPLE_ACTIVATION(kind, word) case Activation::k##kind:
#include "model/activations.def"
    return true;
    default:
      return false;
  }
}

// The words of a cfg, in the order of Activation.
std::span<const std::string_view> activation_names();

std::string_view name_of(Activation activation);

}  // namespace mpe
