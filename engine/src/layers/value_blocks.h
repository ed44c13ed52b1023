// Layers that compute value by value do so in blocks, as float, whatever the tensors hold.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/elementwise.h"
#include "layers/operation.h"
#include "model/activation.h"
#include "model/shape.h"

namespace mpe {

inline constexpr int kValueBlock = 512;

// Calls body(channel, position in the plane, count) for blocks of every channel, shared over the
// threads.
template <typename Body>
void for_value_blocks(const Shape& shape, const Workers& workers, Body&& body) {
  const std::int64_t plane = shape.plane();
  const std::int64_t blocks = (plane + kValueBlock - 1) / kValueBlock;
  workers.pool.parallel_for(
      static_cast<int>(shape.channels * blocks), [&](int, int begin, int end) {
        for (int block = begin; block < end; ++block) {
          const std::int64_t i = block % blocks * kValueBlock;
          body(static_cast<int>(block / blocks), i,
               static_cast<int>(std::min<std::int64_t>(kValueBlock, plane - i)));
        }
      });
}

// The shape of the output, or one channel with all its values where channels make no difference:
// every input has the output's shape or is a single value, and no tensor's int8 steps differ by
// channel. Maps of many channels with few places each then have fewer, longer blocks.
Shape shape_of_blocks(const LayerCall& call);

void activate_values(Activation activation, float* values, int count,
                     const ElementwiseKernels& vectors);

// Loads the values that stand against `count` places of channel `channel` of an `out`, from place
// `first` of the plane on. `out` is the shape of the output, whose other inputs' axes of size 1 are
// repeated, or shape_of_blocks().
void load_repeated(const LayerInput& input, const Shape& out, int channel, std::int64_t first,
                   int count, float* values, const ElementwiseKernels* vectors);

}  // namespace mpe
