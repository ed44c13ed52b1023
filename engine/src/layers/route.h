// Joins its inputs along an axis.
#pragma once

#include "layers/operation.h"
#include "model/shape.h"

namespace mpe {

struct RouteParameters {
  Axis axis = Axis::kChannels;
  int groups = 1;    // kChannels: equal slices of every input's channels, of which one is taken
  int group_id = 0;  // that one
};

void reference_route(const RouteParameters& p, const LayerCall& call);

}  // namespace mpe
