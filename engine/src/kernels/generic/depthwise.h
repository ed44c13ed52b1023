// Depthwise convolution, channel by channel: a strip of rows is copied with its padding, the columns
// sorted by their remainder modulo the stride, so that one vector load per tap serves neighbouring
// outputs whatever the stride, dilation and kernel size.
//
// A kernel K describes one arithmetic on one instruction set:
//   Input, Value, Sum          tensor's values, values of strip and weights, float or int32
//   kLanes                     outputs of one step
//   convert(from, to, count, zero_point)   Input to Value, unused where they are the same
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

template <typename K>
class Depthwise {
 public:
  using Input = typename K::Input;
  using Value = typename K::Value;
  using Sum = typename K::Sum;

  static void run(const DepthwiseWork& work) {
    for (int channel = work.channel_begin; channel < work.channel_end; ++channel) {
      const int height = work.geometry->out_height;
      for (int y = 0; y < height; y += work.strip_rows) {
        const int rows = height - y < work.strip_rows ? height - y : work.strip_rows;
        fill_strip(work, channel, y, rows);
        for (int row = 0; row < rows; ++row) convolve_row(work, channel, y, row);
      }
    }
  }

 private:
  static constexpr int kSteps = 4;

  static Value* strip_of(const DepthwiseWork& work) {
    return reinterpret_cast<Value*>(work.strip);
  }

  static int row_width(const DepthwiseWork& work) {
    return work.phase_width * work.geometry->stride_x;
  }

  // What output rows [y, y + rows) of a channel read.
  static void fill_strip(const DepthwiseWork& work, int channel, int y, int rows) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int input_channel = channel / work.multiplier;
    const int zero_point = work.zero_points == nullptr ? 0 : work.zero_points[input_channel];
    const auto* plane = static_cast<const Input*>(work.input) +
                        static_cast<std::int64_t>(input_channel) * geometry.in_height * geometry.in_width;
    const int first = y * geometry.stride_y - geometry.padding;
    const int count = (rows - 1) * geometry.stride_y + (geometry.kernel_y - 1) * geometry.dilation + 1;
    Value* to = strip_of(work);
    for (int row = first; row < first + count; ++row) {
      if (row < 0 || row >= geometry.in_height) {
        fill_run(to, Value{}, row_width(work));
        to += row_width(work);
        continue;
      }
      const Input* from = plane + static_cast<std::int64_t>(row) * geometry.in_width;
      for (int phase = 0; phase < geometry.stride_x; ++phase, to += work.phase_width) {
        fill_phase(work, from, phase, zero_point, to);
      }
    }
  }

  // Input columns phase - padding, + stride, + 2 stride, ...
  static void fill_phase(const DepthwiseWork& work, const Input* from, int phase, int zero_point,
                         Value* to) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int stride = geometry.stride_x;
    const int start = phase - geometry.padding;
    const int skipped = start < 0 ? (-start + stride - 1) / stride : 0;
    const int inside = (geometry.in_width - start + stride - 1) / stride;
    const int first = limited(skipped, 0, work.phase_width);
    const int last = limited(inside, first, work.phase_width);
    fill_run(to, Value{}, first);
    if (first < last) {
      copy(from + (start + first * stride), to + first, last - first, stride, zero_point);
    }
    fill_run(to + last, Value{}, work.phase_width - last);
  }

  static void copy(const Input* from, Value* to, int count, int stride, int zero_point) {
    if constexpr (std::is_same_v<Input, Value>) {
      if (stride == 1) {
        copy_run(to, from, count);
      } else {
        copy_strided(to, from, count, stride);
      }
    } else if (stride == 1) {
      K::convert(from, to, count, zero_point);
    } else {
      constexpr int kChunk = 256;
      Input chunk[kChunk];
      for (int i = 0; i < count; i += kChunk) {
        const int length = count - i < kChunk ? count - i : kChunk;
        copy_strided(chunk, from + i * stride, length, stride);
        K::convert(chunk, to + i, length, zero_point);
      }
    }
  }

  static void convolve_row(const DepthwiseWork& work, int channel, int y, int row) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int taps = (geometry.taps() + 1) / 2 * 2;
    const Value* weights =
        static_cast<const Value*>(work.weights) + static_cast<std::int64_t>(channel) * taps;
    const Value* strip = strip_of(work) + row * geometry.stride_y * row_width(work);
    auto* sums = reinterpret_cast<Sum*>(work.sums);
    int x = 0;
    for (; x + (kSteps - 1) * K::kLanes < geometry.out_width; x += kSteps * K::kLanes) {
      K::template accumulate<kSteps>(strip + x, weights, work.tap_offsets, taps, sums + x);
    }
    for (; x < geometry.out_width; x += K::kLanes) {
      K::template accumulate<1>(strip + x, weights, work.tap_offsets, taps, sums + x);
    }
    const std::int64_t position =
        (static_cast<std::int64_t>(channel) * geometry.out_height + y + row) * geometry.out_width;
    write_outputs<Channels::kOne>(
        *work.stage, channel, sums, geometry.out_width,
        static_cast<std::byte*>(work.output) + position * output_bytes(work.stage->kind));
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
