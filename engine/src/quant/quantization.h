// Affine int8 quantisation of activations: real = scale * (q - zero_point), q in [-128, 127].
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpe {

struct Range {
  float min = 0.0F;
  float max = 0.0F;
};

struct ScaleAndZero {
  float scale;
  std::int32_t zero_point;
};

// One entry: the whole tensor. Otherwise one entry a channel.
struct Quantization {
  std::vector<float> scale;
  std::vector<std::int32_t> zero_point;

  bool per_channel() const { return scale.size() > 1; }
  ScaleAndZero of(int channel) const {
    const std::size_t i = per_channel() ? static_cast<std::size_t>(channel) : 0;
    return {scale[i], zero_point[i]};
  }
};

// The scale and zero point that cover a range, widened to include zero so that zero is exact:
// scale = (max - min) / 255, zero_point = rne(-128 - min / scale). A range without width gives
// scale 1 and zero point 0: nothing but zero is in the tensor.
ScaleAndZero quantization_of(Range range);

// The symmetric int16 step that covers a range: real = scale * q, q in [-32768, 32767].
ScaleAndZero int16_quantization_of(Range range);

}  // namespace mpe
