// Repeats every value in a square, times a factor.
#pragma once

namespace mpe {

struct UpsampleParameters {
  int stride = 1;  // of the square
  float scale = 1.0F;
};

}  // namespace mpe
