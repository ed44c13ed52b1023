#include "layers/scale_channels.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

class ScaleChannels final : public OperationWith<ScaleChannelsParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    const LayerInput& factors = call.inputs[0];
    const LayerInput& map = call.inputs[1];
    const Layer& layer = call.layer;
    for_value_blocks(layer.out, workers, [&](int channel, std::int64_t first, int count) {
      float values[kValueBlock];
      float factor[kValueBlock];
      const std::int64_t offset = channel * layer.out.plane() + first;
      load_values(map.tensor, channel, offset, count, values, workers.vectors);
      if (parameters_.by_pixel) {
        load_values(factors.tensor, 0, first, count, factor, workers.vectors);
        for (int i = 0; i < count; ++i) values[i] *= factor[i];
      } else {
        load_values(factors.tensor, channel, channel, 1, factor, workers.vectors);
        for (int i = 0; i < count; ++i) values[i] *= factor[0];
      }
      activate_values(layer.activation, values, count, *workers.vectors);
      store_values(values, call.output, channel, offset, count, workers.vectors);
    });
  }

  void run_reference(const LayerCall& call) const override {
    reference_scale_channels(parameters_, call);
  }

  bool runs_vectors(const LayerCall& call) const override {
    return converts_int8_or_activates(call);
  }
};

void read(const CfgSection& section, const Network& network, Layer& layer) {
  const std::vector<int> from = read_references(section, "from", network);
  if (from.size() != 1) section.fail(section.line_of("from"), "from= must name one layer");
  layer.inputs.push_back(from.front());
  const ScaleChannelsParameters p{.by_pixel = section.flag("scale_wh")};
  layer.activation = read_activation(section, "linear");
  layer.out = network.output_shape(from.front());
  const Shape factors =
      p.by_pixel ? Shape{1, layer.out.height, layer.out.width} : Shape{layer.out.channels, 1, 1};
  if (layer.in != factors) {
    section.fail("scales layer " + std::to_string(from.front()) + " of " + text_of(layer.out) +
                 " and needs " + text_of(factors) + " factors, but the preceding layer gives " +
                 text_of(layer.in));
  }
  layer.rules.memory = MemoryRule::kInPlace;
  layer.operation = std::make_shared<ScaleChannels>(p);
}

}  // namespace

const LayerType kScaleChannelsLayer{
    .read = read, .loops = Loops::kPlain, .inputs = InputsRule::kOwn};

}  // namespace mpe
