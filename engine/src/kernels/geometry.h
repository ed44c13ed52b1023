// A convolution's shape as the kernels read it.
#pragma once

#include <vector>

#include "kernels/convolution.h"
#include "kernels/kernel_set.h"

namespace mpe {

// A pointwise convolution needs no rows: its map may be taken for one long one.
enum class MapRows { kMerged, kKept };

// May an algorithm copy the padded rows under one row of outputs, of so many channels at a time?
// Not where padding, dilation or strides make them much larger than the input itself.
bool padded_rows_fit(const ConvolutionShape& shape, int channels);

// Owns what a ConvolutionGeometry points to.
class GroupGeometry {
 public:
  explicit GroupGeometry(const ConvolutionShape& shape, MapRows rows = MapRows::kMerged);
  GroupGeometry(const GroupGeometry&) = delete;
  GroupGeometry& operator=(const GroupGeometry&) = delete;

  const ConvolutionGeometry& operator*() const { return geometry_; }
  const ConvolutionGeometry* operator->() const { return &geometry_; }

 private:
  ConvolutionGeometry geometry_;
  std::vector<ColumnRange> inside_;
};

}  // namespace mpe
