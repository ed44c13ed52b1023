#include "kernels/geometry.h"

#include <algorithm>
#include <cstdint>

#include "kernels/sizes.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// The output columns whose input column x * stride + offset lies inside the map.
ColumnRange columns_inside(int offset, int stride, int in_width, int out_width) {
  const int begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int reach = in_width - offset;  // columns from the first input column on
  const int end = reach <= 0 ? 0 : (reach + stride - 1) / stride;
  const int first = std::min(begin, out_width);
  return {first, std::clamp(end, first, std::max(first, out_width))};
}

}  // namespace

float ConvolutionRequest::weight_scale(int channel) const {
  const auto c = static_cast<std::size_t>(channel);
  return weight_scales.empty() ? weight_scale_of(filter(channel), bias[c])
                               : weight_scale_of(weight_scales[c], bias[c]);
}

std::size_t scratch_limit(const ConvolutionShape& shape, int threads) {
  constexpr std::int64_t kThreadBytes = 64 << 20;
  constexpr std::int64_t kTimes = 64;  // a matrix of all patches of a kernel of 8x8
  const std::int64_t weights = std::int64_t{shape.depth()} * shape.out.channels;
  const std::int64_t values = shape.in.elements() + shape.out.elements() + weights;
  return static_cast<std::size_t>(threads * kThreadBytes +
                                  kTimes * values * std::int64_t{sizeof(float)});
}

bool padded_rows_fit(const ConvolutionShape& shape, int channels) {
  constexpr std::int64_t kLeast = 1 << 20;  // values, of small maps
  const std::int64_t stride_y = shape.stride_y;
  const std::int64_t stride_x = shape.stride_x;
  const std::int64_t rows = divide_up(shape.extent_y(), stride_y) * stride_y;
  const std::int64_t columns = (shape.out.width + (shape.extent_x() - 1) / stride_x) * stride_x;
  const std::int64_t pixels = std::int64_t{shape.in.height} * shape.in.width;
  return channels * rows * columns <= std::max(kLeast, 4 * channels * pixels);
}

GroupGeometry::GroupGeometry(const ConvolutionShape& shape, MapRows rows) {
  geometry_.channels = shape.in.channels / shape.groups;
  geometry_.in_height = shape.in.height;
  geometry_.in_width = shape.in.width;
  geometry_.out_height = shape.out.height;
  geometry_.out_width = shape.out.width;
  geometry_.kernel_y = shape.kernel_y;
  geometry_.kernel_x = shape.kernel_x;
  geometry_.stride_y = shape.stride_y;
  geometry_.stride_x = shape.stride_x;
  geometry_.padding_y = shape.padding_y;
  geometry_.padding_x = shape.padding_x;
  geometry_.dilation_y = shape.dilation_y;
  geometry_.dilation_x = shape.dilation_x;
  geometry_.in_plane = shape.in.plane();
  geometry_.out_plane = shape.out.plane();

  if (shape.pointwise() && rows == MapRows::kMerged) {
    geometry_.in_width *= geometry_.in_height;
    geometry_.out_width = geometry_.in_width;
    geometry_.in_height = geometry_.out_height = 1;
  }
  for (int kx = 0; kx < shape.kernel_x; ++kx) {
    inside_.push_back(columns_inside(kx * shape.dilation_x - shape.padding_x, shape.stride_x,
                                     geometry_.in_width, geometry_.out_width));
  }
  geometry_.inside = inside_.data();
}

}  // namespace mpe
