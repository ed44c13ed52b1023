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
    const auto& [y, x] = parameters_.window;
    return {1, y.size, x.size, y.stride, x.stride};
  }

  void run(const LayerCall& call, const Workers& workers) const override {
    const auto& [vertical, horizontal] = parameters_.window;
    const Shape& out = call.layer.out;
    const bool tiled = vertical.size * horizontal.size <= kTile;
    const int columns = tiled ? positions_in(kTile / vertical.size, horizontal, out.width) : 1;
    const int rows =
        tiled ? positions_in(kTile / extent(columns, horizontal), vertical, out.height) : 1;
    workers.pool.parallel_for(out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        for (int y = 0; y < out.height; y += rows) {
          for (int x = 0; x < out.width; x += columns) {
            const PlaceSpan tile_rows = {y, std::min(y + rows, out.height)};
            const PlaceSpan tile_columns = {x, std::min(x + columns, out.width)};
            if (tiled) {
              average_tile(call, c, tile_rows, tile_columns, workers);
            } else {
              average_one(call, c, y, x, workers);
            }
          }
        }
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_average(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }

 private:
  static constexpr int kTile = 4096;  // values of the input with its padding

  // Places of the input under `positions` windows side by side.
  static int extent(int positions, const WindowAxis& axis) {
    return (positions - 1) * axis.stride + axis.size;
  }
  // The most windows side by side within `places` of the input, at most `all`.
  static int positions_in(int places, const WindowAxis& axis, int all) {
    return std::min((places - axis.size) / axis.stride + 1, all);
  }

  // Sums of all windows of a tile at once, tap by tap. Zeros lie around the map: adding them
  // changes no sum that starts at zero.
  void average_tile(const LayerCall& call, int channel, PlaceSpan rows, PlaceSpan columns,
                    const Workers& workers) const {
    const WindowAxis& vertical = parameters_.window.y;
    const WindowAxis& horizontal = parameters_.window.x;
    const int count = columns.end - columns.begin;
    const int pitch = extent(count, horizontal);
    float padded[kTile];
    float sums[kTile];
    load_tile(call.inputs[0], channel, rows, columns, padded, workers);
    std::fill_n(sums, (rows.end - rows.begin - 1) * pitch + count, 0.0F);
    const bool dense = vertical.stride == 1 && horizontal.stride == 1;
    for (int ky = 0; ky < vertical.size; ++ky) {
      for (int kx = 0; kx < horizontal.size; ++kx) {
        const float* from = padded + ky * pitch + kx;
        if (dense) {  // one run through all rows: what lies across their ends is not used
          add_places(from, 1, sums, (rows.end - rows.begin - 1) * pitch + count);
          continue;
        }
        for (int y = 0; y < rows.end - rows.begin; ++y) {
          add_places(from + y * vertical.stride * pitch, horizontal.stride, sums + y * pitch,
                     count);
        }
      }
    }
    float inside[kTile];  // the columns of the map under each window
    const int width = call.inputs[0].shape.width;
    for (int i = 0; i < count; ++i) {
      inside[i] = static_cast<float>(places_inside(columns.begin + i, horizontal, width));
    }
    for (int y = rows.begin; y < rows.end; ++y) {
      float* line = sums + (y - rows.begin) * pitch;
      const auto height =
          static_cast<float>(places_inside(y, vertical, call.inputs[0].shape.height));
      for (int i = 0; i < count; ++i) line[i] /= std::max(height * inside[i], 1.0F);
      store_values(line, call.output, channel, place_of(call, channel, y, columns.begin), count,
                   workers.vectors);
    }
  }

  void load_tile(const LayerInput& input, int channel, PlaceSpan rows, PlaceSpan columns,
                 float* padded, const Workers& workers) const {
    const auto& [vertical, horizontal] = parameters_.window;
    const int pitch = extent(columns.end - columns.begin, horizontal);
    const int height = extent(rows.end - rows.begin, vertical);
    const int top = rows.begin * vertical.stride - vertical.before;
    const int left = columns.begin * horizontal.stride - horizontal.before;
    std::fill_n(padded, height * pitch, 0.0F);
    const int first = std::max(left, 0);
    const int count = std::min(left + pitch, input.shape.width) - first;
    const int end = std::min(top + height, input.shape.height);
    for (int y = std::max(top, 0); y < end && count > 0; ++y) {
      const std::int64_t line =
          (static_cast<std::int64_t>(channel) * input.shape.height + y) * input.shape.width;
      load_values(input.tensor, channel, line + first, count,
                  padded + (y - top) * pitch + (first - left), workers.vectors);
    }
  }

  static void add_places(const float* from, int stride, float* sums, int count) {
    const auto add = [=](auto step) {
      for (int i = 0; i < count; ++i) sums[i] += from[i * step];
    };
    if (stride == 1) return add(std::integral_constant<int, 1>{});
    if (stride == 2) return add(std::integral_constant<int, 2>{});
    add(stride);
  }

  // By how many places of an axis sums are divided at an output's place.
  int places_inside(int place, const WindowAxis& axis, int size) const {
    if (parameters_.count_padding) return axis.size;
    const int first = place * axis.stride - axis.before;
    return std::max(std::min(first + axis.size, size) - std::max(first, 0), 0);
  }

  static std::int64_t place_of(const LayerCall& call, int channel, int row, int column) {
    const Shape& out = call.layer.out;
    return (static_cast<std::int64_t>(channel) * out.height + row) * out.width + column;
  }

  // The mean of one window, of any size.
  void average_one(const LayerCall& call, int channel, int row, int column,
                   const Workers& workers) const {
    const auto& [vertical, horizontal] = parameters_.window;
    const LayerInput& input = call.inputs[0];
    const int top = row * vertical.stride - vertical.before;
    const int left = column * horizontal.stride - horizontal.before;
    const int last = std::min(left + horizontal.size, input.shape.width);
    float sum = 0.0F;
    for (int y = std::max(top, 0); y < std::min(top + vertical.size, input.shape.height); ++y) {
      const std::int64_t line =
          (static_cast<std::int64_t>(channel) * input.shape.height + y) * input.shape.width;
      for (int x = std::max(left, 0); x < last; x += kValueBlock) {
        float values[kValueBlock];
        const int count = std::min(kValueBlock, last - x);
        load_values(input.tensor, channel, line + x, count, values, workers.vectors);
        for (int i = 0; i < count; ++i) sum += values[i];
      }
    }
    const int counted = places_inside(row, vertical, input.shape.height) *
                        places_inside(column, horizontal, input.shape.width);
    sum /= static_cast<float>(std::max(counted, 1));
    store_values(&sum, call.output, channel, place_of(call, channel, row, column), 1,
                 workers.vectors);
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
