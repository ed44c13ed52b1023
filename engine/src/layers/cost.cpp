#include "layers/registry.h"

namespace mpe {
namespace {

void read(const CfgSection&, const Network&, Layer& layer) {
  layer.rules = {.precision = PrecisionRule::kKeeps,
                 .memory = MemoryRule::kView,
                 .head = HeadRule::kPasses,
                 .algorithm = "copy"};
}

}  // namespace

const LayerType kCostLayer{.read = read};

}  // namespace mpe
