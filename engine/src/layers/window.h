// Windows that slide over a map.
#pragma once

namespace mpe {

// Positions of a window along one axis, or 0 if it does not fit once. `padding`: of both ends.
// Arguments are bounded by NetworkLimits, so that nothing overflows.
constexpr int window_positions(int in, int padding, int window, int stride) {
  const int room = in + padding - window;
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace mpe
