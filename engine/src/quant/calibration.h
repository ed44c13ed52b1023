// Ranges of activations that a calibration run has recorded, one entry per tensor:
//
//   {"format": "mpe-calibration", "version": 1, "network": {"layers": 130, "input": [3, 320, 320]},
//    "tensors": [{"layer": -1, "min": 0.0, "max": 1.0,
//                 "channel_min": [...], "channel_max": [...]}, ...]}
//
// `layer` is the producing layer, -1 the network's input; the channel arrays are optional, and keys
// beside these are ignored. A network that was published as quantised has its own steps:
//
//   a tensor   {"layer": 3, "scale": 0.02, "zero_point": -128} in place of min and max
//   weights    "weights": [{"layer": 3, "scales": [0.01, ...]}, ...] beside "tensors", one for each
//              output channel, or one for all
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/network.h"
#include "quant/quantization.h"

namespace mpe {

// What a tensor was seen to hold.
struct TensorRange {
  Range range;
  std::vector<Range> channels;            // one per channel, or empty where they were not recorded
  std::optional<ScaleAndZero> step = {};  // as published; otherwise it follows from the range
};

class Calibration {
 public:
  // Nothing recorded, for a network of so many layers.
  explicit Calibration(std::size_t layers = 0) : tensors_(layers + 1) {}

  // The ranges of a layer's output, or of kNetworkInput; null if they were not recorded.
  const TensorRange* find(int layer) const;
  void record(int layer, TensorRange ranges);

  // The published steps of a layer's weights, one for each output channel; empty if there are none.
  std::span<const float> weight_scales(int layer) const;
  void record_weights(int layer, std::vector<float> scales);

 private:
  std::vector<std::optional<TensorRange>> tensors_;  // [layer + 1]
  std::map<int, std::vector<float>> weight_scales_;
};

// Throws mpe::Error, with the offset, if the text is no calibration or does not fit the network.
// `name` is used in messages.
Calibration parse_calibration(std::string_view text, std::string_view name, const Network& network);

Calibration load_calibration(const std::string& path, const Network& network);

}  // namespace mpe
