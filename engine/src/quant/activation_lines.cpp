#include "quant/activation_lines.h"

#include <array>
#include <cstddef>

namespace mpe {
namespace {

using Lines = std::array<ActivationLine, 2 * kLinesEitherSide>;

// The chord, moved so that its error at the ends is that in the middle.
ActivationLine line_between(Activation activation, double left, double right) {
  const auto exact = [&](double x) {
    return static_cast<double>(activate(activation, static_cast<float>(x)));
  };
  const double slope = (exact(right) - exact(left)) / (right - left);
  const double sag = exact((left + right) / 2) - (exact(left) + exact(right)) / 2;
  return {static_cast<float>(exact(left) - slope * left + sag / 2), static_cast<float>(slope)};
}

Lines make_lines(Activation activation) {
  constexpr double kUnit = kLinesPerUnit;
  constexpr double kFar = 4096;  // where asymptotes are drawn to
  Lines lines;
  for (int i = -kLinesEitherSide; i < kLinesEitherSide; ++i) {
    const double left = i == -kLinesEitherSide ? -kFar : i / kUnit;
    const double right = i == kLinesEitherSide - 1 ? kFar : (i + 1) / kUnit;
    lines[static_cast<std::size_t>(i + kLinesEitherSide)] = line_between(activation, left, right);
  }
  return lines;
}

template <Activation kActivation>
const ActivationLine* lines_of() {
  static const Lines lines = make_lines(kActivation);
  return lines.data() + kLinesEitherSide;
}

}  // namespace

const ActivationLine* activation_lines(Activation activation) {
  switch (activation) {
#define ACTIVATION(kind, word, function) \
  case Activation::k##kind:              \
    return lines_of<Activation::k##kind>();
#include "model/activations.def"
    default:
      return lines_of<Activation::kLogistic>();
  }
}

}  // namespace mpe
