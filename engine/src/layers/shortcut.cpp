#include "layers/shortcut.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "io/text.h"
#include "layers/operation.h"
#include "layers/pair_sum.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"

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
    if (sums_pair(call)) return sum_pair(call, workers);
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
      activate_values(layer.activation, sums, count, *workers.vectors);
      store_values(sums, call.output, channel, offset, count, workers.vectors);
    });
  }

  void run_reference(const LayerCall& call) const override { reference_shortcut(call); }

  bool runs_vectors(const LayerCall& call) const override {
    return sums_pair(call) || converts_int8_or_activates(call);
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
