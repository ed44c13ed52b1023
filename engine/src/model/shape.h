// The size of a tensor.
#pragma once

#include <cstdint>
#include <string>

namespace mpe {

// Channels, height, width of one image's activations; stored planar (CHW).
struct Shape {
  int channels = 0;
  int height = 0;
  int width = 0;
  std::int64_t plane() const { return static_cast<std::int64_t>(height) * width; }
  std::int64_t elements() const { return channels * plane(); }
  bool operator==(const Shape&) const = default;
};

std::string text_of(const Shape& shape);  // "3x416x416"

}  // namespace mpe
