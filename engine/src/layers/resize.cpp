#include "layers/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/typed.h"
#include "layers/value_blocks.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

class Resize final : public OperationWith<ResizeParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    workers.pool.parallel_for(call.layer.out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        if (parameters_.linear) {
          interpolate_channel(call, c, workers);
        } else {
          copy_channel(call, c);
        }
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_resize(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override {
    return parameters_.linear && converts_int8(call);
  }

 private:
  void copy_channel(const LayerCall& call, int c) const {
    const Shape& in = call.inputs[0].shape;
    const Shape& out = call.layer.out;
    with_typed(call.inputs[0].tensor, call.output, [&]<typename T>(const T* from, T* to) {
      from += c * in.plane();
      to += c * out.plane();
      for (const ResizeTap& row : parameters_.rows) {
        const T* line = from + static_cast<std::int64_t>(row.lower) * in.width;
        for (const ResizeTap& column : parameters_.columns) *to++ = line[column.lower];
      }
    });
  }

  // In blocks of columns that read no more than a block of an input row.
  void interpolate_channel(const LayerCall& call, int channel, const Workers& workers) const {
    const std::span<const ResizeTap> columns = parameters_.columns;
    for (std::size_t first = 0; first < columns.size();) {
      const int left = columns[first].lower;
      std::size_t end = first + 1;
      while (end < columns.size() && end - first < kValueBlock &&
             columns[end].upper - left < kValueBlock) {
        ++end;
      }
      interpolate_columns(call, channel, first, columns.subspan(first, end - first), workers);
      first = end;
    }
  }

  // An input row is interpolated across once for all the output's rows that lie beside it.
  void interpolate_columns(const LayerCall& call, int channel, std::size_t first,
                           std::span<const ResizeTap> columns, const Workers& workers) const {
    const LayerInput& input = call.inputs[0];
    const int left = columns.front().lower;
    const auto count = static_cast<int>(columns.size());
    float across[2][kValueBlock];
    int held[2] = {-1, -1};  // the input's rows that `across` holds
    const auto interpolate_row = [&](int row, int slot) {
      float values[kValueBlock];
      const std::int64_t line =
          (static_cast<std::int64_t>(channel) * input.shape.height + row) * input.shape.width;
      load_values(input.tensor, channel, line + left, columns.back().upper - left + 1, values,
                  workers.vectors);
      for (int x = 0; x < count; ++x) {
        const ResizeTap& column = columns[static_cast<std::size_t>(x)];
        across[slot][x] =
            between(values[column.lower - left], values[column.upper - left], column.weight);
      }
      held[slot] = row;
    };
    const Shape& out = call.layer.out;
    std::int64_t to =
        static_cast<std::int64_t>(channel) * out.plane() + static_cast<std::int64_t>(first);
    for (const ResizeTap& row : parameters_.rows) {
      int upper = held[1] == row.lower ? 1 : 0;
      if (held[upper] != row.lower) {
        upper = held[0] == row.upper ? 1 : 0;
        interpolate_row(row.lower, upper);
      }
      const int lower = row.upper == row.lower ? upper : 1 - upper;
      if (held[lower] != row.upper) interpolate_row(row.upper, lower);
      float values[kValueBlock];
      for (int x = 0; x < count; ++x) {
        values[x] = between(across[upper][x], across[lower][x], row.weight);
      }
      store_values(values, call.output, channel, to, count, workers.vectors);
      to += out.width;
    }
  }
};

// How a place of the output becomes one of the input: coordinate_transformation_mode and
// nearest_mode of ONNX's operator Resize.
enum class Coordinates : std::uint8_t { kHalfPixel, kPytorchHalfPixel, kAsymmetric, kAlignCorners };
constexpr std::array<std::string_view, 4> kCoordinates = {"half_pixel", "pytorch_half_pixel",
                                                          "asymmetric", "align_corners"};
enum class Rounding : std::uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };
constexpr std::array<std::string_view, 4> kRoundings = {"round_prefer_floor", "round_prefer_ceil",
                                                        "floor", "ceil"};

// In float and in this order, as ONNX Runtime computes it: whether a place lies between two others
// is then decided alike.
float source_of(Coordinates mode, int place, int in, int out, float scale) {
  const auto at = static_cast<float>(place);
  switch (mode) {
    case Coordinates::kHalfPixel:
      return (at + 0.5F) / scale - 0.5F;
    case Coordinates::kPytorchHalfPixel:
      return out > 1 ? (at + 0.5F) / scale - 0.5F : 0.0F;
    case Coordinates::kAsymmetric:
      return at / scale;
    case Coordinates::kAlignCorners:
      return out > 1 ? at * static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0F;
  }
  return 0.0F;
}

float rounded(Rounding mode, float place) {
  switch (mode) {
    case Rounding::kPreferFloor:
      return std::ceil(place - 0.5F);
    case Rounding::kPreferCeil:
      return std::round(place);
    case Rounding::kFloor:
      return std::floor(place);
    case Rounding::kCeil:
      return std::ceil(place);
  }
  return place;
}

ResizeTap tap_of(float source, bool linear, Rounding rounding, int in) {
  const auto last = static_cast<float>(in - 1);
  ResizeTap tap;
  if (!linear) {
    tap.lower = tap.upper = static_cast<int>(std::clamp(rounded(rounding, source), 0.0F, last));
    return tap;
  }
  const float inside = std::clamp(source, 0.0F, last);
  tap.lower = static_cast<int>(inside);
  tap.upper = std::min(tap.lower + 1, in - 1);
  tap.weight = inside - static_cast<float>(tap.lower);
  return tap;
}

void read(const CfgSection& section, const Network&, Layer& layer) {
  constexpr std::array<std::string_view, 2> kModes = {"nearest", "linear"};
  ResizeParameters p;
  p.linear = read_choice(section, "mode", "nearest", kModes) == 1;
  const auto coordinates =
      static_cast<Coordinates>(read_choice(section, "coordinates", "half_pixel", kCoordinates));
  const auto rounding =
      static_cast<Rounding>(read_choice(section, "rounding", kRoundings[0], kRoundings));
  const auto taps = [&](std::string_view size_key, std::string_view scale_key, int in) {
    if (section.find(size_key) == nullptr) section.fail("needs " + std::string(size_key) + "=");
    const int out = section.integer(size_key, in, 1, Limits::kDimension);
    const float ratio = static_cast<float>(out) / static_cast<float>(in);
    const float scale = section.real(scale_key, ratio);
    if (!(scale > 0.0F)) {
      section.fail(section.line_of(scale_key), std::string(scale_key) + "= must be above 0");
    }
    std::vector<ResizeTap> result;
    for (int i = 0; i < out; ++i) {
      result.push_back(tap_of(source_of(coordinates, i, in, out, scale), p.linear, rounding, in));
    }
    return result;
  };
  p.rows = taps("height", "scale_y", layer.in.height);
  p.columns = taps("width", "scale_x", layer.in.width);
  layer.out = {layer.in.channels, static_cast<int>(p.rows.size()),
               static_cast<int>(p.columns.size())};
  if (!p.linear) layer.rules = {.precision = PrecisionRule::kKeeps, .algorithm = "copy"};
  layer.operation = std::make_shared<Resize>(std::move(p));
}

}  // namespace

const LayerType kResizeLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
