#include <memory>
#include <string>

#include "layers/copy.h"
#include "layers/registry.h"
#include "layers/section_keys.h"

namespace mpe {
namespace {

void read(const CfgSection& section, const Network&, Layer& layer) {
  layer.out = read_shape(section);
  if (layer.out.elements() != layer.in.elements()) {
    section.fail("makes " + text_of(layer.out) + ", " + std::to_string(layer.out.elements()) +
                 " values, of " + text_of(layer.in) + ", which has " +
                 std::to_string(layer.in.elements()));
  }
  layer.rules = {
      .precision = PrecisionRule::kKeeps, .memory = MemoryRule::kView, .algorithm = "copy"};
  layer.operation = std::make_shared<Copy>();
}

}  // namespace

const LayerType kReshapeLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
