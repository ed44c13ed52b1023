#include "layers/slice.h"

#include <algorithm>
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

class Slice final : public OperationWith<SliceParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    const Shape& in = call.inputs[0].shape;
    const Shape& out = call.layer.out;
    const auto start = [&](Axis axis, int place) {
      return (axis == parameters_.axis ? parameters_.begin + place * parameters_.step : place) *
             in.stride(axis);
    };
    const int step = parameters_.axis == Axis::kWidth ? parameters_.step : 1;
    with_typed(call.inputs[0].tensor, call.output, [&]<typename T>(const T* from, T* to) {
      workers.pool.parallel_for(out.channels, [&](int, int begin, int end) {
        for (int c = begin; c < end; ++c) {
          for (int y = 0; y < out.height; ++y) {
            const T* row =
                from + start(Axis::kChannels, c) + start(Axis::kHeight, y) + start(Axis::kWidth, 0);
            T* target = to + (static_cast<std::int64_t>(c) * out.height + y) * out.width;
            for (int x = 0; x < out.width; ++x)
              target[x] = row[static_cast<std::int64_t>(x) * step];
          }
        }
      });
    });
  }

  void run_reference(const LayerCall& call) const override { reference_slice(parameters_, call); }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  SliceParameters p;
  p.axis = read_axis(section, "channels");
  const int size = layer.in[p.axis];
  p.step = section.integer("step", 1, -Limits::kDimension, Limits::kDimension);
  if (p.step == 0) section.fail(section.line_of("step"), "step= must not be 0");
  // Places begin, begin + step, ... before `end`, as of a range in Python.
  p.begin = section.integer("begin", p.step > 0 ? 0 : size - 1, 0, size - 1);
  const int end = section.integer("end", p.step > 0 ? size : -1, p.step > 0 ? p.begin + 1 : -1,
                                  p.step > 0 ? size : p.begin - 1);
  const int span = p.step > 0 ? end - p.begin : p.begin - end;
  const int stride = std::abs(p.step);
  layer.out[p.axis] = (span + stride - 1) / stride;
  // One run of values?
  const bool outermost =
      p.axis == Axis::kChannels ||
      (layer.in.channels == 1 && (p.axis == Axis::kHeight || layer.in.height == 1));
  layer.rules = {.precision = PrecisionRule::kKeeps, .algorithm = "copy"};
  if (outermost && p.step == 1) {
    layer.rules.memory = MemoryRule::kView;
    layer.rules.view_begin = p.begin * layer.in.stride(p.axis);
  }
  layer.operation = std::make_shared<Slice>(p);
}

}  // namespace

const LayerType kSliceLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
