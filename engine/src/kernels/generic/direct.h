// Direct convolution of a tile: some output channels of one group and some output rows. Sums are
// kept in scratch while the tile's input channels are worked through `depth_step` at a time, and
// within such a step a block of kRows output channels times kSteps vectors of columns in registers.
//
// A kernel K describes one arithmetic; kLanes is 1 for plain numbers:
//   Stored, Sum, Values         what tensors hold, what sums are, kLanes of them in registers
//   kLanes, kRows, kSteps       the block: kRows output channels, kSteps * kLanes columns
//   Scalar                      the same arithmetic with one lane, for columns at the borders
//   load(from, stride, zero_point), broadcast(weight)   values and weights as factors
//   multiply_add(sum, weight, value), load_sums(from), store_sums(to, sums, count)
//   write(stage, channel, sums, count, output)   a row's sums to outputs
#pragma once

#include <cstdint>

#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

// Half-open range of taps along one direction.
struct TapRange {
  int begin;
  int end;
};

inline TapRange row_taps(const ConvolutionGeometry& geometry, int row) {
  const int first = row * geometry.stride_y - geometry.padding_y;
  TapRange range{0, geometry.kernel_y};
  while (range.begin < range.end && first + range.begin * geometry.dilation_y < 0) ++range.begin;
  while (range.end > range.begin &&
         first + (range.end - 1) * geometry.dilation_y >= geometry.in_height) {
    --range.end;
  }
  return range;
}

inline TapRange column_taps(const ConvolutionGeometry& geometry, int column) {
  const auto outside = [&](int kx) {
    return column < geometry.inside[kx].begin || column >= geometry.inside[kx].end;
  };
  TapRange range{0, geometry.kernel_x};
  while (range.begin < range.end && outside(range.begin)) ++range.begin;
  while (range.end > range.begin && outside(range.end - 1)) --range.end;
  return range;
}

// The output columns for which every tap lies inside the map.
inline ColumnRange inner_columns(const ConvolutionGeometry& geometry) {
  ColumnRange inner{0, geometry.out_width};
  for (int kx = 0; kx < geometry.kernel_x; ++kx) {
    const ColumnRange& inside = geometry.inside[kx];
    if (inside.begin > inner.begin) inner.begin = inside.begin;
    if (inside.end < inner.end) inner.end = inside.end;
  }
  if (inner.end < inner.begin) inner.begin = inner.end = 0;
  return inner;
}

inline int stored_bytes(OutputKind kind) {
  return kind == OutputKind::kFloat ? 4 : kind == OutputKind::kHalf ? 2 : 1;
}

template <typename K>
class Direct {
 public:
  using Stored = typename K::Stored;
  using Sum = typename K::Sum;

  static void run(const DirectWork& work) {
    auto* sums = reinterpret_cast<Sum*>(work.sums);
    const int rows = work.row_end - work.row_begin;
    const int channels = work.channel_end - work.channel_begin;
    const std::int64_t count = static_cast<std::int64_t>(channels) * rows * work.sum_stride;
    for (std::int64_t i = 0; i < count; ++i) sums[i] = Sum{};

    const ColumnRange inner = inner_columns(*work.geometry);
    const int depth = work.geometry->channels;
    for (int first = 0; first < depth; first += work.depth_step) {
      const int last = first + work.depth_step < depth ? first + work.depth_step : depth;
      for (int channel = 0; channel < channels;) {
        const int step = channels - channel >= K::kRows ? K::kRows : 1;
        for (int row = 0; row < rows; ++row) {
          Place place;
          place.channel = work.channel_begin + channel;
          place.row = work.row_begin + row;
          place.first = first;
          place.last = last;
          place.sums = sums + (static_cast<std::int64_t>(channel) * rows + row) * work.sum_stride;
          place.next = static_cast<std::int64_t>(rows) * work.sum_stride;
          if (step == 1) {
            add_row<1>(work, inner, place);
          } else {
            add_row<K::kRows>(work, inner, place);
          }
        }
        channel += step;
      }
    }
    for (int channel = 0; channel < channels; ++channel) {
      for (int row = 0; row < rows; ++row, sums += work.sum_stride) {
        write(work, work.channel_begin + channel, work.row_begin + row, sums);
      }
    }
  }

 private:
  // A row of the sums of one or kRows output channels, and the input channels to add.
  struct Place {
    int channel;
    int row;
    int first;
    int last;
    Sum* sums;
    std::int64_t next;  // from one channel's sums to the next one's
  };

  template <int kRows>
  static void add_row(const DirectWork& work, ColumnRange inner, const Place& place) {
    constexpr int kBlock = K::kSteps * K::kLanes;
    const TapRange every{0, work.geometry->kernel_x};
    int x = 0;
    for (; x < inner.begin; ++x) {
      add_block<typename K::Scalar, kRows, 1>(work, place, x, column_taps(*work.geometry, x));
    }
    for (; x + kBlock <= inner.end; x += kBlock) {
      add_block<K, kRows, K::kSteps>(work, place, x, every);
    }
    for (; x + K::kLanes <= inner.end; x += K::kLanes) {
      add_block<K, kRows, 1>(work, place, x, every);
    }
    if constexpr (K::kLanes > 1) {
      // What lanes beyond the columns compute, from whatever lies there, is not stored.
      if (x < inner.end && can_read(work, place, x)) {
        add_block<K, kRows, 1>(work, place, x, every, inner.end - x);
        x = inner.end;
      }
    }
    for (; x < inner.end; ++x) add_block<typename K::Scalar, kRows, 1>(work, place, x, every);
    for (; x < work.geometry->out_width; ++x) {
      add_block<typename K::Scalar, kRows, 1>(work, place, x, column_taps(*work.geometry, x));
    }
  }

  // Whether a whole vector's inputs at a column are values of the map, if not of the row.
  static bool can_read(const DirectWork& work, const Place& place, int column) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int y = place.row * geometry.stride_y - geometry.padding_y +
                  (row_taps(geometry, place.row).end - 1) * geometry.dilation_y;
    const int x = (column + K::kLanes - 1) * geometry.stride_x - geometry.padding_x +
                  (geometry.kernel_x - 1) * geometry.dilation_x;
    const std::int64_t rest = static_cast<std::int64_t>(geometry.channels - place.last) *
                              geometry.in_height * geometry.in_width;
    return x < rest + static_cast<std::int64_t>(geometry.in_height - y) * geometry.in_width;
  }

  // `count`: the number of lanes to store.
  template <typename L, int kRows, int kSteps>
  static void add_block(const DirectWork& work, const Place& place, int column, TapRange taps_x,
                        int count = L::kLanes) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int stride = geometry.stride_x;
    const std::int64_t plane = static_cast<std::int64_t>(geometry.in_height) * geometry.in_width;
    const std::int64_t depth = static_cast<std::int64_t>(geometry.channels) * geometry.taps();
    const TapRange taps_y = row_taps(geometry, place.row);
    const auto* weights = static_cast<const Stored*>(work.weights) + place.channel * depth;
    const auto* input = static_cast<const Stored*>(work.input);
    const int y = place.row * geometry.stride_y - geometry.padding_y;
    const int x = column * stride - geometry.padding_x;

    typename L::Values totals[kRows][kSteps];
    Sum* const sums = place.sums + column;
    unroll_grid<kRows, kSteps>([&](auto r, auto s) MPE_UNROLLED {
      totals[r.value][s.value] = L::load_sums(sums + r.value * place.next + s.value * L::kLanes);
    });
    for (int c = place.first; c < place.last; ++c) {
      for (int ky = taps_y.begin; ky < taps_y.end; ++ky) {
        const std::int64_t line =
            c * plane + static_cast<std::int64_t>(y + ky * geometry.dilation_y) * geometry.in_width;
        const Stored* weight = weights + (c * geometry.kernel_y + ky) * geometry.kernel_x;
        for (int kx = taps_x.begin; kx < taps_x.end; ++kx) {
          const Stored* from = input + (line + x + kx * geometry.dilation_x);
          typename L::Values values[kSteps];
          unroll<kSteps>([&](auto s) MPE_UNROLLED {
            values[s.value] = L::load(from + s.value * L::kLanes * stride, stride, work.zero_point);
          });
          unroll<kRows>([&](auto r) MPE_UNROLLED {
            const auto factor = L::broadcast(weight[r.value * depth + kx]);
            unroll<kSteps>([&](auto s) MPE_UNROLLED {
              totals[r.value][s.value] =
                  L::multiply_add(totals[r.value][s.value], factor, values[s.value]);
            });
          });
        }
      }
    }
    unroll_grid<kRows, kSteps>([&](auto r, auto s) MPE_UNROLLED {
      L::store_sums(sums + r.value * place.next + s.value * L::kLanes, totals[r.value][s.value],
                    count);
    });
  }

  static void write(const DirectWork& work, int channel, int row, const Sum* sums) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const std::int64_t first =
        (static_cast<std::int64_t>(channel) * geometry.out_height + row) * geometry.out_width;
    K::write(*work.stage, work.first_channel + channel, sums, geometry.out_width,
             static_cast<std::byte*>(work.output) + first * stored_bytes(work.stage->kind));
  }
};

// Plain numbers, sums in float.
struct DirectFloat {
  using Stored = float;
  using Sum = float;
  using Values = float;
  static constexpr int kLanes = 1;

  static float load(const float* from, int /*stride*/, int /*zero_point*/) { return *from; }
  static float broadcast(float weight) { return weight; }
  static float multiply_add(float sum, float weight, float value) { return sum + weight * value; }
  static float load_sums(const float* from) { return *from; }
  static void store_sums(float* to, float sum, int /*count*/) { *to = sum; }
};

}  // namespace
}  // namespace mpe
