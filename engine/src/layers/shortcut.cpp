#include "layers/shortcut.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "io/text.h"
#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// Adds the values of a map of another size. Where it is larger, every stride-th of its values is
// taken; where it is smaller, its values go to every sample-th place. Channels beyond the smaller
// number stay as they are.
void add_strided(const LayerInput& input, const Shape& out, int channel, std::int64_t first,
                 int count, float* values, const Workers& workers) {
  const Shape& in = input.shape;
  if (channel >= in.channels) return;
  const int stride = std::max(in.width / out.width, 1);
  const int sample = std::max(out.width / in.width, 1);
  const int rows = std::min(in.height, out.height);
  const int columns = std::min(in.width, out.width);
  for (int i = 0; i < count; ++i) {
    const auto y = static_cast<int>((first + i) / out.width);
    const auto x = static_cast<int>((first + i) % out.width);
    if (y % sample != 0 || x % sample != 0 || y / sample >= rows || x / sample >= columns) continue;
    const int from_y = y / sample * stride;
    const int from_x = x / sample * stride;
    if (from_y >= in.height || from_x >= in.width) continue;
    float value = 0.0F;
    load_values(input.tensor, channel,
                channel * in.plane() + static_cast<std::int64_t>(from_y) * in.width + from_x, 1,
                &value, workers.vectors);
    values[i] += value;
  }
}

// activate(((a + b) + c) ...), in float.
class Shortcut final : public Operation {
 public:
  void run(const LayerCall& call, const Workers& workers) const override {
    if (adds_one_pair(call)) return add_pair(call, workers);
    if (workers.vectors != nullptr && adds_one_int8_pair(call)) return add_int8_pair(call, workers);
    const Layer& layer = call.layer;
    for_value_blocks(layer.out, workers, [&](int channel, std::int64_t first, int count) {
      float sums[kValueBlock];
      float addends[kValueBlock];
      const std::int64_t offset = channel * layer.out.plane() + first;
      load_values(call.inputs[0].tensor, channel, offset, count, sums, workers.vectors);
      for (const LayerInput& input : call.inputs.subspan(1)) {
        if (input.shape == layer.out) {
          load_values(input.tensor, channel, offset, count, addends, workers.vectors);
          for (int i = 0; i < count; ++i) sums[i] += addends[i];
        } else {
          add_strided(input, layer.out, channel, first, count, sums, workers);
        }
      }
      activate_values(layer.activation, sums, count);
      store_values(sums, call.output, channel, offset, count, workers.vectors);
    });
  }

  void run_reference(const LayerCall& call) const override { reference_shortcut(call); }

  bool runs_vectors(const LayerCall& call) const override {
    return adds_one_pair(call) || converts_int8(call);
  }

 private:
  // Two maps of the output's shape and precision.
  static bool adds_alike(const LayerCall& call) {
    return call.inputs.size() == 2 && std::ranges::all_of(call.inputs, [&](const auto& input) {
             return input.shape == call.layer.out &&
                    input.tensor.precision == call.output.precision;
           });
  }
  // Float or half, for which there is vector code.
  static bool adds_one_pair(const LayerCall& call) {
    return adds_alike(call) &&
           (call.output.precision == Precision::kFp32 || call.output.precision == Precision::kFp16);
  }
  static bool adds_one_int8_pair(const LayerCall& call) {
    return adds_alike(call) && call.output.precision == Precision::kInt8 &&
           is_simple(call.layer.activation);
  }

  static void add_int8_pair(const LayerCall& call, const Workers& workers) {
    const TensorView& a = call.inputs[0].tensor;
    const TensorView& b = call.inputs[1].tensor;
    const std::int64_t plane = call.layer.out.plane();
    workers.pool.parallel_for(call.layer.out.channels, [&](int, int begin, int end) {
      for (int channel = begin; channel < end;) {
        const Quantization* const steps[] = {a.quantization, b.quantization,
                                             call.output.quantization};
        const bool alone = std::ranges::any_of(
            steps, [](const Quantization* quantization) { return quantization->per_channel(); });
        const int next = alone ? channel + 1 : end;
        Int8Addition addition;
        for (int i = 0; i < 2; ++i) {
          const ScaleAndZero step = steps[i]->of(channel);
          addition.scales[i] = step.scale;
          addition.zero_points[i] = step.zero_point;
        }
        const ScaleAndZero sum = steps[2]->of(channel);
        addition.inverse = inverse_scale(sum.scale);
        addition.sum_zero_point = sum.zero_point;
        addition.activation = call.layer.activation;
        const std::int64_t first = channel * plane;
        workers.vectors->add_bytes(static_cast<const std::int8_t*>(a.data) + first,
                                   static_cast<const std::int8_t*>(b.data) + first,
                                   static_cast<std::int8_t*>(call.output.data) + first,
                                   (next - channel) * plane, addition);
        channel = next;
      }
    });
  }

  static void add_pair(const LayerCall& call, const Workers& workers) {
    const std::int64_t plane = call.layer.out.plane();
    const auto add = [&]<typename T>(auto kernel, T* to) {
      const auto* a = static_cast<const T*>(call.inputs[0].tensor.data);
      const auto* b = static_cast<const T*>(call.inputs[1].tensor.data);
      workers.pool.parallel_for(call.layer.out.channels, [&](int, int begin, int end) {
        const std::int64_t first = begin * plane;
        kernel(a + first, b + first, to + first, (end - begin) * plane, call.layer.activation);
      });
    };
    if (call.output.precision == Precision::kFp32) {
      add(workers.vectors->add_floats, static_cast<float*>(call.output.data));
    } else {
      add(workers.vectors->add_halves, static_cast<std::uint16_t*>(call.output.data));
    }
  }
};

void read(const CfgSection& section, const Network& network, Layer& layer) {
  if (section.word("weights_type", "none") != "none") {
    section.fail(section.line_of("weights_type"), "weighted shortcuts are not supported");
  }
  for (const std::string_view key : {"alpha", "beta"}) {
    if (section.real(key, 1.0F) != 1.0F) {
      section.fail(section.line_of(key),
                   "factors of a shortcut are not supported; remove " + quoted(key));
    }
  }
  layer.activation = read_activation(section, "linear");
  for (const int from : read_references(section, "from", network)) {
    // Maps of other sizes join as pjreddie's Darknet does it: over the common channels, the larger
    // map in strides, for which the ratio must be the same in both directions.
    const Shape& shape = network.output_shape(from);
    if (shape.width / layer.in.width != shape.height / layer.in.height ||
        layer.in.width / shape.width != layer.in.height / shape.height) {
      section.fail(section.line_of("from"), "layer " + std::to_string(from) + " is " +
                                                text_of(shape) + ", which does not add to " +
                                                text_of(layer.in));
    }
    layer.inputs.push_back(from);
  }
  layer.rules.memory = MemoryRule::kInPlace;
  layer.operation = std::make_shared<Shortcut>();
}

}  // namespace

const LayerType kShortcutLayer{.read = read, .loops = Loops::kVectors, .inputs = InputsRule::kOwn};

}  // namespace mpe
