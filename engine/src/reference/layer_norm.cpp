#include "layers/layer_norm.h"

#include <cmath>

#include "reference/values.h"

namespace mpe {

void reference_layer_norm(const LayerNormParameters& p, const LayerCall& call) {
  const LayerInput& input = call.inputs[0];
  const Shape& in = input.shape;
  const Shape lines = {p.channels ? 1 : in.channels, p.height ? 1 : in.height,
                       p.width ? 1 : in.width};
  const Shape line = {p.channels ? in.channels : 1, p.height ? in.height : 1,
                      p.width ? in.width : 1};
  const auto count = static_cast<double>(line.elements());
  for_places(lines, [&](int c, int y, int x) {
    const auto value = [&](int dc, int dy, int dx) {
      const std::int64_t here = position(in, c + dc, y + dy, x + dx);
      return static_cast<double>(value_at(input.tensor, c + dc, here));
    };
    double sum = 0.0;
    for_places(line, [&](int dc, int dy, int dx) { sum += value(dc, dy, dx); });
    const double mean = sum / count;
    double squares = 0.0;
    for_places(line, [&](int dc, int dy, int dx) {
      const double from_mean = value(dc, dy, dx) - mean;
      squares += from_mean * from_mean;
    });
    const double factor = 1.0 / std::sqrt(squares / count + static_cast<double>(p.epsilon));
    for_places(line, [&](int dc, int dy, int dx) {
      set_value(call.output, c + dc, position(in, c + dc, y + dy, x + dx),
                static_cast<float>((value(dc, dy, dx) - mean) * factor));
    });
  });
}

}  // namespace mpe
