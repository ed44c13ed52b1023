// Depthwise convolution of 3x3 and 5x5 by blocks of output rows: a value is loaded once for all the
// rows and taps of its column, and sums become outputs without leaving the registers. The strip is
// that of generic/depthwise.h; its padding is written once, not for every channel.
//
// A kernel K describes one arithmetic on one instruction set:
//   Input, Value        tensor's values, values of strip and weights
//   Vector, kLanes      of Values, in which sums are formed too
//   kMostVectors        whose sums of four rows fit in the registers beside their inputs: 2 or 3
//   Weights<kTaps>      one channel's, made from a pointer; kWeightsRead values of it may be read
//   start(sum, bias)    a sum's first value: a vector of the bias
//   load<kOffset>(to, from), fence_loads() between these loads and changes of what they read
//   multiply_add<kTap>(sum, value, weights), store(to, value, count)
//   copy(from, to), copy_rows(from, from_step, to, to_step, count, rows)   Input to Value
//   split_rows(from, from_step, to, count, rows)   the same; even and odd columns part
#pragma once

#include <cstdint>

#include "kernels/generic/depthwise.h"
#include "kernels/generic/output.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

template <typename K>
class DepthwiseRows {
 public:
  using Input = typename K::Input;
  using Value = typename K::Value;
  using Vector = typename K::Vector;

  static void run(const DepthwiseWork& work) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int size = geometry.kernel_y;
    const int stride = geometry.stride_y;
    const bool square = geometry.kernel_x == size && geometry.stride_x == stride;
    if (square && geometry.dilation_y == 1 && geometry.dilation_x == 1) {
      if (size == 3 && stride == 1) return convolve<3, 1>(work);
      if (size == 3 && stride == 2) return convolve<3, 2>(work);
      if (size == 5 && stride == 1) return convolve<5, 1>(work);
      if (size == 5 && stride == 2) return convolve<5, 2>(work);
    }
    Depthwise<K>::run(work);
  }

 private:
  static constexpr int kLanes = K::kLanes;

  // Columns of a plane that lie inside the map.
  struct Columns {
    int begin;
    int end;
  };

  template <int kSize, int kStride>
  static void convolve(const DepthwiseWork& work) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int taps = (kSize * kSize + 1) / 2 * 2;
    const int width = geometry.out_width;
    Columns columns[kStride];
    for (int phase = 0; phase < kStride; ++phase) columns[phase] = columns_of<kStride>(work, phase);
    auto* strip = reinterpret_cast<Value*>(work.strip);
    const int filled = rows_of_plane<kSize, kStride>(work) * work.plane_width;
    for (int plane = 0; plane < kStride * kStride; ++plane) {
      fill_run(strip + plane * work.plane_size, Value{}, filled);
    }
    for (int channel = work.channel_begin; channel < work.channel_end; ++channel) {
      const typename K::template Weights<kSize * kSize> weights(
          static_cast<const Value*>(work.weights) + static_cast<std::int64_t>(channel) * taps);
      alignas(Vector) Value bias[kLanes];
      store(bias, Vector(work.stage->bias[channel]));
      for (int y = work.row_begin; y < work.row_end; y += work.strip_rows) {
        const int left = work.row_end - y;
        const int rows = left < work.strip_rows ? left : work.strip_rows;
        fill_strip<kSize, kStride>(work, channel, y, rows, columns);
        auto* output = static_cast<Input*>(work.output) + work.output_at(channel, y);
        int row = 0;
        if constexpr (kSize == 3) {
          for (; row + 4 <= rows; row += 4) {
            convolve_rows<kSize, kStride, 4>(work, weights, bias, row, width, output);
          }
        }
        for (; row + 2 <= rows; row += 2) {
          convolve_rows<kSize, kStride, 2>(work, weights, bias, row, width, output);
        }
        if (row < rows) convolve_rows<kSize, kStride, 1>(work, weights, bias, row, width, output);
      }
    }
  }

  // Rows of a plane that a strip has.
  template <int kSize, int kStride>
  static int rows_of_plane(const DepthwiseWork& work) {
    return ((work.rows_at_once() - 1) * kStride + kSize + kStride - 1) / kStride;
  }

  template <int kStride>
  static Columns columns_of(const DepthwiseWork& work, int phase) {
    const int start = phase - work.geometry->padding_x;
    const int skipped = start < 0 ? (-start + kStride - 1) / kStride : 0;
    const int inside = (work.geometry->in_width - start + kStride - 1) / kStride;
    const int begin = limited(skipped, 0, work.plane_width);
    return {begin, limited(inside, begin, work.plane_width)};
  }

  // Copies what output rows [y, y + rows) read. Rows that the strip above has read too are moved.
  template <int kSize, int kStride>
  static void fill_strip(const DepthwiseWork& work, int channel, int y, int rows,
                         const Columns (&columns)[kStride]) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int first = y * kStride - geometry.padding_y;
    const int count = (rows - 1) * kStride + kSize;
    int row = 0;
    if (y > work.row_begin) {
      for (; row < kSize - kStride; ++row) {
        for (int phase = 0; phase < kStride; ++phase) {
          Value* to = plane_row<kStride>(work, row, phase);
          const Value* from = plane_row<kStride>(work, row + work.strip_rows * kStride, phase);
          for (int i = 0; i < work.plane_width; ++i) to[i] = from[i];
        }
      }
    }
    const auto* input =
        static_cast<const Input*>(work.input) + channel / work.multiplier * geometry.in_plane;
    const std::int64_t width = geometry.in_width;
    for_strip_rows(
        work, first, row, count,
        [&](int from, int place, int used) {
          if constexpr (kStride == 1) {
            K::copy_rows(input + place * width, width,
                         plane_row<1>(work, from, 0) + columns[0].begin, work.plane_width,
                         columns[0].end - columns[0].begin, used);
          } else {
            split_rows(work, input + place * width, from, used, columns);
          }
        },
        [&](int from, int used) {
          if (!work.has_several_strips()) return;
          for (int i = from; i < from + used; ++i) {
            for (int phase = 0; phase < kStride; ++phase) {
              fill_run(plane_row<kStride>(work, i, phase), Value{}, work.plane_width);
            }
          }
        });
  }

  template <int kStride>
  static Value* plane_row(const DepthwiseWork& work, int row, int phase) {
    return reinterpret_cast<Value*>(work.strip) +
           (row % kStride * kStride + phase) * work.plane_size + row / kStride * work.plane_width;
  }

  // Rows [row, row + rows) of the strip, whose columns are split by their remainders.
  static inline __attribute__((always_inline)) void split_rows(const DepthwiseWork& work,
                                                               const Input* from, int row, int rows,
                                                               const Columns (&columns)[2]) {
    const int even = work.geometry->padding_x % 2;
    const Columns evens = columns[even];
    const Columns odds = columns[1 - even];
    const int even_count = evens.end - evens.begin;
    const int odd_count = odds.end - odds.begin;
    const int pairs = even_count < odd_count ? even_count : odd_count;
    const int width = work.geometry->in_width;
    SplitRows<Value> to = {
        .even = plane_row<2>(work, row, even) + evens.begin,
        .next = plane_row<2>(work, row + 1, even) + evens.begin,
        .step = work.plane_width,
        .to_odds = (1 - 2 * even) * work.plane_size + odds.begin - evens.begin,
    };
    K::split_rows(from, width, to, pairs, rows);
    if (even_count == odd_count) return;
    for (int i = 0; i < rows; ++i, from += width, to.advance()) {
      for (int k = pairs; k < even_count; ++k) K::copy(from + 2 * k, to.even + k);
      for (int k = pairs; k < odd_count; ++k) {
        K::copy(from + 2 * k + 1, to.even + to.to_odds + k);
      }
    }
  }

  // Output rows [row, row + kRows) of the strip. The last vectors overlap those before them.
  template <int kSize, int kStride, int kRows, typename Weights>
  static void convolve_rows(const DepthwiseWork& work, const Weights& weights, const Value* bias,
                            int row, int width, Input* strip_output) {
    const Value* strip = reinterpret_cast<const Value*>(work.strip) +
                         static_cast<std::int64_t>(row) * work.plane_width;
    Input* output = strip_output + static_cast<std::int64_t>(row) * width;
    const int count = width < kLanes ? width : kLanes;
    K::fence_loads();
    int x = 0;
    if constexpr (K::kMostVectors == 3) {
      // A vector left over would wait for its few sums.
      if (width >= 3 * kLanes && (width + kLanes - 1) / kLanes % 2 == 1) {
        convolve_block<kSize, kStride, kRows, 3>(work, weights, bias, strip, output, width, count);
        x = 3 * kLanes;
      }
    }
    while (x < width) {
      const int left = width - x;
      if (left > kLanes && width >= 2 * kLanes) {
        if (left < 2 * kLanes) x = width - 2 * kLanes;
        convolve_block<kSize, kStride, kRows, 2>(work, weights, bias, strip + x, output + x, width,
                                                 count);
        x += 2 * kLanes;
      } else {
        if (left < count) x = width - count;
        convolve_block<kSize, kStride, kRows, 1>(work, weights, bias, strip + x, output + x, width,
                                                 count);
        x += kLanes;
      }
    }
    K::fence_loads();
  }

  // The order of the groups: the outermost two rows first, column by column in turns, then the next
  // two. Few sums read the outer rows; so these never wait for themselves at the end.
  template <int kSize, int kInputRows>
  static constexpr bool is_middle(int group) {
    return kInputRows % 2 == 1 && group / (2 * kSize) == kInputRows / 2;
  }
  template <int kSize, int kInputRows>
  static constexpr int tap_row(int group) {
    const int pair = group / (2 * kSize);
    return group % 2 == 0 || is_middle<kSize, kInputRows>(group) ? pair : kInputRows - 1 - pair;
  }
  template <int kSize, int kInputRows>
  static constexpr int tap_column(int group) {
    const int within = group % (2 * kSize);
    return is_middle<kSize, kInputRows>(group) ? within : within / 2;
  }

  template <int kSize, int kStride, int kRows, int kVectors, typename Weights>
  static inline __attribute__((always_inline)) void convolve_block(
      const DepthwiseWork& work, const Weights& weights, const Value* bias, const Value* strip,
      Input* output, std::int64_t width, int count) {
    // A group is the vectors of one row and tap; it is loaded two groups before it is used.
    constexpr int kInputRows = (kRows - 1) * kStride + kSize;
    constexpr int kGroups = kInputRows * kSize;
    constexpr int kAhead = 2;
    constexpr int kSlots = kAhead + 1;
    const std::int64_t plane_size = work.plane_size;
    const std::int64_t plane_width = work.plane_width;
    Vector values[kSlots][kVectors];
    const auto load = [&](auto group, auto v) MPE_UNROLLED {
      constexpr int kRow = tap_row<kSize, kInputRows>(group.value);
      constexpr int kColumn = tap_column<kSize, kInputRows>(group.value);
      constexpr int kPlane = kRow % kStride * kStride + kColumn % kStride;
      const Value* from = strip + kPlane * plane_size + kRow / kStride * plane_width;
      K::template load<kColumn / kStride + v.value * kLanes>(values[group.value % kSlots][v.value],
                                                             from);
    };
    unroll_grid<kAhead, kVectors>([&](auto group, auto v) MPE_UNROLLED { load(group, v); });
    Vector sums[kRows][kVectors];
    unroll_grid<kRows, kVectors>([&](auto r, auto v)
                                     MPE_UNROLLED { K::start(sums[r.value][v.value], bias); });
    unroll<kGroups>([&](auto group) MPE_UNROLLED {
      constexpr int kRow = tap_row<kSize, kInputRows>(group.value);
      constexpr int kColumn = tap_column<kSize, kInputRows>(group.value);
      // The output rows that read it.
      constexpr int kFirst = kRow < kSize ? 0 : (kRow - kSize) / kStride + 1;
      constexpr int kLast = kRow / kStride < kRows ? kRow / kStride : kRows - 1;
      unroll<(kLast - kFirst + 1) * kVectors>([&](auto i) MPE_UNROLLED {
        constexpr int kOutputRow = kFirst + i.value / kVectors;
        constexpr Index<i.value % kVectors> kVector;
        constexpr int kTapRow = kRow - kOutputRow * kStride;
        K::template multiply_add<kTapRow * kSize + kColumn>(
            sums[kOutputRow][kVector.value], values[group.value % kSlots][kVector.value], weights);
        if constexpr (kOutputRow == kFirst && group.value + kAhead < kGroups) {
          load(Index<group.value + kAhead>{}, kVector);
        }
      });
    });
    activate_all(work.stage->activation, sums);
    unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
      K::store(output + r.value * width + v.value * kLanes, sums[r.value][v.value], count);
    });
  }
};

template <typename K>
constexpr DepthwiseKernel depthwise_rows_kernel() {
  DepthwiseKernel kernel = depthwise_kernel<K>();
  kernel.run = DepthwiseRows<K>::run;
  return kernel;
}

}  // namespace
}  // namespace mpe
