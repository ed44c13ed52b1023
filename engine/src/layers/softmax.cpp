#include "layers/softmax.h"

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/activation.h"
#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"
#include "reference/loops.h"

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
    const std::int64_t length = input.shape.elements() / parameters_.groups;
    const float temperature = parameters_.temperature;
    convert_tensor(input.tensor, call.output, input.shape.channels, input.shape.plane(), workers);
    workers.pool.parallel_for(parameters_.groups, [&](int, int begin, int end) {
      for (int group = begin; group < end; ++group) {
        float* row = output + group * length;
        float largest = row[0];
        for (std::int64_t i = 1; i < length; ++i) largest = row[i] > largest ? row[i] : largest;
        double sum = 0.0;
        for (std::int64_t i = 0; i < length; ++i) {
          row[i] = exponential(row[i] / temperature - largest / temperature);
          sum += static_cast<double>(row[i]);
        }
        for (std::int64_t i = 0; i < length; ++i) {
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
  layer.rules = {.precision = PrecisionRule::kFloat, .head = HeadRule::kReadsHead};
  layer.operation = std::make_shared<Softmax>(p);
}

}  // namespace

const LayerType kSoftmaxLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
