#include "layers/pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>

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
          for (int x = 0; x < out.width; x += kValueBlock) {
            average_columns(call, c, y, {x, std::min(x + kValueBlock, out.width)}, workers);
          }
        }
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_average(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }

 private:
  // Part of a row of the output, at most kValueBlock long. Each sum takes its values in order.
  void average_columns(const LayerCall& call, int channel, int row, PlaceSpan columns,
                       const Workers& workers) const {
    const auto& [vertical, horizontal] = parameters_.window;
    const LayerInput& input = call.inputs[0];
    const int count = columns.end - columns.begin;
    const int left = columns.begin * horizontal.stride - horizontal.before;
    const int right = (columns.end - 1) * horizontal.stride - horizontal.before + horizontal.size;
    const int top = row * vertical.stride - vertical.before;
    const int first_row = std::max(top, 0);
    const int end_row = std::min(top + vertical.size, input.shape.height);
    float sums[kValueBlock];
    std::fill_n(sums, count, 0.0F);
    for (int y = first_row; y < end_row; ++y) {
      const std::int64_t line =
          (static_cast<std::int64_t>(channel) * input.shape.height + y) * input.shape.width;
      const int end = std::min(right, input.shape.width);
      for (int x = std::max(left, 0); x < end; x += kValueBlock) {
        float values[kValueBlock];
        const int loaded = std::min(kValueBlock, end - x);
        load_values(input.tensor, channel, line + x, loaded, values, workers.vectors);
        add_taps(values, {x, x + loaded}, columns, sums);
      }
    }
    const int rows = std::max(end_row - first_row, 0);
    for (int i = 0; i < count; ++i) {
      sums[i] /= static_cast<float>(values_of(rows, columns.begin + i, input.shape.width));
    }
    const std::int64_t to =
        (static_cast<std::int64_t>(channel) * call.layer.out.height + row) * call.layer.out.width;
    store_values(sums, call.output, channel, to + columns.begin, count, workers.vectors);
  }

  // Adds the values of an input row's places `loaded` to the sums of the output's `columns`.
  void add_taps(const float* values, PlaceSpan loaded, PlaceSpan columns, float* sums) const {
    const WindowAxis& axis = parameters_.window.x;
    for (int kx = 0; kx < axis.size; ++kx) {
      const int offset = kx - axis.before;
      const PlaceSpan places =
          places_reading(offset, axis.stride, loaded.begin, loaded.end, columns);
      if (places.begin >= places.end) continue;
      const float* from = values + (places.begin * axis.stride + offset - loaded.begin);
      float* to = sums + (places.begin - columns.begin);
      const auto add = [=](auto stride) {
        for (int i = 0; i < places.end - places.begin; ++i) to[i] += from[i * stride];
      };
      if (axis.stride == 1) {
        add(std::integral_constant<int, 1>{});
      } else if (axis.stride == 2) {
        add(std::integral_constant<int, 2>{});
      } else {
        add(axis.stride);
      }
    }
  }

  // By how many values the sum at a column is divided.
  int values_of(int rows, int column, int width) const {
    const auto& [vertical, horizontal] = parameters_.window;
    if (parameters_.count_padding) return vertical.size * horizontal.size;
    const int left = column * horizontal.stride - horizontal.before;
    const int columns = std::min(left + horizontal.size, width) - std::max(left, 0);
    return std::max(rows * std::max(columns, 0), 1);
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
