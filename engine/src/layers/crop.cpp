#include "layers/crop.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/scaled_copy.h"
#include "layers/typed.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

// The middle of the map, as Darknet does at inference.
class Crop final : public OperationWith<CropParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    const int width = call.layer.out.width;
    if (!parameters_.moves_only()) {
      for_rows(call, workers, [&](int c, std::int64_t from, std::int64_t to) {
        copy_scaled(call, workers, c, from, to, width, parameters_.scale, parameters_.offset);
      });
      return;
    }
    with_typed(call.inputs[0].tensor, call.output, [&]<typename T>(const T* in, T* out) {
      for_rows(call, workers, [&](int, std::int64_t from, std::int64_t to) {
        std::copy_n(in + from, width, out + to);
      });
    });
  }

  void run_reference(const LayerCall& call) const override { reference_crop(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override {
    return !parameters_.moves_only() && converts_int8(call);
  }

 private:
  // Calls body(channel, first value of the input's row, first value of the output's row).
  template <typename Body>
  static void for_rows(const LayerCall& call, const Workers& workers, Body&& body) {
    const Shape& in = call.layer.in;
    const Shape& out = call.layer.out;
    const int top = (in.height - out.height) / 2;
    const int left = (in.width - out.width) / 2;
    workers.pool.parallel_for(out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        for (int y = 0; y < out.height; ++y) {
          const std::int64_t row = static_cast<std::int64_t>(y + top) * in.width;
          body(c, c * in.plane() + row + left,
               c * out.plane() + static_cast<std::int64_t>(y) * out.width);
        }
      }
    });
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  const int height = section.integer("crop_height", 1, 1, Limits::kDimension);
  const int width = section.integer("crop_width", 1, 1, Limits::kDimension);
  if (height > layer.in.height || width > layer.in.width) {
    section.fail("cuts " + std::to_string(height) + "x" + std::to_string(width) + " out of " +
                 text_of(layer.in) + ", which is smaller");
  }
  CropParameters p;
  if (!section.flag("noadjust")) p = {.scale = 2.0F, .offset = -1.0F};
  layer.out = {layer.in.channels, height, width};
  layer.rules.precision = p.moves_only() ? PrecisionRule::kKeeps : PrecisionRule::kWidens;
  layer.operation = std::make_shared<Crop>(p);
}

}  // namespace

const LayerType kCropLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
