// All kinds of layers. Each is defined in its own file of layers/ and listed in registry.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "layers/layer_kind.h"
#include "model/cfg_file.h"
#include "model/network.h"

namespace mpe {

// The loops of a kind without weights, as `mpe caps` reports them.
enum class Loops : std::uint8_t {
  kNone,     // nothing
  kPlain,    // plain loops, but for conversions of int8
  kVectors,  // the vector code of kernels/elementwise.h
};

// The inputs that a section of a kind may name.
enum class InputsRule : std::uint8_t {
  kOne,   // by from=
  kMany,  // by from=, one or more
  kOwn,   // read() reads keys of the kind's own
  kNone,
};

struct LayerType {
  // Reads a section into `layer`, whose kind, index, line and inputs are set. Its output has the
  // first input's shape, unless the kind sets another. `network` holds the layers before it. Throws
  // mpe::Error, naming the line, at a value that does not fit.
  void (*read)(const CfgSection& section, const Network& network, Layer& layer);
  Loops loops = Loops::kNone;
  InputsRule inputs = InputsRule::kOne;
};

#define LAYER(kind, ...) extern const LayerType k##kind##Layer;
#include "layers/registry.def"

std::vector<LayerKind> layer_kinds();
const LayerType& type_of(LayerKind kind);

// The keys that sections of a kind may have beside those of all.
std::vector<std::string_view> keys_of(LayerKind kind);

// All names of sections: the full ones, then Darknet's short ones.
std::vector<std::string_view> section_names();
std::optional<LayerKind> find_kind(std::string_view section_name);

}  // namespace mpe
