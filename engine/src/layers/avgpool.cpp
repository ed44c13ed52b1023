#include "layers/registry.h"

namespace mpe {
namespace {

// Global: one value per channel.
void read(const CfgSection&, const Network&, Layer& layer) {
  layer.out = {layer.in.channels, 1, 1};
}

}  // namespace

const LayerType kAvgpoolLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
