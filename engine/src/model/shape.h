// The size of a tensor.
#pragma once

#include <cstdint>
#include <string>

namespace mpe {

enum class Axis : std::uint8_t { kChannels, kHeight, kWidth };

// Channels, height, width of one image's activations; stored planar (CHW).
struct Shape {
  int channels = 0;
  int height = 0;
  int width = 0;
  std::int64_t plane() const { return static_cast<std::int64_t>(height) * width; }
  std::int64_t elements() const { return channels * plane(); }
  int& operator[](Axis axis) {
    return axis == Axis::kChannels ? channels : axis == Axis::kHeight ? height : width;
  }
  int operator[](Axis axis) const { return const_cast<Shape&>(*this)[axis]; }
  // Values from one place of an axis to the next.
  std::int64_t stride(Axis axis) const {
    return axis == Axis::kChannels ? plane() : axis == Axis::kHeight ? width : 1;
  }
  bool operator==(const Shape&) const = default;
};

std::string text_of(const Shape& shape);  // "3x416x416"

}  // namespace mpe
