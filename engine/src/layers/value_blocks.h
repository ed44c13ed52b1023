// Layers that compute value by value do so in blocks, as float, whatever the tensors hold.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/elementwise.h"
#include "model/activation.h"
#include "model/shape.h"

namespace mpe {

inline constexpr int kValueBlock = 512;

// Calls body(channel, position in the plane, count) for blocks of every channel, shared over the
// threads.
template <typename Body>
void for_value_blocks(const Shape& shape, const Workers& workers, Body&& body) {
  const std::int64_t plane = shape.plane();
  workers.pool.parallel_for(shape.channels, [&](int, int begin, int end) {
    for (int c = begin; c < end; ++c) {
      for (std::int64_t i = 0; i < plane; i += kValueBlock) {
        body(c, i, static_cast<int>(std::min<std::int64_t>(kValueBlock, plane - i)));
      }
    }
  });
}

void activate_values(Activation activation, float* values, int count);

}  // namespace mpe
