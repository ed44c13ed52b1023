// A session's part that runs in every inference.
#include <chrono>

#include "error.h"
#include "exec/session_step.h"

namespace mpe {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

}  // namespace

void Session::run(std::span<const float> input) { run(input, nullptr); }

void Session::run(std::span<const float> input, const std::function<void(int)>& after,
                  const std::function<void(int)>& converted) {
  if (static_cast<std::int64_t>(input.size()) != network_.input_elements()) {
    throw Error("the input has " + std::to_string(input.size()) + " values; " + network_.file +
                " takes " + std::to_string(network_.input_elements()));
  }
  input_ = input.data();
  for (Step& step : steps_) {
    const Layer& layer = *step.layer;
    for (const Step::Given& given : step.given) {
      step.inputs[given.input].tensor.data = input_ + given.begin;
    }
    if (profile_) {
      const Clock::time_point start = Clock::now();
      execute(step, after, converted);
      if (step.chain == nullptr && !step.is_handed_on) {
        reports_[static_cast<std::size_t>(layer.index)].nanoseconds = nanoseconds_since(start);
      }
    } else {
      execute(step, after, converted);
    }
    if (after) after(layer.index);
  }
}

void Session::execute(Step& step, const std::function<void(int)>& after,
                      const std::function<void(int)>& converted) {
  if (step.is_view || step.is_handed_on) return;
  if (step.chain != nullptr) return execute_chain(step, after);
  if (step.convolution != nullptr) return execute_convolution(step, converted);
  step.layer->operation->execute({*step.layer, step.inputs, step.output, step.values}, workers_);
}

void Session::execute_chain(Step& step, const std::function<void(int)>& after) {
  const std::span<const RowLink> links = step.chain->links();
  const Step& first = steps_[static_cast<std::size_t>(links.front().layer)];
  Clock::time_point start;
  // Not while other threads compute.
  const bool marks = pool_.threads() == 1 || step.chain->sharing() == RowSharing::kSameRows;
  const auto record = [&](int layer) {
    const Clock::time_point now = Clock::now();
    reports_[static_cast<std::size_t>(layer)].nanoseconds +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - start).count();
    start = now;
    if (after && marks) after(layer);
  };
  std::function<void(int)> ended;
  if (profile_) {
    for (const RowLink& link : links) {
      reports_[static_cast<std::size_t>(link.layer)].nanoseconds = 0;
    }
    start = Clock::now();
    ended = std::ref(record);  // a copy would be allocated
  }
  step.chain->run(first.inputs[0].tensor.data, step.output.data, step.scratch, pool_, ended);
  if (profile_) {
    // The wait for other threads.
    reports_[static_cast<std::size_t>(step.layer->index)].nanoseconds += nanoseconds_since(start);
  }
}

void Session::execute_convolution(Step& step, const std::function<void(int)>& converted) {
  ConvolutionCall call{step.inputs[0].tensor.data, step.output.data, step.scratch, nullptr};
  ScaleAndZero measured{};
  if (step.format->conversion != InputConversion::kNone && !step.convolution->reads_floats()) {
    const Clock::time_point start = profile_ ? Clock::now() : Clock::time_point{};
    convert_input(step, call, measured);
    if (profile_) {
      LayerReport& row = reports_[static_cast<std::size_t>(step.layer->index)];
      row.conversion_nanoseconds = nanoseconds_since(start);
    }
    if (converted) converted(step.layer->index);
  }
  step.convolution->run(call, pool_);
}

void Session::convert_input(Step& step, ConvolutionCall& call, ScaleAndZero& measured) {
  const LayerInput& input = step.inputs[0];
  const int channels = input.shape.channels;
  const std::int64_t plane = input.shape.plane();
  call.input = step.converted.data;
  if (step.format->conversion == InputConversion::kDynamic) {
    measured = quantization_of(measure_range(input.tensor, channels, plane, workers_));
    quantizer_->quantize(input.tensor, static_cast<std::int8_t*>(step.converted.data), measured,
                         channels, plane, workers_);
    call.dynamic_input = &measured;
  } else if (step.by_quantizer) {
    call.input = quantizer_->dequantize(input.tensor, step.converted, channels, plane, workers_);
  } else {
    convert_tensor(input.tensor, step.converted, channels, plane, workers_);
  }
}

void Session::read(int layer, std::span<float> values) {
  const Shape& shape = network_.output_shape(layer);
  if (static_cast<std::int64_t>(values.size()) != shape.elements()) {
    throw Error("layer " + std::to_string(layer) + " has " + std::to_string(shape.elements()) +
                " values, not " + std::to_string(values.size()));
  }
  if (layer != kNetworkInput) {
    const LayerScratch& scratch = scratch_[static_cast<std::size_t>(layer)];
    const bool is_handed_on = scratch.computed_with != LayerScratch::kAlone;
    if (scratch.pools || is_handed_on) {
      throw Error("layer " + std::to_string(layer) + " is computed within the " +
                  (scratch.pools ? "pooling" : "convolution") +
                  " that follows it; keep every layer's output to read it");
    }
  }
  convert_tensor(view(layer), {values.data(), Precision::kFp32, nullptr}, shape.channels,
                 shape.plane(), workers_);
}

}  // namespace mpe
