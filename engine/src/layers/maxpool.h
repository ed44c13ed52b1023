// The largest value of a window that slides over the map.
#pragma once

namespace mpe {

struct MaxpoolParameters {
  int size_y = 1;
  int size_x = 1;
  int stride_y = 1;
  int stride_x = 1;
  int padding = 0;  // pixels in all, of which half, rounded down, come before the map
};

}  // namespace mpe
