#include <string>

#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"spatial"});
  if (section.find("tree") != nullptr) {
    section.fail(section.line_of("tree"), "softmax trees are not supported");
  }
  layer.groups = section.integer("groups", 1, 1, Limits::kDimension);
  layer.temperature = section.real("temperature", 1.0F);
  if (!(layer.temperature > 0.0F)) {
    section.fail(section.line_of("temperature"), "temperature must be above 0");
  }
  if (layer.in.elements() % layer.groups != 0) {
    section.fail(section.line_of("groups"), "groups=" + std::to_string(layer.groups) +
                                                " does not divide the " +
                                                std::to_string(layer.in.elements()) + " inputs");
  }
  layer.rules = {.precision = PrecisionRule::kFloat, .head = HeadRule::kReadsHead};
}

}  // namespace

const LayerType kSoftmaxLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
