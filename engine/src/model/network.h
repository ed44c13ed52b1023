// A network as the cfg describes it: layers with resolved inputs and shapes, no weights.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/layer_kind.h"
#include "layers/rules.h"
#include "model/activation.h"
#include "model/input_values.h"
#include "model/precision.h"
#include "model/shape.h"

namespace mpe {

// Input index of a layer that reads the network's own input.
inline constexpr int kNetworkInput = -1;

class Operation;

// What all kinds of layers have.
struct Layer {
  LayerKind kind = LayerKind::kConvolutional;
  int index = 0;     // position in the cfg, counted from 0 after [net], as Darknet does
  int line = 0;      // line of the section's header in the cfg
  std::string name;  // empty: none
  // Producing layers, kNetworkInput for the network's input; empty for a constant. shortcut: the
  // preceding layer, then the `from` layers; scale_channels: the factors (the preceding layer),
  // then the map they scale.
  std::vector<int> inputs;
  Shape in;  // of inputs[0]; of a constant, its own
  Shape out;
  LayerRules rules;
  std::shared_ptr<const Operation> operation;  // computes the output
  Activation activation = Activation::kLinear;

  // Of layers with filters.
  Precision precision = Precision::kFp32;  // as the cfg asks
  bool quantize = false;                   // convert the input with the range measured at run time
  bool batch_normalize = false;
  std::int64_t sum_terms = 0;  // weights of one output channel, which its sums multiply

  std::int64_t macs = 0;        // multiply-adds for one image
  std::int64_t parameters = 0;  // floats this layer takes from the weights file

  bool has_filters() const {
    return rules.weights == WeightsRule::kConvolutional || rules.weights == WeightsRule::kConnected;
  }
};

struct Network {
  std::string file;  // the cfg's name, for messages
  Shape input;       // of [net]; there may be more
  InputValues input_values;
  std::vector<Layer> layers;
  std::vector<int> outputs;                       // as [net] names them; empty: see find_heads()
  std::map<std::string, int, std::less<>> names;  // of layers and, as kNetworkInput, the input
  std::vector<std::string> warnings;              // unknown keys and the like, one sentence each

  // The values of the caller: those of [net]'s input, then those of each section [input].
  std::vector<int> inputs() const;      // kNetworkInput, then layers
  std::int64_t input_elements() const;  // of all inputs together
  // The place of an input among these values; nothing for what a layer computes.
  std::optional<std::int64_t> input_begin(int tensor) const;

  const Shape& output_shape(int layer) const {
    return layer == kNetworkInput ? input : layers[static_cast<std::size_t>(layer)].out;
  }
};

// Builds the network from a cfg's text. `file` is only used in messages. Sections and keys are
// Darknet's, beside the precision keys fp32, fp16, int8 and quantize. Throws mpe::Error.
Network parse_network(std::string_view text, std::string_view file);

// Reads and parses a cfg file. Throws mpe::Error.
Network load_network(const std::string& path);

}  // namespace mpe
