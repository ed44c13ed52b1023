// How pictures become numbers.
#pragma once

#include <vector>

namespace mpe {

// What the bytes of a picture become: (byte - mean) / deviation.
struct InputValues {
  std::vector<float> mean = {0.0F};  // one entry, or one for each channel that the network takes
  std::vector<float> deviation = {255.0F};  // likewise
  bool blue_first = false;                  // the network takes blue, green, red
};

}  // namespace mpe
