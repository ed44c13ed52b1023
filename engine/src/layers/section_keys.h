// Keys that several kinds of layers read from their sections. All throw mpe::Error, naming the
// line, at a value that does not fit.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "model/cfg_file.h"
#include "model/network.h"

namespace mpe {

// activation=; `absent` is the word that a section without the key stands for.
Activation read_activation(const CfgSection& section, std::string_view absent);

// fp32=, fp16=, int8= and quantize=.
void read_precision(const CfgSection& section, Layer& layer);

// The layers that `key` names, which it must, as indices: by index, from the layer back if
// negative, or by name. `network` holds those that come before.
std::vector<int> read_references(const CfgSection& section, std::string_view key,
                                 const Network& network);

// channels=, height= and width=, which must all be there.
Shape read_shape(const CfgSection& section);

// axis=, or axes=: channels, height, width.
Axis read_axis(const CfgSection& section, std::string_view absent);
std::vector<Axis> read_axes(const CfgSection& section);

// The index of the key's word among `words`. Throws mpe::Error that lists them.
std::size_t read_choice(const CfgSection& section, std::string_view key, std::string_view absent,
                        std::span<const std::string_view> words);

// Refuses keys that would change the result and that this engine does not support.
void refuse(const CfgSection& section, std::initializer_list<std::string_view> keys);

}  // namespace mpe
