// Activations of int8 layers as straight lines, by the rule of quant/requantize.h.
#pragma once

#include <cstdint>

#include "inline.h"
#include "kernels/activation.h"
#include "model/activation.h"

namespace mpe {

struct ActivationLine {
  float intercept;
  float slope;
};

// Line i, from -kLinesEitherSide on, is that of [i, i + 1) / 32. The first and the last continue
// beyond. An argument is a 16-bit number of 2048ths first, which has the index in its upper bits.
inline constexpr int kLinesPerUnit = 32;
inline constexpr int kLinesEitherSide = 512;
inline constexpr int kPlaceBits = 11;  // of 16, after the point
inline constexpr int kPlaceShift = 6;  // from place to index

// Line 0 of an activation that is not foldable: made once, the same on every machine.
const ActivationLine* activation_lines(Activation activation);

// The value at x, a number.
MPE_INLINE float activate_by_lines(const ActivationLine* lines, float x) {
  const float place = smaller(32767.0F, larger(-32768.0F, x * float{1 << kPlaceBits}));
  const ActivationLine& line = lines[static_cast<std::int32_t>(place) >> kPlaceShift];
  return multiply_add(line.intercept, line.slope, x);
}

}  // namespace mpe
