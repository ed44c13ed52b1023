#include "model/activation.h"

#include <cstddef>

namespace mpe {
namespace {

constexpr std::string_view kNames[] = {
#define SIMPLE_ACTIVATION(kind, word) word,
#define ACTIVATION(kind, word, function) word,
#include "model/activations.def"
};

}  // namespace

std::span<const std::string_view> activation_names() { return kNames; }

std::string_view name_of(Activation activation) {
  return kNames[static_cast<std::size_t>(activation)];
}

}  // namespace mpe
