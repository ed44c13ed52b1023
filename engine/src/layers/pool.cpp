#include "layers/pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "layers/maxpool.h"
#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

// Sums in float, row by row, as in the plain loops.
class Average final : public OperationWith<AverageParameters> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override {
    const Window& window = parameters_.window;
    return {1, window.y.size, window.x.size, window.y.stride, window.x.stride};
  }

  void run(const LayerCall& call, const Workers& workers) const override {
    const Shape& out = call.layer.out;
    workers.pool.parallel_for(out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        for (int y = 0; y < out.height; ++y) {
          for (int x = 0; x < out.width; ++x) {
            const float mean = mean_at(call, c, y, x, workers);
            store_values(&mean, call.output, c,
                         (static_cast<std::int64_t>(c) * out.height + y) * out.width + x, 1,
                         workers.vectors);
          }
        }
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_average(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }

 private:
  float mean_at(const LayerCall& call, int c, int row, int column, const Workers& workers) const {
    const auto& [vertical, horizontal] = parameters_.window;
    const LayerInput& input = call.inputs[0];
    const int top = row * vertical.stride - vertical.before;
    const int left = column * horizontal.stride - horizontal.before;
    const int first = std::max(left, 0);
    const int last = std::min(left + horizontal.size, input.shape.width);
    float sum = 0.0F;
    int rows = 0;
    for (int y = std::max(top, 0); y < std::min(top + vertical.size, input.shape.height); ++y) {
      ++rows;
      const std::int64_t line =
          (static_cast<std::int64_t>(c) * input.shape.height + y) * input.shape.width;
      for (int x = first; x < last; x += kValueBlock) {
        float values[kValueBlock];
        const int count = std::min(kValueBlock, last - x);
        load_values(input.tensor, c, line + x, count, values, workers.vectors);
        for (int i = 0; i < count; ++i) sum += values[i];
      }
    }
    const int counted = parameters_.count_padding ? vertical.size * horizontal.size
                                                  : std::max(rows * std::max(last - first, 0), 1);
    return sum / static_cast<float>(counted);
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  constexpr std::array<std::string_view, 2> kTypes = {"max", "average"};
  const bool average = read_choice(section, "type", "max", kTypes) == 1;
  const Window window = read_window(section, layer.in);
  layer.out = {layer.in.channels, window.y.positions(layer.in.height),
               window.x.positions(layer.in.width)};
  if (!average) {
    if (section.find("count_padding") != nullptr) {
      section.fail(section.line_of("count_padding"), "count_padding= belongs to type=average");
    }
    if (!window.y.always_sees(layer.in.height) || !window.x.always_sees(layer.in.width)) {
      section.fail("has windows without any pixel of " + text_of(layer.in) +
                   ", which have no largest value; reduce its padding");
    }
    layer.rules = {.precision = PrecisionRule::kKeeps, .pools_pairs = fuses_pooling(window, layer)};
    layer.operation = make_maxpool(window);
    return;
  }
  if (window.y.dilation != 1 || window.x.dilation != 1) {
    section.fail("dilation belongs to type=max");
  }
  layer.operation =
      std::make_shared<Average>(AverageParameters{window, section.flag("count_padding")});
}

}  // namespace

const LayerType kPoolLayer{.read = read, .loops = Loops::kVectors};

}  // namespace mpe
