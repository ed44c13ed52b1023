#include "layers/softmax.h"

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/activation.h"
#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

class Softmax final : public OperationWith<SoftmaxParameters> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override { return {.groups = parameters_.groups}; }

  void run(const LayerCall& call, const Workers& workers) const override {
    const LayerInput& input = call.inputs[0];
    auto* output = static_cast<float*>(call.output.data);
    const std::int64_t stride = parameters_.stride;
    const std::int64_t end_of_line = parameters_.length * stride;
    const float temperature = parameters_.temperature;
    const auto lines = static_cast<int>(input.shape.elements() / parameters_.length);
    convert_tensor(input.tensor, call.output, input.shape.channels, input.shape.plane(), workers);
    workers.pool.parallel_for(lines, [&](int, int begin, int end) {
      for (int line = begin; line < end; ++line) {
        float* row = output + parameters_.start_of(line);
        float largest = row[0];
        for (std::int64_t i = 0; i < end_of_line; i += stride) {
          largest = row[i] > largest ? row[i] : largest;
        }
        double sum = 0.0;
        for (std::int64_t i = 0; i < end_of_line; i += stride) {
          row[i] = exponential(row[i] / temperature - largest / temperature);
          sum += static_cast<double>(row[i]);
        }
        for (std::int64_t i = 0; i < end_of_line; i += stride) {
          row[i] = static_cast<float>(static_cast<double>(row[i]) / sum);
        }
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_softmax(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override {
    return converts_by_vectors(call.inputs[0].tensor, call.output);
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"spatial"});
  if (section.find("tree") != nullptr) {
    section.fail(section.line_of("tree"), "softmax trees are not supported");
  }
  SoftmaxParameters p;
  layer.rules.precision = PrecisionRule::kFloat;
  if (section.find("axis") != nullptr) {
    const Axis axis = read_axis(section, "channels");
    p.length = layer.in[axis];
    p.stride = layer.in.stride(axis);
    layer.operation = std::make_shared<Softmax>(p);
    return;
  }
  p.groups = section.integer("groups", 1, 1, Limits::kDimension);
  p.temperature = section.real("temperature", 1.0F);
  if (!(p.temperature > 0.0F)) {
    section.fail(section.line_of("temperature"), "temperature must be above 0");
  }
  if (layer.in.elements() % p.groups != 0) {
    section.fail(section.line_of("groups"), "groups=" + std::to_string(p.groups) +
                                                " does not divide the " +
                                                std::to_string(layer.in.elements()) + " inputs");
  }
  p.length = layer.in.elements() / p.groups;
  layer.rules.head = HeadRule::kReadsHead;
  layer.operation = std::make_shared<Softmax>(p);
}

}  // namespace

const LayerType kSoftmaxLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
