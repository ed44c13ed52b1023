#include "layers/arithmetic.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "layers/operation.h"
#include "layers/pair_sum.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

// activate((a o b) o c ...), in float.
class ArithmeticOperation final : public OperationWith<Arithmetic> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    if (adds_pair(call)) return sum_pair(call, workers);
    const Layer& layer = call.layer;
    const Shape shape = shape_of_blocks(call);
    for_value_blocks(shape, workers, [&](int channel, std::int64_t first, int count) {
      float results[kValueBlock];
      float others[kValueBlock];
      load_repeated(call.inputs[0], shape, channel, first, count, results, workers.vectors);
      for (const LayerInput& input : call.inputs.subspan(1)) {
        load_repeated(input, shape, channel, first, count, others, workers.vectors);
        compute_block(results, others, count);
      }
      activate_values(layer.activation, results, count, *workers.vectors);
      store_values(results, call.output, channel, channel * shape.plane() + first, count,
                   workers.vectors);
    });
  }

  void run_reference(const LayerCall& call) const override {
    reference_arithmetic(parameters_, call);
  }

  bool runs_vectors(const LayerCall& call) const override {
    return adds_pair(call) || converts_int8_or_activates(call);
  }

 private:
  bool adds_pair(const LayerCall& call) const {
    return parameters_ == Arithmetic::kAdd && sums_pair(call);
  }

  // One loop for each operation.
  void compute_block(float* results, const float* others, int count) const {
    const auto loop = [=]<Arithmetic kOperation>() {
      for (int i = 0; i < count; ++i) results[i] = compute(kOperation, results[i], others[i]);
    };
    switch (parameters_) {
      case Arithmetic::kAdd:
        return loop.operator()<Arithmetic::kAdd>();
      case Arithmetic::kSubtract:
        return loop.operator()<Arithmetic::kSubtract>();
      case Arithmetic::kMultiply:
        return loop.operator()<Arithmetic::kMultiply>();
      case Arithmetic::kDivide:
        return loop.operator()<Arithmetic::kDivide>();
      case Arithmetic::kMinimum:
        return loop.operator()<Arithmetic::kMinimum>();
      case Arithmetic::kMaximum:
        return loop.operator()<Arithmetic::kMaximum>();
    }
  }
};

// The common size of an axis, or 0 if there is none.
int repeated_size(int a, int b) { return a == b || b == 1 ? a : a == 1 ? b : 0; }

template <Arithmetic kOperation>
void read(const CfgSection& section, const Network& network, Layer& layer) {
  constexpr bool kTwo = kOperation == Arithmetic::kSubtract || kOperation == Arithmetic::kDivide;
  if (layer.inputs.size() < 2 || (kTwo && layer.inputs.size() != 2)) {
    section.fail(section.line_of("from"), std::string("needs ") + (kTwo ? "two" : "two or more") +
                                              " inputs; name them with from=");
  }
  for (const int input : layer.inputs) {
    const Shape& shape = network.output_shape(input);
    const Shape joined = {repeated_size(layer.out.channels, shape.channels),
                          repeated_size(layer.out.height, shape.height),
                          repeated_size(layer.out.width, shape.width)};
    if (joined.elements() == 0) {
      section.fail(section.line_of("from"), text_of(shape) + " does not fit " + text_of(layer.out) +
                                                ": each size must be the same or 1");
    }
    layer.out = joined;
  }
  layer.activation = read_activation(section, "linear");
  layer.rules.memory = MemoryRule::kInPlace;
  layer.operation = std::make_shared<ArithmeticOperation>(kOperation);
}

template <Arithmetic kOperation>
constexpr LayerType kType{.read = read<kOperation>,
                          .loops = kOperation == Arithmetic::kAdd ? Loops::kVectors : Loops::kPlain,
                          .inputs = InputsRule::kMany};

}  // namespace

const LayerType kAddLayer = kType<Arithmetic::kAdd>;
const LayerType kSubLayer = kType<Arithmetic::kSubtract>;
const LayerType kMulLayer = kType<Arithmetic::kMultiply>;
const LayerType kDivLayer = kType<Arithmetic::kDivide>;
const LayerType kMinimumLayer = kType<Arithmetic::kMinimum>;
const LayerType kMaximumLayer = kType<Arithmetic::kMaximum>;

}  // namespace mpe
