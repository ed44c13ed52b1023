#include "kernels/activation.h"
#include "layers/deconvolutional.h"
#include "reference/values.h"

namespace mpe {
namespace {

// The place of the input whose window has its value `tap` at place `place`, or -1.
std::int64_t source_of(const WindowAxis& axis, int place, int tap, int in) {
  const std::int64_t from = std::int64_t{place} + axis.before - std::int64_t{tap} * axis.dilation;
  return from >= 0 && from % axis.stride == 0 && from / axis.stride < in ? from / axis.stride : -1;
}

}  // namespace

void reference_deconvolution(const DeconvolutionParameters& p, const LayerCall& call) {
  const LayerInput& input = call.inputs[0];
  const Shape& in = input.shape;
  const Shape& out = call.layer.out;
  const WindowAxis& vertical = p.window.y;
  const WindowAxis& horizontal = p.window.x;
  const int depth = in.channels / p.groups;
  const int filters = out.channels / p.groups;
  for_places(out, [&](int f, int row, int column) {
    float sum = call.values[static_cast<std::size_t>(f)];
    const int group = f / filters;
    for (int c = group * depth; c < (group + 1) * depth; ++c) {
      std::int64_t weight = (std::int64_t{c} * filters + f % filters) * vertical.size;
      for (int ky = 0; ky < vertical.size; ++ky, ++weight) {
        const std::int64_t y = source_of(vertical, row, ky, in.height);
        if (y < 0) continue;
        for (int kx = 0; kx < horizontal.size; ++kx) {
          const std::int64_t x = source_of(horizontal, column, kx, in.width);
          if (x < 0) continue;
          sum +=
              call.values[static_cast<std::size_t>(out.channels + weight * horizontal.size + kx)] *
              value_at(input.tensor, c, position(in, c, static_cast<int>(y), static_cast<int>(x)));
        }
      }
    }
    set_value(call.output, f, position(out, f, row, column), activate(call.layer.activation, sum));
  });
}

}  // namespace mpe
