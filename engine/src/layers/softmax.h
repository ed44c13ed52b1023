// Softmax over lines of values.
#pragma once

#include <cstdint>

#include "layers/operation.h"

namespace mpe {

struct SoftmaxParameters {
  std::int64_t length = 1;  // of a line
  std::int64_t stride = 1;  // from one value of it to the next
  int groups = 1;           // as Darknet calls the lines
  float temperature = 1.0F;

  // The place of a line's first value.
  std::int64_t start_of(std::int64_t line) const {
    return line / stride * (length * stride) + line % stride;
  }
};

void reference_softmax(const SoftmaxParameters& p, const LayerCall& call);

}  // namespace mpe
