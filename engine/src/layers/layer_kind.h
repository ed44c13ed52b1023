// The identity of each kind of layers in the registry.
#pragma once

#include <cstdint>
#include <string_view>

namespace mpe {

enum class LayerKind : std::uint8_t {
#define LAYER(kind, ...) k##kind,
#include "layers/registry.def"
};

std::string_view name_of(LayerKind kind);  // the full name of its section

}  // namespace mpe
