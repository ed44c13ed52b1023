// Single values of tensors in any precision.
#pragma once

#include <cstdint>

#include "layers/operation.h"

namespace mpe {

// Of a value in a tensor, counted in values from its start.
inline std::int64_t position(const Shape& shape, int c, int y, int x) {
  return (static_cast<std::int64_t>(c) * shape.height + y) * shape.width + x;
}

// As float. `channel` chooses the quantisation.
float value_at(const TensorView& tensor, int channel, std::int64_t position);
void set_value(const MutableTensorView& tensor, int channel, std::int64_t position, float value);

// As it is stored: both tensors have one format.
void copy_value(const TensorView& from, std::int64_t from_position, const MutableTensorView& to,
                std::int64_t to_position);

// From one format to another, by the rules of convert_tensor().
void convert_value(const TensorView& from, int from_channel, std::int64_t from_position,
                   const MutableTensorView& to, int to_channel, std::int64_t to_position);

// Calls body(c, y, x) for every place of a tensor.
template <typename Body>
void for_places(const Shape& shape, Body&& body) {
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x) body(c, y, x);
    }
  }
}

}  // namespace mpe
