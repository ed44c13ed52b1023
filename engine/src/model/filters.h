// The weights of a convolutional or connected layer, a filter at a time: those of one output
// channel, [in channels / groups][y][x]. A whole layer as float can be larger than the whole
// network as it is executed, so that what reads a file keeps a few filters.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mpe {

class FilterSource {
 public:
  virtual ~FilterSource() = default;
  // Valid until the next call. Quick for successive channels.
  virtual std::span<const float> filter(int channel) = 0;
};

// A reference to filters in memory, or in a file from which they are read when needed. The memory
// or file must outlive it.
class Filters {
 public:
  Filters() = default;
  // [out channels][in channels / groups][y][x]
  Filters(std::span<const float> all) : all_(all) {}
  Filters(const std::vector<float>& all) : all_(all) {}
  Filters(FilterSource& source) : source_(&source) {}

  // Filter `channel` of `depth` values; valid until the next call.
  std::span<const float> filter(int channel, int depth) const {
    if (source_ != nullptr) return source_->filter(channel);
    const auto size = static_cast<std::size_t>(depth);
    return all_.subspan(static_cast<std::size_t>(channel) * size, size);
  }

 private:
  std::span<const float> all_;
  FilterSource* source_ = nullptr;
};

}  // namespace mpe
