#include "layers/reorg.h"

#include <cstdint>
#include <memory>
#include <string>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/typed.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

// Darknet's [reorg]. It reads the input's memory as if its shape were [channels / s^2, height * s,
// width * s] and takes from every s x s square of that one value for each of s^2 groups of
// channels; with `reverse` it writes where it would have read. (It is not the usual space to depth,
// which Darknet calls [reorg3d], but it is what YOLOv2's weights were trained with.)
class Reorg final : public OperationWith<ReorgParameters> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override {
    return {.stride_y = parameters_.stride, .stride_x = parameters_.stride};
  }

  void run(const LayerCall& call, const Workers& workers) const override {
    const int s = parameters_.stride;
    const Shape& shape = call.inputs[0].shape;
    const int groups_of = shape.channels / (s * s);
    const std::int64_t plane = shape.plane();
    const std::int64_t row = static_cast<std::int64_t>(shape.width) * s;
    with_typed(call.inputs[0].tensor, call.output, [&]<typename T>(const T* in, T* out) {
      workers.pool.parallel_for(shape.channels, [&](int, int begin, int end) {
        for (int c = begin; c < end; ++c) {
          const int square = c / groups_of;
          const std::int64_t base =
              (static_cast<std::int64_t>(c % groups_of) * shape.height * s + square / s) * row +
              square % s;
          for (int y = 0; y < shape.height; ++y) {
            const std::int64_t dense = c * plane + static_cast<std::int64_t>(y) * shape.width;
            const std::int64_t spread = base + y * s * row;
            for (int x = 0; x < shape.width; ++x) {
              const std::int64_t from =
                  parameters_.reverse ? dense + x : spread + std::int64_t{x} * s;
              const std::int64_t to =
                  parameters_.reverse ? spread + std::int64_t{x} * s : dense + x;
              out[to] = in[from];
            }
          }
        }
      });
    });
  }

  void run_reference(const LayerCall& call) const override { reference_reorg(parameters_, call); }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"flatten", "extra"});
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  const ReorgParameters p{.stride = stride, .reverse = section.flag("reverse")};
  // Darknet's reorg walks its input as if it held channels / stride^2 wide maps, in both
  // directions.
  const int area = stride * stride;
  const bool fits = layer.in.channels % area == 0 &&
                    (p.reverse || (layer.in.height % stride == 0 && layer.in.width % stride == 0));
  if (!fits) {
    section.fail(section.line_of("stride"),
                 "stride=" + std::to_string(stride) + " does not fit " + text_of(layer.in));
  }
  if (p.reverse) {
    layer.out = {layer.in.channels / area, layer.in.height * stride, layer.in.width * stride};
  } else if (layer.in.channels <= Limits::kDimension / area) {
    layer.out = {layer.in.channels * area, layer.in.height / stride, layer.in.width / stride};
  } else {
    section.fail("would make more than " + std::to_string(Limits::kDimension) + " channels");
  }
  layer.rules.precision = PrecisionRule::kKeeps;
  layer.operation = std::make_shared<Reorg>(p);
}

}  // namespace

const LayerType kReorgLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
