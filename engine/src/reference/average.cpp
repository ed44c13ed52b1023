#include <algorithm>

#include "layers/pool.h"
#include "reference/values.h"

namespace mpe {

void reference_average(const AverageParameters& p, const LayerCall& call) {
  const LayerInput& input = call.inputs[0];
  const WindowAxis& vertical = p.window.y;
  const WindowAxis& horizontal = p.window.x;
  for_places(call.layer.out, [&](int c, int row, int column) {
    float sum = 0.0F;
    int inside = 0;
    for (int ky = 0; ky < vertical.size; ++ky) {
      for (int kx = 0; kx < horizontal.size; ++kx) {
        const int y = row * vertical.stride + ky - vertical.before;
        const int x = column * horizontal.stride + kx - horizontal.before;
        if (y < 0 || y >= input.shape.height || x < 0 || x >= input.shape.width) continue;
        sum += value_at(input.tensor, c, position(input.shape, c, y, x));
        ++inside;
      }
    }
    const int counted = p.count_padding ? vertical.size * horizontal.size : std::max(inside, 1);
    set_value(call.output, c, position(call.layer.out, c, row, column),
              sum / static_cast<float>(counted));
  });
}

}  // namespace mpe
