#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "layers/copy.h"
#include "layers/registry.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

void read(const CfgSection& section, const Network&, Layer& layer) {
  const int classes = section.integer("classes", 20, 1, Limits::kDimension);
  const int num = section.integer("num", 1, 1, Limits::kDimension);
  const std::vector<int> mask = section.integers("mask");
  const std::vector<float> anchors = section.reals("anchors");
  const std::int64_t boxes = mask.empty() ? num : static_cast<std::int64_t>(mask.size());
  const std::int64_t wanted = (std::int64_t{classes} + 5) * boxes;
  if (layer.in.channels != wanted) {
    section.fail("needs (classes + 5) * " + std::to_string(boxes) +
                 " boxes = " + std::to_string(wanted) + " input channels and gets " +
                 std::to_string(layer.in.channels));
  }
  for (const int index : mask) {
    if (index < 0 || index >= num ||
        (!anchors.empty() && 2 * (index + std::size_t{1}) > anchors.size())) {
      section.fail(section.line_of("mask"), "mask names anchor " + std::to_string(index) +
                                                ", which num= and anchors= do not have");
    }
  }
  layer.rules = kDetectionRules;
  layer.operation = std::make_shared<Copy>();
}

}  // namespace

const LayerType kYoloLayer{.read = read};

}  // namespace mpe
