#include "kernels/geometry.h"

#include <algorithm>

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
  geometry_.padding = shape.padding;
  geometry_.dilation = shape.dilation;

  const bool pointwise = geometry_.taps() == 1 && shape.stride_y == 1 && shape.stride_x == 1 &&
                         shape.padding == 0 && shape.in.height == shape.out.height &&
                         shape.in.width == shape.out.width;
  if (pointwise && rows == MapRows::kMerged) {
    geometry_.in_width *= geometry_.in_height;
    geometry_.out_width = geometry_.in_width;
    geometry_.in_height = geometry_.out_height = 1;
  }
  for (int kx = 0; kx < shape.kernel_x; ++kx) {
    inside_.push_back(columns_inside(kx * shape.dilation - shape.padding, shape.stride_x,
                                     geometry_.in_width, geometry_.out_width));
  }
  geometry_.inside = inside_.data();
}

}  // namespace mpe
