// Int8 depthwise convolution of 3x3 and 5x5 by blocks of output rows. Rows are copied with their
// padding, as they are; sums become outputs without leaving the registers. Channels whose sums are
// not bounded, and other sizes, are those of generic/depthwise.h.
//
// A kernel K is one of generic/depthwise.h and further has
//   Bounded              what writes bounded sums: neon/bounded_outputs.h
//   Filter<kSize>        a channel's weights in registers, made from a pointer to its weights, and
//                        rows_fit: whether the products of a row of it may be added up in 16 bits
//   add_products<kSize, kStride, kGroup>(from, row_step, filter, sums)   adds the products to
//                        sums[output row][vector of four], those of kGroup taps of a row in 16
//                        bits; `from` is the first output's first value. Up to 16 values beyond
//                        those that are wanted may be read
#pragma once

#include <cstdint>

#include "kernels/generic/depthwise.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

template <typename K>
class Int8Depthwise {
 public:
  static void run(const DepthwiseWork& work) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int size = geometry.kernel_y;
    const int stride = geometry.stride_y;
    const bool square = geometry.kernel_x == size && geometry.stride_x == stride;
    if (square && geometry.dilation_y == 1 && geometry.dilation_x == 1 &&
        geometry.out_width >= kLanes && work.stage->kind == OutputKind::kInt8) {
      if (size == 3 && stride == 1) return convolve<3, 1>(work);
      if (size == 3 && stride == 2) return convolve<3, 2>(work);
      if (size == 5 && stride == 1) return convolve<5, 1>(work);
      if (size == 5 && stride == 2) return convolve<5, 2>(work);
    }
    Depthwise<K>::run(work);
  }

 private:
  using Bounded = typename K::Bounded;
  static constexpr int kLanes = I32::kLanes;
  static constexpr int kRows = 4;  // of a block

  template <int kSize, int kStride>
  static void convolve(const DepthwiseWork& work) {
    with_activation(work.stage->activation, [&](auto activation) {
      // Linear and relu are relu6 with other limits: their loops are compiled once.
      constexpr bool kHasLimits =
          activation.value == Activation::kLinear || activation.value == Activation::kRelu;
      constexpr Activation kActivation = kHasLimits ? Activation::kRelu6 : activation.value;
      convolve<kSize, kStride, kActivation>(work);
    });
  }

  template <int kSize, int kStride, Activation kActivation>
  static void convolve(const DepthwiseWork& work) {
    bool filled = false;
    int padding = 0;
    for (int channel = work.channel_begin; channel < work.channel_end; ++channel) {
      if (work.stage->bounded == nullptr || work.stage->bounded[channel] == 0) {
        DepthwiseWork alone = work;
        alone.channel_begin = channel;
        alone.channel_end = channel + 1;
        Depthwise<K>::run(alone);
        filled = false;
        continue;
      }
      const int zero_point = work.zero_points[channel / work.multiplier];
      if (!filled || padding != zero_point) fill_padding<kSize, kStride>(work, zero_point);
      filled = true;
      padding = zero_point;
      convolve_channel<kSize, kStride, kActivation>(work, channel);
    }
  }

  template <int kSize, int kStride, Activation kActivation>
  static void convolve_channel(const DepthwiseWork& work, int channel) {
    constexpr int kTaps = (kSize * kSize + 1) / 2 * 2;
    const typename K::template Filter<kSize> filter(static_cast<const std::int16_t*>(work.weights) +
                                                    static_cast<std::int64_t>(channel) * kTaps);
    const Channel<kActivation> constants(*work.stage, channel);
    for (int y = work.row_begin; y < work.row_end; y += work.strip_rows) {
      const int left = work.row_end - y;
      const int rows = left < work.strip_rows ? left : work.strip_rows;
      fill_strip<kSize, kStride>(work, channel, y, rows);
      auto* output = static_cast<std::int8_t*>(work.output) + work.output_at(channel, y);
      const auto convolve_blocks = [&](int row, auto block_rows, auto group) {
        for (; row + block_rows.value <= rows; row += block_rows.value) {
          convolve_rows<kSize, kStride, block_rows.value, group.value>(work, row, filter, constants,
                                                                       output);
        }
        return row;
      };
      if (filter.rows_fit) {
        int row = convolve_blocks(0, Index<kRows>{}, Index<kSize>{});
        row = convolve_blocks(row, Index<2>{}, Index<kSize>{});
        convolve_blocks(row, Index<1>{}, Index<kSize>{});
      } else {
        const int row = convolve_blocks(0, Index<2>{}, Index<2>{});
        convolve_blocks(row, Index<1>{}, Index<2>{});
      }
    }
  }

  // In registers: a store of an output might change them in memory.
  template <Activation kActivation>
  struct Channel {
    typename Bounded::Constants constants;
    I32 start;
    const ActivationLine* lines;
    Channel(const OutputStage& stage, int channel)
        : start(Bounded::start(stage, channel)), lines(stage.lines) {
      if constexpr (kActivation == Activation::kRelu6) {
        constants = Bounded::Constants::load_limits(stage, channel);
      } else {
        constants = Bounded::Constants::template load<kActivation>(stage, channel);
      }
    }
  };

  // Values from one row of the strip to the next.
  template <int kStride>
  static int row_step(const DepthwiseWork& work) {
    return work.plane_width * kStride;
  }

  // What the channels' values do not overwrite stays for all of them.
  template <int kSize, int kStride>
  static void fill_padding(const DepthwiseWork& work, int zero_point) {
    const int rows = (work.rows_at_once() - 1) * kStride + kSize;
    fill_run(reinterpret_cast<std::int8_t*>(work.strip), static_cast<std::int8_t>(zero_point),
             rows * row_step<kStride>(work));
  }

  // Copies what output rows [y, y + rows) of a channel read.
  template <int kSize, int kStride>
  static void fill_strip(const DepthwiseWork& work, int channel, int y, int rows) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int input_channel = channel / work.multiplier;
    const int step = row_step<kStride>(work);
    const int before = limited(geometry.padding_x, 0, step);
    const int count = limited(geometry.in_width, 0, step - before);
    auto* strip = reinterpret_cast<std::int8_t*>(work.strip);
    const auto* input =
        static_cast<const std::int8_t*>(work.input) + input_channel * geometry.in_plane;
    for_strip_rows(
        work, y * kStride - geometry.padding_y, 0, (rows - 1) * kStride + kSize,
        [&](int row, int place, int used) {
          copy_rows(strip + static_cast<std::int64_t>(row) * step + before, step,
                    input + static_cast<std::int64_t>(place) * geometry.in_width, geometry.in_width,
                    count, used);
        },
        [&](int row, int used) {
          if (!work.has_several_strips()) return;
          fill_run(strip + static_cast<std::int64_t>(row) * step,
                   static_cast<std::int8_t>(work.zero_points[input_channel]), used * step);
        });
  }

  // Output rows [row, row + kUsedRows) of the strip, in fours of columns; the last four overlap
  // those before.
  template <int kSize, int kStride, int kUsedRows, int kGroup, Activation kActivation,
            typename Filter>
  static void convolve_rows(const DepthwiseWork& work, int row, const Filter& filter,
                            const Channel<kActivation>& channel, std::int8_t* output) {
    const int width = work.geometry->out_width;
    const int step = row_step<kStride>(work);
    const auto* from = reinterpret_cast<const std::int8_t*>(work.strip) +
                       static_cast<std::int64_t>(row) * kStride * step;
    output += static_cast<std::int64_t>(row) * width;
    const auto block = [&](int x, auto vectors) MPE_UNROLLED {
      I32 sums[kUsedRows][vectors.value];
      unroll_grid<kUsedRows, vectors.value>(
          [&](auto r, auto v) MPE_UNROLLED { sums[r.value][v.value] = channel.start; });
      K::template add_products<kSize, kStride, kGroup>(from + x * kStride, step, filter, sums);
      typename Bounded::Constants constants[kUsedRows];
      unroll<kUsedRows>([&](auto r) MPE_UNROLLED { constants[r.value] = channel.constants; });
      Bounded::template write<kActivation>(channel.lines, constants, sums, output + x, width);
    };
    int x = 0;
    for (; x + 4 * kLanes <= width; x += 4 * kLanes) block(x, Index<4>{});
    if (x + 2 * kLanes <= width) {
      block(x, Index<2>{});
      x += 2 * kLanes;
    }
    for (; x < width; x += kLanes) {
      block(x + kLanes <= width ? x : width - kLanes, Index<1>{});
    }
  }
};

template <typename K>
constexpr DepthwiseKernel int8_depthwise_kernel() {
  DepthwiseKernel kernel = depthwise_kernel<K>();
  kernel.run = Int8Depthwise<K>::run;
  return kernel;
}

}  // namespace
}  // namespace mpe
