#include <cstdint>
#include <memory>
#include <string>

#include "layers/copy.h"
#include "layers/registry.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  const int classes = section.integer("classes", 20, 1, Limits::kDimension);
  const int num = section.integer("num", 1, 1, Limits::kDimension);
  const int coords = section.integer("coords", 4, 0, Limits::kDimension);
  const std::int64_t wanted = (std::int64_t{classes} + coords + 1) * num;
  if (layer.in.channels != wanted) {
    section.fail("needs (classes + coords + 1) * num = " + std::to_string(wanted) +
                 " input channels and gets " + std::to_string(layer.in.channels));
  }
  section.reals("anchors");
  layer.rules = kDetectionRules;
  layer.operation = std::make_shared<Copy>();
}

}  // namespace

const LayerType kRegionLayer{.read = read};

}  // namespace mpe
