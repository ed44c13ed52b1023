#include "layers/reduce.h"

#include <cmath>

#include "reference/values.h"

namespace mpe {
namespace {

// The output's value at place `output`: in double, in the order in which the values lie.
void reduce_to(const ReduceParameters& p, const LayerCall& call, std::int64_t output) {
  const LayerInput& input = call.inputs[0];
  const Shape& in = input.shape;
  const Shape& out = call.layer.out;
  const auto c = static_cast<int>(output / out.plane());
  const auto y = static_cast<int>(output % out.plane() / out.width);
  const auto x = static_cast<int>(output % out.width);
  const Shape window = {p.channels ? in.channels : 1, p.height ? in.height : 1,
                        p.width ? in.width : 1};
  double sum = 0.0;
  float extreme = value_at(input.tensor, c, position(in, c, y, x));
  for_places(window, [&](int dc, int dy, int dx) {
    const float value = value_at(input.tensor, c + dc, position(in, c + dc, y + dy, x + dx));
    const auto exact = static_cast<double>(value);
    sum += p.reduction == Reduction::kL2 ? exact * exact : exact;
    if (p.reduction == Reduction::kMax ? value > extreme : value < extreme) extreme = value;
  });
  switch (p.reduction) {
    case Reduction::kMean:
      sum /= static_cast<double>(window.elements());
      break;
    case Reduction::kL2:
      sum = std::sqrt(sum);
      break;
    case Reduction::kMax:
    case Reduction::kMin:
      sum = static_cast<double>(extreme);
      break;
    case Reduction::kSum:
      break;
  }
  set_value(call.output, c, output, static_cast<float>(sum));
}

}  // namespace

void reference_reduce(const ReduceParameters& p, const LayerCall& call) {
  for (std::int64_t i = 0; i < call.layer.out.elements(); ++i) reduce_to(p, call, i);
}

}  // namespace mpe
