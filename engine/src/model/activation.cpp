#include "model/activation.h"

#include <cstddef>

namespace mpe {
namespace {

constexpr std::string_view kNames[] = {
    "linear", "leaky",     "relu",       "relu6",        "logistic", "tanh",      "mish",
    "swish",  "hard_mish", "hard_swish", "hard_sigmoid", "gelu",     "gelu_tanh", "elu"};

}  // namespace

std::span<const std::string_view> activation_names() { return kNames; }

std::string_view name_of(Activation activation) {
  return kNames[static_cast<std::size_t>(activation)];
}

}  // namespace mpe
