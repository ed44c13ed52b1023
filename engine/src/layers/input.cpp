#include <memory>
#include <string>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"

namespace mpe {
namespace {

// One more input of the network. Its values lie behind those of [net] and of the sections before.
void read(const CfgSection& section, const Network& network, Layer& layer) {
  layer.in = layer.out = read_shape(section);
  layer.rules = {.precision = PrecisionRule::kFloat,
                 .memory = MemoryRule::kInput,
                 .view_begin = network.input_elements(),
                 .algorithm = "none"};
  if (layer.rules.view_begin + layer.out.elements() > NetworkLimits::kElements) {
    section.fail("makes the inputs too large together: the limit is " +
                 std::to_string(NetworkLimits::kElements) + " values");
  }
  layer.operation = std::make_shared<Operation>();  // nothing is done in an inference
}

}  // namespace

const LayerType kInputLayer{.read = read, .inputs = InputsRule::kNone};

}  // namespace mpe
