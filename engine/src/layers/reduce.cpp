#include "layers/reduce.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"

namespace mpe {
namespace {

class Reduce final : public OperationWith<ReduceParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    const int outputs = static_cast<int>(call.layer.out.elements());
    workers.pool.parallel_for(outputs, [&](int, int begin, int end) {
      for (int i = begin; i < end; ++i) reduce_to(parameters_, call, i);
    });
  }

  void run_reference(const LayerCall& call) const override { reference_reduce(parameters_, call); }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  constexpr std::array<std::string_view, 5> kTypes = {"mean", "sum", "max", "min", "l2"};
  ReduceParameters p;
  p.reduction = static_cast<Reduction>(read_choice(section, "type", "mean", kTypes));
  for (const Axis axis : read_axes(section)) {
    layer.out[axis] = 1;
    (axis == Axis::kChannels ? p.channels : axis == Axis::kHeight ? p.height : p.width) = true;
  }
  layer.operation = std::make_shared<Reduce>(p);
}

}  // namespace

const LayerType kReduceLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
