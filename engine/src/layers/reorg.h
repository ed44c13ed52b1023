// Darknet's own way from space to depth.
#pragma once

namespace mpe {

struct ReorgParameters {
  int stride = 1;
  bool reverse = false;  // depth to space
};

}  // namespace mpe
