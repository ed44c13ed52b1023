#include "layers/window.h"

#include <algorithm>
#include <string>

#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

// A stride below 1 in one direction means the common one.
int read_stride(const CfgSection& section, std::string_view key, int common) {
  const int stride = section.integer(key, common, -1, Limits::kKernel);
  return stride < 1 ? common : stride;
}

void check_extent(const CfgSection& section, const WindowAxis& axis, std::string_view direction) {
  if (axis.extent() <= Limits::kExtent) return;
  section.fail(section.line_of("dilation"),
               "size=" + std::to_string(axis.size) +
                   " and dilation=" + std::to_string(axis.dilation) + " make a kernel that is " +
                   std::to_string(axis.extent()) + " pixels " + std::string(direction) +
                   "; the limit is " + std::to_string(Limits::kExtent));
}

// Some algorithms copy the input with its padding, so both are bounded by the input's own size.
void check_padded(const CfgSection& section, const Window& window, const Shape& in) {
  const std::int64_t height = std::int64_t{in.height} + window.y.before + window.y.after;
  const std::int64_t width = std::int64_t{in.width} + window.x.before + window.x.after;
  if (height * width <= std::max(Limits::kPaddedPixels, 4 * in.plane())) return;
  int line = section.line();
  for (const std::string_view key :
       {"pad_right", "pad_bottom", "pad_left", "pad_top", "padding", "pad"}) {
    if (section.find(key) != nullptr) line = section.line_of(key);
  }
  const int most = std::max({window.y.before, window.y.after, window.x.before, window.x.after});
  section.fail(line, "up to " + std::to_string(most) + " pixels of padding on a side make " +
                         text_of(in) + " too large: " + std::to_string(height) + "x" +
                         std::to_string(width));
}

}  // namespace

bool WindowAxis::always_sees(int in) const {
  for (int position = 0; position < positions(in); ++position) {
    const std::int64_t start = std::int64_t{position} * stride - before;
    const std::int64_t tap = start >= 0 ? 0 : (dilation - 1 - start) / dilation;  // first inside
    if (tap >= size || start + tap * dilation >= in) return false;
  }
  return true;
}

PlaceSpan places_reading(int offset, int stride, int begin, int end, PlaceSpan places) {
  const auto first_at = [&](int place) {  // the first whose input place is not before this one
    return place <= offset ? 0 : (place - offset + stride - 1) / stride;
  };
  return {std::max(first_at(begin), places.begin), std::min(first_at(end), places.end)};
}

Window read_window(const CfgSection& section, const Shape& in) {
  const int size = section.integer("size", 1, 1, Limits::kKernel);
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  const int dilation = section.integer("dilation", 1, 1, Limits::kKernel);
  Window window;
  const auto read_axis = [&](WindowAxis& axis, std::string_view size_key,
                             std::string_view stride_key, std::string_view dilation_key) {
    axis.size = section.integer(size_key, size, 1, Limits::kKernel);
    axis.stride = read_stride(section, stride_key, stride);
    axis.dilation = section.integer(dilation_key, dilation, 1, Limits::kKernel);
    if (axis.size == 1) axis.dilation = 1;
  };
  read_axis(window.y, "size_y", "stride_y", "dilation_y");
  read_axis(window.x, "size_x", "stride_x", "dilation_x");
  check_extent(section, window.x, "wide");
  check_extent(section, window.y, "high");
  const int padding = section.integer("padding", 0, 0, Limits::kKernel);
  const auto darknets = [&](const WindowAxis& axis) {
    return (section.flag("pad") ? axis.size / 2 : padding) * axis.dilation;
  };
  const auto side = [&](std::string_view key, const WindowAxis& axis) {
    return section.integer(key, darknets(axis), 0, Limits::kExtent);
  };
  window.y.before = side("pad_top", window.y);
  window.y.after = side("pad_bottom", window.y);
  window.x.before = side("pad_left", window.x);
  window.x.after = side("pad_right", window.x);
  check_padded(section, window, in);
  return window;
}

}  // namespace mpe
