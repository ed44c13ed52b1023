#include "layers/function.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/activation.h"
#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

using Kind = FunctionParameters::Kind;

constexpr int kInt8Values = 256;
static_assert(kInt8Values <= kValueBlock);

class Function final : public OperationWith<FunctionParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    if (maps_int8(call)) return run_by_table(call, workers);
    const Shape shape = call.values.empty() ? shape_of_blocks(call) : call.layer.out;
    for_value_blocks(shape, workers, [&](int channel, std::int64_t first, int count) {
      const float slope =
          call.values.empty() ? 0.0F : call.values[static_cast<std::size_t>(channel)];
      run_block(call.inputs[0].tensor, call.output, channel, channel * shape.plane() + first, count,
                slope, workers);
    });
  }

  void run_reference(const LayerCall& call) const override {
    reference_function(parameters_, call);
  }

  bool runs_vectors(const LayerCall& call) const override {
    return converts_int8(call) || parameters_.kind == Kind::kActivation ||
           parameters_.kind == Kind::kExp;
  }

 private:
  // Is the output a function of the 256 values of one int8 step, and worth a table of them?
  static bool maps_int8(const LayerCall& call) {
    const TensorView& in = call.inputs[0].tensor;
    return in.precision == Precision::kInt8 && call.output.precision == Precision::kInt8 &&
           !in.quantization->per_channel() && !call.output.quantization->per_channel() &&
           call.values.empty() && call.layer.out.elements() > kInt8Values;
  }

  void run_by_table(const LayerCall& call, const Workers& workers) const {
    std::array<std::int8_t, kInt8Values> table;
    for (int i = 0; i < kInt8Values; ++i) {
      table[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i);  // as its two's complement
    }
    run_block({table.data(), Precision::kInt8, call.inputs[0].tensor.quantization},
              {table.data(), Precision::kInt8, call.output.quantization}, 0, 0, kInt8Values, 0.0F,
              workers);
    const auto* in = static_cast<const std::uint8_t*>(call.inputs[0].tensor.data);
    auto* out = static_cast<std::int8_t*>(call.output.data);
    const std::int64_t plane = call.layer.out.plane();
    for_value_blocks(call.layer.out, workers, [&](int channel, std::int64_t first, int count) {
      const std::int64_t offset = channel * plane + first;
      for (int i = 0; i < count; ++i) out[offset + i] = table[in[offset + i]];
    });
  }

  void run_block(const TensorView& in, const MutableTensorView& out, int channel,
                 std::int64_t offset, int count, float slope, const Workers& workers) const {
    float values[kValueBlock];
    load_values(in, channel, offset, count, values, workers.vectors);
    apply(values, count, slope, *workers.vectors);
    store_values(values, out, channel, offset, count, workers.vectors);
  }

  // One loop for each function, so that the choice is made outside of it.
  void apply(float* values, int count, float slope, const ElementwiseKernels& vectors) const {
    const auto loop = [&, p = parameters_]<Kind kKind>() {
      for (int i = 0; i < count; ++i) values[i] = compute(kKind, p, values[i], slope);
    };
    switch (parameters_.kind) {
      case Kind::kActivation:
        return activate_values(parameters_.activation, values, count, vectors);
      case Kind::kLeaky:
        return loop.operator()<Kind::kLeaky>();
      case Kind::kElu:
        return loop.operator()<Kind::kElu>();
      case Kind::kHardSigmoid:
        return loop.operator()<Kind::kHardSigmoid>();
      case Kind::kClip:
        return loop.operator()<Kind::kClip>();
      case Kind::kExp:
        return vectors.exponentials(values, count);
      case Kind::kSqrt:
        return loop.operator()<Kind::kSqrt>();
      case Kind::kAbs:
        return loop.operator()<Kind::kAbs>();
      case Kind::kNeg:
        return loop.operator()<Kind::kNeg>();
      case Kind::kPrelu:
        return loop.operator()<Kind::kPrelu>();
    }
  }
};

void finish(Layer& layer, const FunctionParameters& p) {
  layer.rules.memory = MemoryRule::kInPlace;
  layer.operation = std::make_shared<Function>(p);
}

void read_activation_layer(const CfgSection& section, const Network&, Layer& layer) {
  FunctionParameters p;
  const std::string_view word = section.word("activation", "linear");
  const auto takes = [&](std::string_view name, std::string_view key) {
    if (section.find(key) != nullptr && word != name) {
      section.fail(section.line_of(key), std::string(key) + "= belongs to activation=" +
                                             std::string(name) + ", not to " + std::string(word));
    }
    return section.find(key) != nullptr;
  };
  if (word == "clip") {
    p = {Kind::kClip, Activation::kLinear,
         section.real("min", -std::numeric_limits<float>::infinity()),
         section.real("max", std::numeric_limits<float>::infinity())};
    if (!(p.alpha <= p.beta)) section.fail(section.line_of("max"), "max= is below min=");
    return finish(layer, p);
  }
  takes("clip", "min");
  takes("clip", "max");
  if (word == "leaky" && section.find("alpha") != nullptr) {
    p = {Kind::kLeaky, Activation::kLinear, section.real("alpha", 0.1F), 0.0F};
  } else if (word == "elu" && section.find("alpha") != nullptr) {
    p = {Kind::kElu, Activation::kLinear, section.real("alpha", 1.0F), 0.0F};
  } else if (word == "hard_sigmoid" &&
             (section.find("alpha") != nullptr || section.find("beta") != nullptr)) {
    p = {Kind::kHardSigmoid, Activation::kLinear, section.real("alpha", 0.166666667F),
         section.real("beta", 0.5F)};
  } else {
    for (const std::string_view key : {"alpha", "beta"}) {
      if (section.find(key) != nullptr) {
        section.fail(section.line_of(key),
                     "activation=" + std::string(word) + " has no " + std::string(key) + "=");
      }
    }
    p.activation = read_activation(section, "linear");
  }
  finish(layer, p);
}

template <Kind kKind>
void read_function(const CfgSection&, const Network&, Layer& layer) {
  FunctionParameters p;
  p.kind = kKind;
  finish(layer, p);
  if (kKind == Kind::kPrelu) {
    layer.rules.weights = WeightsRule::kValues;
    layer.parameters = layer.out.channels;
  }
}

}  // namespace

const LayerType kActivationLayer{.read = read_activation_layer, .loops = Loops::kVectors};
const LayerType kPreluLayer{.read = read_function<Kind::kPrelu>, .loops = Loops::kPlain};
const LayerType kExpLayer{.read = read_function<Kind::kExp>, .loops = Loops::kVectors};
const LayerType kSqrtLayer{.read = read_function<Kind::kSqrt>, .loops = Loops::kPlain};
const LayerType kAbsLayer{.read = read_function<Kind::kAbs>, .loops = Loops::kPlain};
const LayerType kNegLayer{.read = read_function<Kind::kNeg>, .loops = Loops::kPlain};

}  // namespace mpe
