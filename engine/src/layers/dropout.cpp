#include <memory>

#include "layers/copy.h"
#include "layers/registry.h"

namespace mpe {
namespace {

void read(const CfgSection&, const Network&, Layer& layer) {
  layer.rules = kPassingRules;
  layer.operation = std::make_shared<Copy>();
}

}  // namespace

const LayerType kDropoutLayer{.read = read};

}  // namespace mpe
