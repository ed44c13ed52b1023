// The lines that int8 layers compute activations by: close to the activation, to its asymptotes far
// away, and the same on every machine.
#include "quant/activation_lines.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "check.h"

namespace {

using mpe::Activation;
using mpe::ActivationLine;

constexpr Activation kCurved[] = {
#define ACTIVATION(kind, word, function) Activation::k##kind,
#include "model/activations.def"
};

double largest_error(Activation activation) {
  switch (activation) {
    case Activation::kHardMish:  // bends at -2
      return 4e-4;
    case Activation::kHardSwish:  // bends at -3
      return 2e-4;
    case Activation::kHardSigmoid:  // bends at -3
    case Activation::kElu:          // at 0 its curve ends
      return 7e-5;
    default:
      return 6e-5;
  }
}

TEST(lines_are_close_to_the_activation) {
  for (const Activation activation : kCurved) {
    const ActivationLine* lines = mpe::activation_lines(activation);
    double worst = 0.0;
    for (int i = -200000; i <= 200000; ++i) {
      const float x = static_cast<float>(i) * 1.0001e-4F;
      const double exact = mpe::activate(activation, x);
      const double error = std::abs(mpe::activate_by_lines(lines, x) - exact);
      if (!(error <= worst)) worst = error;
    }
    CHECK(worst < largest_error(activation));
  }
}

TEST(lines_follow_asymptotes) {
  for (const float x : {20.0F, 1e3F, 1e6F, 1e30F}) {
    for (const Activation activation : kCurved) {
      const ActivationLine* lines = mpe::activation_lines(activation);
      for (const float at : {x, -x}) {
        const float exact = mpe::activate(activation, at);
        CHECK(std::abs(mpe::activate_by_lines(lines, at) - exact) <= 1e-5F + 1e-6F * x);
      }
    }
  }
}

TEST(bits_are_the_same_everywhere) {
  std::uint32_t digest = 0;
  for (const Activation activation : kCurved) {
    const ActivationLine* lines = mpe::activation_lines(activation);
    for (int i = -mpe::kLinesEitherSide; i < mpe::kLinesEitherSide; ++i) {
      for (const float value : {lines[i].intercept, lines[i].slope}) {
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        digest = digest * 31 + bits;
      }
    }
  }
  CHECK_EQUAL(digest, 3566093590U);
}

}  // namespace
