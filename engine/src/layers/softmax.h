// Softmax over equal runs of the input's CHW order.
#pragma once

namespace mpe {

struct SoftmaxParameters {
  int groups = 1;  // runs
  float temperature = 1.0F;
};

}  // namespace mpe
