// The classical techniques that make a convolution fast, in the order in which an ablation adds
// them. As an algorithm, a technique's name stands for itself and all before it: a layer runs by
// the last of them that concerns its kind. Only an engine for the ablation has them (the CMake
// option MPE_ABLATION).
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace mpe {

enum class Technique : std::uint8_t {
  kPlain,         // one output value after the other, its sum in the order of the textbook
  kReordered,     // the innermost loop walks along a row of input and output
  kTiled,         // by blocks of channels and rows that stay in the first-level cache
  kUnrolled,      // and a few output channels' and columns' sums in registers
  kSimd,          // which hold vectors of columns
  kIm2col,        // a matrix of all patches, and a packed product with it
  kChannelLast,   // pointwise: the product's panels, channels together, straight from the map
  kChannelMajor,  // depthwise: one channel's plane after the other
  kInPlace,       // and over the input
  kWinograd,      // 3x3, where it is cheaper
};

inline constexpr std::string_view kTechniques[] = {
    "plain",  "reordered",    "tiled",         "unrolled", "simd",
    "im2col", "channel-last", "channel-major", "in-place", "winograd"};

constexpr std::optional<Technique> find_technique(std::string_view name) {
  for (std::uint8_t i = 0; i < std::size(kTechniques); ++i) {
    if (kTechniques[i] == name) return static_cast<Technique>(i);
  }
  return std::nullopt;
}

}  // namespace mpe
