// Bounds beyond which a cfg is taken for a mistake.
#pragma once

#include <cstdint>

namespace mpe {

// Within them every count of elements fits an int, and every sum over a network fits 64 bits.
struct NetworkLimits {
  static constexpr int kLayers = 4096;
  static constexpr int kInputs = 256;         // of one route or shortcut
  static constexpr int kDimension = 1 << 16;  // channels, height, width
  static constexpr int kKernel = 1 << 10;     // size, padding, stride
  static constexpr int kExtent = 1 << 16;     // pixels from a kernel's first tap to its last
  // Of one channel with its padding: this, or four times the pixels without padding.
  static constexpr std::int64_t kPaddedPixels = std::int64_t{1} << 25;
  static constexpr std::int64_t kElements = std::int64_t{1} << 28;  // of one tensor
  static constexpr std::int64_t kAllElements = std::int64_t{1} << 31;
  static constexpr std::int64_t kParameters = std::int64_t{1} << 29;  // of one layer
  static constexpr std::int64_t kAllParameters = std::int64_t{1} << 30;
  static constexpr std::int64_t kAllMacs = std::int64_t{1} << 48;
};

}  // namespace mpe
