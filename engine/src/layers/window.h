// Windows that slide over a map.
#pragma once

#include <cstdint>

#include "model/cfg_file.h"
#include "model/shape.h"

namespace mpe {

// Positions of a window along one axis, or 0 if it does not fit once. `padding`: of both ends.
// Arguments are bounded by NetworkLimits, so that nothing overflows.
constexpr int window_positions(int in, int padding, int window, int stride) {
  const int room = in + padding - window;
  return room < 0 ? 0 : room / stride + 1;
}

struct WindowAxis {
  int size = 1;
  int stride = 1;
  int dilation = 1;
  int before = 0;  // pixels of padding
  int after = 0;

  std::int64_t extent() const { return std::int64_t{size - 1} * dilation + 1; }
  int positions(int in) const {
    return window_positions(in, before + after, static_cast<int>(extent()), stride);
  }
  // Whether the window has a pixel of the map under it at every position.
  bool always_sees(int in) const;
};

// Places of an axis of the output.
struct PlaceSpan {
  int begin;
  int end;
};

// Those of `places` whose input place, x * stride + offset, lies in [begin, end).
PlaceSpan places_reading(int offset, int stride, int begin, int end, PlaceSpan places);

struct Window {
  WindowAxis y;
  WindowAxis x;
};

// Darknet's size=, stride=, dilation=, pad= and padding=, and the keys that set one axis or one
// side: size_x=, size_y=, stride_x=, stride_y=, dilation_x=, dilation_y=, pad_top=, pad_left=,
// pad_bottom=, pad_right=. Throws mpe::Error, naming the line, at a value or an extent beyond
// NetworkLimits. A window may be larger than the map.
Window read_window(const CfgSection& section, const Shape& in);

}  // namespace mpe
