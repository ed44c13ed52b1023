// Joins the channels of its inputs.
#pragma once

namespace mpe {

struct RouteParameters {
  int groups = 1;    // equal slices of every input's channels, of which one is taken
  int group_id = 0;  // that one
};

}  // namespace mpe
