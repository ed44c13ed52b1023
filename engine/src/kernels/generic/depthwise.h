// Depthwise convolution, channel by channel: a strip of rows is copied with its padding, rows and
// columns sorted by their remainders modulo the strides into planes, so that whatever the strides,
// dilation and kernel size, neighbouring outputs read neighbouring values for every tap, across the
// ends of rows. Outputs between two rows are discarded.
//
// A kernel K describes one arithmetic on one instruction set:
//   Input, Value, Sum          tensor's values, values of strip and weights, float or int32
//   kLanes                     outputs of one step
//   convert(from, to, count)   Input to Value, unused where they are the same
//   accumulate<kSteps>(strip, weights, offsets, taps, sums)   kSteps * kLanes sums; `taps` is even
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/generic/output.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

// The zero point of an int8 input channel, zero otherwise.
template <typename Value>
inline Value padding_of(const DepthwiseWork& work, int input_channel) {
  if constexpr (std::is_same_v<Value, std::int16_t>) {
    return static_cast<Value>(work.zero_points[input_channel]);
  }
  return Value{};
}

// Strip rows [row, row_end), of which row 0 is input row `first`, in runs: inside(row, place,
// count) for those that lie together in the input from a place on, outside(row, count) for those
// beyond the map.
template <typename Inside, typename Outside>
inline void for_strip_rows(const DepthwiseWork& work, int first, int row, int row_end,
                           const Inside& inside, const Outside& outside) {
  const int above = limited(-first, row, row_end);
  if (above > row) outside(row, above - row);
  const int below = limited(work.geometry->in_height - first, above, row_end);
  for (row = above; row < below;) {
    const int place = work.in_rows.place_of(first + row);
    const int together = work.in_rows.count - place;
    const int count = together < below - row ? together : below - row;
    inside(row, place, count);
    row += count;
  }
  if (row_end > below) outside(below, row_end - below);
}

template <typename K>
class Depthwise {
 public:
  using Input = typename K::Input;
  using Value = typename K::Value;
  using Sum = typename K::Sum;

  static void run(const DepthwiseWork& work) {
    for (int channel = work.channel_begin; channel < work.channel_end; ++channel) {
      for (int y = work.row_begin; y < work.row_end; y += work.strip_rows) {
        const int left = work.row_end - y;
        const int rows = left < work.strip_rows ? left : work.strip_rows;
        fill_strip(work, channel, y, rows);
        convolve(work, channel, rows);
        write_rows(work, channel, y, rows);
      }
    }
  }

 private:
  static constexpr int kSteps = 4;

  // Copies what output rows [y, y + rows) of a channel read.
  static void fill_strip(const DepthwiseWork& work, int channel, int y, int rows) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int input_channel = channel / work.multiplier;
    const int first = y * geometry.stride_y - geometry.padding_y;
    const int count =
        (rows - 1) * geometry.stride_y + (geometry.kernel_y - 1) * geometry.dilation_y + 1;
    for (int phase_y = 0; phase_y < geometry.stride_y; ++phase_y) {
      for (int phase_x = 0; phase_x < geometry.stride_x; ++phase_x) {
        Value* plane = reinterpret_cast<Value*>(work.strip) +
                       (phase_y * geometry.stride_x + phase_x) * work.plane_size;
        fill_plane(work, input_channel, first + phase_y, first + count, phase_x, plane);
      }
    }
  }

  // Input rows row, + stride_y, ... before row_end, and of these the columns phase_x - padding,
  // + stride_x, ...
  static void fill_plane(const DepthwiseWork& work, int input_channel, int row, int row_end,
                         int phase_x, Value* to) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const auto padding = padding_of<Value>(work, input_channel);
    const auto* input = static_cast<const Input*>(work.input) + input_channel * geometry.in_plane;
    const int stride = geometry.stride_x;
    const int start = phase_x - geometry.padding_x;
    const int skipped = start < 0 ? (-start + stride - 1) / stride : 0;
    const int inside = (geometry.in_width - start + stride - 1) / stride;
    const int first = limited(skipped, 0, work.plane_width);
    const int last = limited(inside, first, work.plane_width);
    for (; row < row_end; row += geometry.stride_y, to += work.plane_width) {
      if (row < 0 || row >= geometry.in_height || first == last) {
        fill_run(to, padding, work.plane_width);
        continue;
      }
      const Input* from =
          input + static_cast<std::int64_t>(work.in_rows.place_of(row)) * geometry.in_width;
      fill_run(to, padding, first);
      copy(from + (start + first * stride), to + first, last - first, stride);
      fill_run(to + last, padding, work.plane_width - last);
    }
  }

  static void copy(const Input* from, Value* to, int count, int stride) {
    if constexpr (std::is_same_v<Input, Value>) {
      if (stride == 1) {
        copy_run(to, from, count);
      } else {
        copy_strided(to, from, count, stride);
      }
    } else if (stride == 1) {
      K::convert(from, to, count);
    } else {
      constexpr int kChunk = 256;
      Input chunk[kChunk];
      for (int i = 0; i < count; i += kChunk) {
        const int length = count - i < kChunk ? count - i : kChunk;
        copy_strided(chunk, from + i * stride, length, stride);
        K::convert(chunk, to + i, length);
      }
    }
  }

  static void convolve(const DepthwiseWork& work, int channel, int rows) {
    const int taps = (work.geometry->taps() + 1) / 2 * 2;
    const auto* weights =
        static_cast<const Value*>(work.weights) + static_cast<std::int64_t>(channel) * taps;
    const auto* strip = reinterpret_cast<const Value*>(work.strip);
    auto* sums = reinterpret_cast<Sum*>(work.sums);
    const int count = (rows - 1) * work.plane_width + work.geometry->out_width;
    int i = 0;
    for (; i + (kSteps - 1) * K::kLanes < count; i += kSteps * K::kLanes) {
      K::template accumulate<kSteps>(strip + i, weights, work.tap_offsets, taps, sums + i);
    }
    for (; i < count; i += K::kLanes) {
      K::template accumulate<1>(strip + i, weights, work.tap_offsets, taps, sums + i);
    }
  }

  static void write_rows(const DepthwiseWork& work, int channel, int y, int rows) {
    const int width = work.geometry->out_width;
    const int value_bytes = output_bytes(work.stage->kind);
    auto* output = static_cast<std::byte*>(work.output) + work.output_at(channel, y) * value_bytes;
    const auto* sums = reinterpret_cast<const Sum*>(work.sums);
    for (int row = 0; row < rows; ++row) {
      write_outputs<Channels::kOne>(*work.stage, channel, sums, width, output);
      sums += work.plane_width;
      output += width * value_bytes;
    }
  }
};

// Taps one after the other with a vector type that has load() and multiply_add(): fp32.
template <typename K, typename Vector, int kSteps>
inline void accumulate_taps(const typename K::Value* strip, const typename K::Value* weights,
                            const std::int32_t* offsets, int taps, typename K::Sum* sums) {
  Vector totals[kSteps];
  unroll<kSteps>([&](auto s) MPE_UNROLLED { totals[s.value] = Vector(0); });
  for (int tap = 0; tap < taps; ++tap) {
    const Vector weight(weights[tap]);
    const typename K::Value* values = strip + offsets[tap];
    unroll<kSteps>([&](auto s) MPE_UNROLLED {
      totals[s.value] =
          multiply_add(totals[s.value], Vector::load(values + s.value * K::kLanes), weight);
    });
  }
  unroll<kSteps>([&](auto s) MPE_UNROLLED { store(sums + s.value * K::kLanes, totals[s.value]); });
}

template <typename K>
constexpr DepthwiseKernel depthwise_kernel() {
  DepthwiseKernel kernel;
  kernel.strip_value_bytes = sizeof(typename K::Value);
  kernel.lanes = 4 * K::kLanes;
  kernel.weights = K::kWeights;
  kernel.run = Depthwise<K>::run;
  return kernel;
}

}  // namespace
}  // namespace mpe
