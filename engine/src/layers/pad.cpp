#include "layers/pad.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

class Pad final : public OperationWith<PadParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    const PadParameters& p = parameters_;
    const LayerInput& input = call.inputs[0];
    const Shape& in = input.shape;
    const Shape& out = call.layer.out;
    workers.pool.parallel_for(out.channels, [&](int, int begin, int end) {
      float values[kValueBlock];
      for (int c = begin; c < end; ++c) {
        const int from_c = padded_place(p.mode, c - p.front, in.channels);
        for (int y = 0; y < out.height; ++y) {
          const int from_y = padded_place(p.mode, y - p.top, in.height);
          const std::int64_t row =
              (static_cast<std::int64_t>(from_c) * in.height + from_y) * in.width;
          for (int x = 0; x < out.width; x += kValueBlock) {
            const int count = std::min(kValueBlock, out.width - x);
            const bool inside = from_c >= 0 && from_y >= 0;
            fill_row(input, inside ? from_c : -1, row, x, count, values, workers);
            store_values(values, call.output, c,
                         (static_cast<std::int64_t>(c) * out.height + y) * out.width + x, count,
                         workers.vectors);
          }
        }
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_pad(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }

 private:
  // Columns x to x + count of an output row, made of the input row that starts at `row`. `channel`
  // is -1 outside of the map.
  void fill_row(const LayerInput& input, int channel, std::int64_t row, int x, int count,
                float* values, const Workers& workers) const {
    const PadParameters& p = parameters_;
    const int width = input.shape.width;
    int i = 0;
    while (i < count) {
      const int from = channel < 0 ? -1 : padded_place(p.mode, x + i - p.left, width);
      if (from < 0) {
        values[i++] = p.value;
        continue;
      }
      // Inside the map, a run of values.
      const bool inside = x + i - p.left == from;
      const int run = inside ? std::min(count - i, width - from) : 1;
      load_values(input.tensor, channel, row + from, run, values + i, workers.vectors);
      i += run;
    }
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  constexpr std::array<std::string_view, 3> kModes = {"constant", "reflect", "edge"};
  PadParameters p;
  p.mode = static_cast<PadMode>(read_choice(section, "mode", "constant", kModes));
  p.value = section.real("value", 0.0F);
  if (section.find("value") != nullptr && p.mode != PadMode::kConstant) {
    section.fail(section.line_of("value"), "value= belongs to mode=constant");
  }
  const auto side = [&](std::string_view key, int size) {
    const int places = section.integer(key, 0, 0, Limits::kDimension);
    if (p.mode == PadMode::kReflect && places >= size) {
      section.fail(section.line_of(key), std::string(key) + "=" + std::to_string(places) +
                                             " reflects more than the " + std::to_string(size - 1) +
                                             " places beside the edge");
    }
    return places;
  };
  p.front = side("pad_front", layer.in.channels);
  p.top = side("pad_top", layer.in.height);
  p.left = side("pad_left", layer.in.width);
  layer.out = {layer.in.channels + p.front + side("pad_back", layer.in.channels),
               layer.in.height + p.top + side("pad_bottom", layer.in.height),
               layer.in.width + p.left + side("pad_right", layer.in.width)};
  layer.operation = std::make_shared<Pad>(p);
}

}  // namespace

const LayerType kPadLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
