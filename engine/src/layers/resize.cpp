#include "layers/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/typed.h"
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

  void interpolate_channel(const LayerCall& call, int c, const Workers& workers) const {
    const LayerInput& input = call.inputs[0];
    const std::int64_t plane = c * input.shape.plane();
    const auto value = [&](int y, int x) {
      float result = 0.0F;
      load_values(input.tensor, c, plane + static_cast<std::int64_t>(y) * input.shape.width + x, 1,
                  &result, workers.vectors);
      return result;
    };
    std::int64_t to = c * call.layer.out.plane();
    for (const ResizeTap& row : parameters_.rows) {
      for (const ResizeTap& column : parameters_.columns) {
        const float result =
            interpolate(value(row.lower, column.lower), value(row.lower, column.upper),
                        value(row.upper, column.lower), value(row.upper, column.upper),
                        column.weight, row.weight);
        store_values(&result, call.output, c, to++, 1, workers.vectors);
      }
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

double source_of(Coordinates mode, int place, int in, int out, double scale) {
  switch (mode) {
    case Coordinates::kHalfPixel:
      return (place + 0.5) / scale - 0.5;
    case Coordinates::kPytorchHalfPixel:
      return out > 1 ? (place + 0.5) / scale - 0.5 : 0.0;
    case Coordinates::kAsymmetric:
      return place / scale;
    case Coordinates::kAlignCorners:
      return out > 1 ? place * (in - 1.0) / (out - 1.0) : 0.0;
  }
  return 0.0;
}

double rounded(Rounding mode, double place) {
  switch (mode) {
    case Rounding::kPreferFloor:
      return std::ceil(place - 0.5);
    case Rounding::kPreferCeil:
      return std::floor(place + 0.5);
    case Rounding::kFloor:
      return std::floor(place);
    case Rounding::kCeil:
      return std::ceil(place);
  }
  return place;
}

ResizeTap tap_of(double source, bool linear, Rounding rounding, int in) {
  const double last = in - 1;
  ResizeTap tap;
  if (!linear) {
    tap.lower = tap.upper = static_cast<int>(std::clamp(rounded(rounding, source), 0.0, last));
    return tap;
  }
  const double inside = std::clamp(source, 0.0, last);
  tap.lower = static_cast<int>(inside);
  tap.upper = std::min(tap.lower + 1, in - 1);
  tap.weight = static_cast<float>(inside - tap.lower);
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
    const auto ratio = static_cast<float>(static_cast<double>(out) / in);
    const double scale = static_cast<double>(section.real(scale_key, ratio));
    if (!(scale > 0.0)) {
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
