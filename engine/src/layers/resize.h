// A map of another height and width, by the nearest value or by linear interpolation.
#pragma once

#include <vector>

#include "layers/operation.h"

namespace mpe {

// The output's place takes (1 - weight) of the input's place `lower` and `weight` of `upper`.
struct ResizeTap {
  int lower = 0;
  int upper = 0;
  float weight = 0.0F;
};

struct ResizeParameters {
  bool linear = false;
  std::vector<ResizeTap> rows;
  std::vector<ResizeTap> columns;
};

// The value between two neighbours, `weight` of the way to the upper one.
inline float between(float lower, float upper, float weight) {
  return lower + weight * (upper - lower);
}

void reference_resize(const ResizeParameters& p, const LayerCall& call);

}  // namespace mpe
