#include "plan/precision.h"

#include <algorithm>
#include <string>
#include <utility>

#include "error.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

constexpr int kNone = -2;

std::string describe(const Layer& layer) {
  return "layer " + std::to_string(layer.index) + " (" + std::string(name_of(layer.kind)) + ")";
}

// Layers that only copy values from their inputs to their output.
bool only_moves(const Layer& layer) { return layer.rules.precision == PrecisionRule::kKeeps; }

// Layers that compute or combine, and can write int8 in a calibrated range.
bool can_requantize(const Layer& layer) {
  return layer.rules.precision == PrecisionRule::kRequantizes ||
         layer.rules.precision == PrecisionRule::kJoins;
}

Quantization quantization_of_tensor(Range range) {
  const ScaleAndZero step = quantization_of(range);
  return {{step.scale}, {step.zero_point}};
}

Quantization quantization_of_channels(const std::vector<Range>& ranges) {
  Quantization result;
  for (const Range& range : ranges) {
    const ScaleAndZero step = quantization_of(range);
    result.scale.push_back(step.scale);
    result.zero_point.push_back(step.zero_point);
  }
  return result;
}

class Planner {
 public:
  Planner(const Network& network, const Calibration* calibration)
      : network_(network), calibration_(calibration), consumers_(network.layers.size()) {
    for (const Layer& layer : network.layers) {
      for (const int input : layer.inputs) {
        if (input != kNetworkInput) consumers_[at(input)].push_back(layer.index);
      }
    }
  }

  PrecisionPlan plan() {
    const std::size_t count = network_.layers.size();
    plan_.layers.resize(count);
    choose_executed();
    find_capable();
    find_wanted();
    for (const Layer& layer : network_.layers) format(layer).output.precision = stored(layer);
    find_sinks();
    for (std::size_t i = count; i-- > 0;) quantize_output(network_.layers[i]);
    for (const Layer& layer : network_.layers) {
      if (is_int8(layer.index) && only_moves(layer)) {
        format(layer).output.quantization = format_of(layer.inputs[0]).output.quantization;
      }
      if (!layer.has_filters()) continue;
      convert_input(layer);
      if (calibration_ != nullptr && is_quantised(format(layer).executed)) {
        const std::span<const float> scales = calibration_->weight_scales(layer.index);
        format(layer).weight_scales.assign(scales.begin(), scales.end());
      }
    }
    return std::move(plan_);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  LayerFormat& format(const Layer& layer) { return plan_.layers[at(layer.index)]; }
  const LayerFormat& format_of(int index) const { return plan_.layers[at(index)]; }
  const Layer& layer_at(int index) const { return network_.layers[at(index)]; }
  bool is_int8(int tensor) const {
    return tensor != kNetworkInput && format_of(tensor).output.precision == Precision::kInt8;
  }
  Precision stored_at(int tensor) const {
    return tensor == kNetworkInput ? Precision::kFp32 : format_of(tensor).output.precision;
  }
  // A constant is there in float for layers of any precision.
  bool is_constant(int tensor) const {
    return tensor != kNetworkInput && layer_at(tensor).rules.memory == MemoryRule::kConstant;
  }
  bool runs_int8(const Layer& layer) const {
    return layer.has_filters() && format_of(layer.index).executed == Precision::kInt8;
  }
  const TensorRange* range_of(int tensor) const {
    return calibration_ == nullptr ? nullptr : calibration_->find(tensor);
  }
  // The ranges of a tensor's channels, or of the whole of it where they are not known or of no use.
  Quantization calibrated(int tensor, bool by_channel) const {
    const TensorRange& recorded = *range_of(tensor);
    if (recorded.step) return {{recorded.step->scale}, {recorded.step->zero_point}};
    if (by_channel && !recorded.channels.empty())
      return quantization_of_channels(recorded.channels);
    return quantization_of_tensor(recorded.range);
  }

  void choose_executed() {
    for (const Layer& layer : network_.layers) {
      if (!layer.has_filters()) continue;
      format(layer).executed = layer.precision;
      if (layer.precision == Precision::kInt8 && layer.sum_terms > kMaxInt8Depth) {
        format(layer).executed = Precision::kFp32;
        plan_.warnings.push_back(describe(layer) + " runs in fp32: its sums have " +
                                 std::to_string(layer.sum_terms) +
                                 " terms, which int32 cannot hold beyond " +
                                 std::to_string(kMaxInt8Depth) + "; ask for fp16 or fp32");
      }
    }
  }

  // Which tensors could be stored as int8.
  void find_capable() {
    capable_.resize(network_.layers.size());
    for (const Layer& layer : network_.layers) {
      bool inputs = true;
      for (const int input : layer.inputs) {
        if (is_constant(input)) continue;
        inputs = inputs && input != kNetworkInput && capable_[at(input)];
      }
      const bool calibrated = range_of(layer.index) != nullptr;
      capable_[at(layer.index)] = (runs_int8(layer) && calibrated) ||
                                  (only_moves(layer) && inputs) ||
                                  (can_requantize(layer) && inputs && calibrated);
    }
  }

  // Which of them lead to a layer that works in int8, or are int8 in the quantised model that the
  // network comes from: its accuracy includes their rounding.
  void find_wanted() {
    wanted_.assign(network_.layers.size(), false);
    for (std::size_t i = network_.layers.size(); i-- > 0;) {
      const TensorRange* range = range_of(static_cast<int>(i));
      if (range != nullptr && range->step) wanted_[i] = true;
      for (const int consumer : consumers_[i]) {
        if (runs_int8(layer_at(consumer)) || (capable_[at(consumer)] && wanted_[at(consumer)])) {
          wanted_[i] = true;
        }
      }
    }
  }

  Precision stored(const Layer& layer) const {
    const bool int8 = capable_[at(layer.index)] && wanted_[at(layer.index)];
    if (layer.has_filters()) {
      const Precision executed = format_of(layer.index).executed;
      return is_quantised(executed) && !int8 ? Precision::kFp32 : executed;
    }
    if (layer.rules.precision == PrecisionRule::kFloat) return Precision::kFp32;
    if (only_moves(layer)) return stored_at(layer.inputs[0]);
    if (int8) return Precision::kInt8;
    Precision widest = Precision::kInt8;
    for (const int input : layer.inputs) {
      if (!is_constant(input)) widest = std::min(widest, stored_at(input));
    }
    return widest == Precision::kInt8 ? Precision::kFp32 : widest;
  }

  bool joins(const Layer& layer) const {
    return layer.rules.precision == PrecisionRule::kJoins && is_int8(layer.index);
  }

  // The one layer that joins its inputs in which all uses of a tensor end, directly or through
  // layers that only move.
  void find_sinks() {
    sinks_.assign(network_.layers.size(), kNone);
    for (std::size_t i = network_.layers.size(); i-- > 0;) {
      int sink = kNone;
      bool one = !consumers_[i].empty();
      for (const int consumer : consumers_[i]) {
        const Layer& layer = layer_at(consumer);
        const int here = joins(layer) ? consumer : only_moves(layer) ? sinks_[at(consumer)] : kNone;
        one = one && here != kNone && (sink == kNone || sink == here);
        sink = here;
      }
      if (one) sinks_[i] = sink;
    }
  }

  bool feeds_only_depthwise(const Layer& layer) const {
    const std::vector<int>& consumers = consumers_[at(layer.index)];
    return !consumers.empty() && std::all_of(consumers.begin(), consumers.end(), [&](int consumer) {
      return runs_int8(layer_at(consumer)) && layer_at(consumer).rules.channels_apart;
    });
  }

  // Called from the last layer to the first: the quantisation of a layer that joins is known before
  // that of its inputs.
  void quantize_output(const Layer& layer) {
    if (!is_int8(layer.index) || only_moves(layer)) return;
    Quantization& quantization = format(layer).output.quantization;
    if (sinks_[at(layer.index)] != kNone) {
      quantization = format_of(sinks_[at(layer.index)]).output.quantization;
    } else {
      const bool may_differ = layer.rules.precision != PrecisionRule::kJoins;
      quantization = calibrated(layer.index, may_differ && feeds_only_depthwise(layer));
    }
  }

  void convert_input(const Layer& layer) {
    LayerFormat& result = format(layer);
    const int input = layer.inputs[0];
    result.converted.precision = result.executed;
    result.received = stored_at(input);
    if (result.received == result.executed) {
      if (input != kNetworkInput) result.converted = format_of(input).output;
      return;
    }
    if (!is_quantised(result.executed)) {
      result.conversion = InputConversion::kStatic;
      return;
    }
    if (layer.quantize && result.executed == Precision::kInt8) {
      result.conversion = InputConversion::kDynamic;
      return;
    }
    if (range_of(input) == nullptr) {
      const std::string tensor = input == kNetworkInput
                                     ? "the network's input"
                                     : "the output of " + describe(layer_at(input));
      throw Error(network_.file + ":" + std::to_string(layer.line) + ": " + describe(layer) +
                  " is " + std::string(name_of(result.executed)) +
                  " with quantize=0 and needs the range of " + tensor + ", but " +
                  (calibration_ == nullptr ? "no calibration file is given"
                                           : "the calibration file does not hold it") +
                  "; make one with `harness calibrate` and pass it with --calibration, or set "
                  "quantize=1");
    }
    result.conversion = InputConversion::kStatic;
    if (result.executed == Precision::kInt16) {
      const ScaleAndZero step = int16_quantization_of(range_of(input)->range);
      result.converted.quantization = {{step.scale}, {step.zero_point}};
    } else {
      result.converted.quantization = calibrated(input, layer.rules.channels_apart);
    }
  }

  const Network& network_;
  const Calibration* calibration_;
  std::vector<std::vector<int>> consumers_;  // of every layer's output
  std::vector<bool> capable_;
  std::vector<bool> wanted_;
  std::vector<int> sinks_;
  PrecisionPlan plan_;
};

}  // namespace

PrecisionPlan plan_precisions(const Network& network, const Calibration* calibration) {
  return Planner(network, calibration).plan();
}

}  // namespace mpe
