#include "reference/values.h"

#include "layers/typed.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

ScaleAndZero step_of(const Quantization& quantization, int channel) {
  const auto i = quantization.per_channel() ? static_cast<std::size_t>(channel) : 0;
  return {quantization.scale[i], quantization.zero_point[i]};
}

}  // namespace

float value_at(const TensorView& tensor, int channel, std::int64_t position) {
  float value = 0.0F;
  load_values(tensor, channel, position, 1, &value, nullptr);
  return value;
}

void set_value(const MutableTensorView& tensor, int channel, std::int64_t position, float value) {
  store_values(&value, tensor, channel, position, 1, nullptr);
}

void copy_value(const TensorView& from, std::int64_t from_position, const MutableTensorView& to,
                std::int64_t to_position) {
  with_typed(from, to,
             [&]<typename T>(const T* in, T* out) { out[to_position] = in[from_position]; });
}

void convert_value(const TensorView& from, int from_channel, std::int64_t from_position,
                   const MutableTensorView& to, int to_channel, std::int64_t to_position) {
  if (from.precision != to.precision) {
    return set_value(to, to_channel, to_position, value_at(from, from_channel, from_position));
  }
  if (from.precision != Precision::kInt8) return copy_value(from, from_position, to, to_position);
  const ScaleAndZero a = step_of(*from.quantization, from_channel);
  const ScaleAndZero b = step_of(*to.quantization, to_channel);
  if (a.scale == b.scale && a.zero_point == b.zero_point) {
    return copy_value(from, from_position, to, to_position);
  }
  const int value = static_cast<const std::int8_t*>(from.data)[from_position] - a.zero_point;
  const float ratio = requantize_multiplier(a.scale, 1.0F, b.scale);
  static_cast<std::int8_t*>(to.data)[to_position] =
      saturate_int8(static_cast<float>(value) * ratio, b.zero_point);
}

}  // namespace mpe
