#include <memory>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"

namespace mpe {
namespace {

void read(const CfgSection& section, const Network&, Layer& layer) {
  layer.in = layer.out = read_shape(section);
  layer.parameters = layer.out.elements();
  layer.rules = {.precision = PrecisionRule::kFloat,
                 .memory = MemoryRule::kConstant,
                 .weights = WeightsRule::kValues,
                 .algorithm = "none"};
  layer.operation = std::make_shared<Operation>();  // nothing is done in an inference
}

}  // namespace

const LayerType kConstantLayer{.read = read, .inputs = InputsRule::kNone};

}  // namespace mpe
