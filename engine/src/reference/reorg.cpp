#include "layers/reorg.h"

#include "reference/values.h"

namespace mpe {

// Darknet's reorg_cpu: the input's memory is read as channels / stride^2 maps, stride times as high
// and as wide.
void reference_reorg(const ReorgParameters& p, const LayerCall& call) {
  const Shape& in = call.layer.in;
  const int maps = in.channels / (p.stride * p.stride);
  const Shape large{maps, in.height * p.stride, in.width * p.stride};
  for_places(in, [&](int c, int y, int x) {
    const int square = c / maps;
    const std::int64_t dense = position(in, c, y, x);
    const std::int64_t spread = position(large, c % maps, y * p.stride + square / p.stride,
                                         x * p.stride + square % p.stride);
    copy_value(call.inputs[0].tensor, p.reverse ? dense : spread, call.output,
               p.reverse ? spread : dense);
  });
}

}  // namespace mpe
