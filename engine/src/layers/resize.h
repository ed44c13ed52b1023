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

// Of four values, columns first.
inline float interpolate(float upper_left, float upper_right, float lower_left, float lower_right,
                         float across, float down) {
  const float top = upper_left + across * (upper_right - upper_left);
  const float bottom = lower_left + across * (lower_right - lower_left);
  return top + down * (bottom - top);
}

void reference_resize(const ResizeParameters& p, const LayerCall& call);

}  // namespace mpe
