// The input values under a run of output pixels (im2col), copied straight into the buffer from
// which they are packed: the matrix of all patches never exists.
#pragma once

#include <cstdint>

#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

// Neighbouring output pixels of one row.
struct Segment {
  int column;  // in the panel
  int count;
  int y;  // output row; kBlank: columns past the last pixel, filled with the padding value
  int x;  // first output column
};
constexpr int kBlank = -1;

// Splits pixels [pixel, pixel + count) of the output into rows, and appends a blank segment up to
// `columns`. `segments` holds columns + 1 entries. Returns how many were written.
inline int split_pixels(const ConvolutionGeometry& geometry, int pixel, int count, int columns,
                        Segment* segments) {
  int used = 0;
  int y = pixel / geometry.out_width;
  int x = pixel - y * geometry.out_width;
  for (int column = 0; column < count;) {
    const int left = geometry.out_width - x;
    const int length = left < count - column ? left : count - column;
    segments[used++] = {column, length, y, x};
    column += length;
    x = 0;
    ++y;
  }
  if (count < columns) segments[used++] = {count, columns - count, kBlank, 0};
  return used;
}

template <int kBytes>
inline void copy_block(void* to, const void* from) {
  __builtin_memcpy(to, from, kBytes);
}

// memcpy for a few values, without the call.
template <typename T>
inline void copy_run(T* to, const T* from, int count) {
  auto* target = reinterpret_cast<char*>(to);
  const auto* source = reinterpret_cast<const char*>(from);
  const int bytes = count * static_cast<int>(sizeof(T));
  // Whatever is left over is covered by a last block that overlaps the one before.
  if (bytes >= 16) {
    int left = bytes;
    for (; left > 64; left -= 64, target += 64, source += 64) {
      copy_block<64>(target, source);
      asm volatile("" : "+r"(left));  // or Clang makes calls of memcpy of these loops
    }
    for (; left > 16; left -= 16, target += 16, source += 16) {
      copy_block<16>(target, source);
      asm volatile("" : "+r"(left));
    }
    copy_block<16>(target + left - 16, source + left - 16);
  } else if (bytes >= 8) {
    copy_block<8>(target, source);
    copy_block<8>(target + bytes - 8, source + bytes - 8);
  } else if (bytes >= 4) {
    copy_block<4>(target, source);
    copy_block<4>(target + bytes - 4, source + bytes - 4);
  } else {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
}

// Rows of `count` values, whose last block of 16 bytes overlaps the one before.
template <int kBlocks, typename T>
inline void copy_rows_of_blocks(T* to, std::int64_t to_step, const T* from, std::int64_t from_step,
                                int count, int rows) {
  constexpr int kValues = static_cast<int>(16 / sizeof(T));
  const std::int64_t last = count - kValues;
  for (int row = 0; row < rows; ++row, to += to_step, from += from_step) {
    unroll<kBlocks - 1>([&](auto i) MPE_UNROLLED {
      copy_block<16>(to + i.value * kValues, from + i.value * kValues);
    });
    copy_block<16>(to + last, from + last);
  }
}

// Rows of up to kMostBlocks blocks, of which depthwise convolutions copy many, without a loop over
// the values of each.
template <typename T>
inline void copy_rows(T* to, std::int64_t to_step, const T* from, std::int64_t from_step, int count,
                      int rows) {
  constexpr int kMostBlocks = 8;
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
  if (bytes < 16 || bytes > 16 * kMostBlocks) {
    for (; rows > 0; --rows, to += to_step, from += from_step) copy_run(to, from, count);
    return;
  }
  unroll<kMostBlocks>([&](auto i) MPE_UNROLLED {
    if ((bytes + 15) / 16 == i.value + 1) {
      copy_rows_of_blocks<i.value + 1>(to, to_step, from, from_step, count, rows);
    }
  });
}

// Every second value. The last vector ends with the last value wanted, so that none is read beyond
// it. Returns how many were copied: all, or none of a few.
template <typename T>
inline int copy_evens(T*, const T*, int) {
  return 0;
}
template <int kPairs, typename T>
inline int copy_evens_of_pairs(T* to, const T* from, int count) {
  if (count <= kPairs) return 0;
  for (int i = 0; i + kPairs < count; i += kPairs) copy_of_pairs<0>(from + 2 * i, to + i);
  const int last = count - kPairs;
  copy_of_pairs<1>(from + 2 * last - 1, to + last);
  return count;
}
inline int copy_evens(std::int8_t* to, const std::int8_t* from, int count) {
  return copy_evens_of_pairs<kPairedBytes>(to, from, count);
}
inline int copy_evens(std::uint16_t* to, const std::uint16_t* from, int count) {
  return copy_evens_of_pairs<kPairedHalves>(to, from, count);
}
inline int copy_evens(float* to, const float* from, int count) {
  if (count <= F32::kLanes) return 0;
  F32 columns[2];
  for (int i = 0; i + F32::kLanes < count; i += F32::kLanes) {
    deinterleave(from + 2 * i, columns);
    store(to + i, columns[0]);
  }
  const int last = count - F32::kLanes;
  deinterleave(from + 2 * last - 1, columns);
  store(to + last, columns[1]);
  return count;
}

template <typename T>
inline void copy_strided(T* to, const T* from, int count, int stride) {
  if (stride == 2) {
    for (int i = copy_evens(to, from, count); i < count; ++i) to[i] = from[2 * i];
  } else {
    for (int i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

// Where the values of pairs go, row by row: rows lie in turns in two planes.
template <typename T>
struct SplitRows {
  T* even;            // of the first row
  T* next;            // of the second one
  std::int64_t step;  // from a row to the next in its plane
  std::int64_t to_odds;

  void advance() {
    T* const after = even + step;
    even = next;
    next = after;
  }
};

template <typename Vector, typename T>
inline __attribute__((always_inline)) void split_vector(const T* from, T* even, T* odd) {
  Vector columns[2];
  deinterleave(from, columns);
  store(even, columns[0]);
  store(odd, columns[1]);
}

// The last vectors overlap those before them.
template <typename Vector, typename T>
inline void split_pairs(const T* from, T* even, T* odd, int count) {
  constexpr int kLanes = Vector::kLanes;
  if (count < kLanes) {
    for (int i = 0; i < count; ++i) {
      even[i] = from[2 * i];
      odd[i] = from[2 * i + 1];
    }
    return;
  }
  const int last = count - kLanes;
  for (int i = 0; i < last; i += kLanes) split_vector<Vector>(from + 2 * i, even + i, odd + i);
  split_vector<Vector>(from + 2 * last, even + last, odd + last);
}

template <typename Vector, int kVectors, typename T>
inline void split_rows_of_vectors(const T* from, std::int64_t from_step, SplitRows<T> to, int count,
                                  int rows) {
  constexpr int kLanes = Vector::kLanes;
  const std::int64_t last = count - kLanes;
  for (int row = 0; row < rows; ++row, from += from_step, to.advance()) {
    unroll<kVectors - 1>([&](auto i) MPE_UNROLLED {
      constexpr int kAt = i.value * kLanes;
      split_vector<Vector>(from + 2 * kAt, to.even + kAt, to.even + to.to_odds + kAt);
    });
    split_vector<Vector>(from + 2 * last, to.even + last, to.even + to.to_odds + last);
  }
}

// Pairs of several rows: like copy_rows(), without a loop over the values of each.
template <typename Vector, typename T>
inline void split_rows(const T* from, std::int64_t from_step, SplitRows<T> to, int count,
                       int rows) {
  constexpr int kMostVectors = 6;
  if (count < Vector::kLanes || count > kMostVectors * Vector::kLanes) {
    for (; rows > 0; --rows, from += from_step, to.advance()) {
      split_pairs<Vector>(from, to.even, to.even + to.to_odds, count);
    }
    return;
  }
  unroll<kMostVectors>([&](auto i) MPE_UNROLLED {
    if ((count + Vector::kLanes - 1) / Vector::kLanes == i.value + 1) {
      split_rows_of_vectors<Vector, i.value + 1>(from, from_step, to, count, rows);
    }
  });
}

template <typename T>
inline void fill_run(T* to, T value, int count) {
  if (count * static_cast<int>(sizeof(T)) > 16) {
    for (int i = 0; i < count; ++i) to[i] = value;
    return;
  }
  for (int i = 0; i < count; ++i) {
    to[i] = value;
    asm volatile("" : "+r"(i));  // for a few values a call of memset takes longer
  }
}

inline int limited(int value, int low, int high) {
  return value < low ? low : value > high ? high : value;
}

// One tap and one segment, for `channels` channels: a row of the buffer each.
template <int kColumns, typename T>
inline void gather_segment(const ConvolutionGeometry& geometry, const Segment& segment, int ky,
                           int kx, const T* input, int channels, T padding, T* rows) {
  T* to = rows + segment.column;
  const int y = segment.y * geometry.stride_y + ky * geometry.dilation_y - geometry.padding_y;
  if (segment.y == kBlank || y < 0 || y >= geometry.in_height) {
    for (int c = 0; c < channels; ++c, to += kColumns) fill_run(to, padding, segment.count);
    return;
  }
  const int end = segment.x + segment.count;
  const int first = limited(geometry.inside[kx].begin, segment.x, end);
  const int last = limited(geometry.inside[kx].end, first, end);
  const int before = first - segment.x;
  const int count = last - first;
  const int after = end - last;
  const std::int64_t plane = geometry.in_plane;
  const int x = first * geometry.stride_x + kx * geometry.dilation_x - geometry.padding_x;
  const T* from = count == 0 ? input : input + static_cast<std::int64_t>(y) * geometry.in_width + x;
  if (geometry.stride_x != 1) {
    for (int c = 0; c < channels; ++c, to += kColumns, from += plane) {
      fill_run(to, padding, before);
      copy_strided(to + before, from, count, geometry.stride_x);
      fill_run(to + before + count, padding, after);
    }
  } else if (count == kColumns) {
    for (int c = 0; c < channels; ++c, to += kColumns, from += plane) {
      copy_block<kColumns * sizeof(T)>(to, from);
    }
  } else {
    for (int c = 0; c < channels; ++c, to += kColumns, from += plane) {
      fill_run(to, padding, before);
      copy_run(to + before, from, count);
      fill_run(to + before + count, padding, after);
    }
  }
}

// Rows [begin, end) of the matrix of patches, kColumns values each. Rows beyond the last term are
// zero.
template <int kColumns, typename T>
inline void gather_patches(const ConvolutionGeometry& geometry, const Segment* segments,
                           int segment_count, int begin, int end, const T* input, T padding,
                           T* rows) {
  const std::int64_t plane = geometry.in_plane;
  const int terms = geometry.taps() * geometry.channels;
  for (int row = begin; row < end;) {
    if (row >= terms) {
      fill_run(rows, T{}, (end - row) * kColumns);
      return;
    }
    const int tap = row / geometry.channels;
    const int channel = row - tap * geometry.channels;
    const int left = geometry.channels - channel;
    const int count = left < end - row ? left : end - row;
    const int ky = tap / geometry.kernel_x;
    const int kx = tap - ky * geometry.kernel_x;
    for (int i = 0; i < segment_count; ++i) {
      gather_segment<kColumns>(geometry, segments[i], ky, kx, input + channel * plane, count,
                               padding, rows);
    }
    row += count;
    rows += count * kColumns;
  }
}

}  // namespace
}  // namespace mpe
