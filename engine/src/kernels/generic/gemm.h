// Convolution as a matrix product with packing (Goto's scheme): a block of pixels and depth is
// packed once into panels that the micro-kernel reads in order, and every block of weights meets
// all of these panels while it is in the first-level cache.
//
// A kernel K describes one arithmetic on one instruction set:
//   Input       type of the tensor, Panel of the packed values, Weight as stored, Multiplier as
//               the micro-kernel wants weights, Sum float or int32
//   kRows, kLanes, kVectors   output channels of a tile, pixels of a vector, vectors of a tile
//   kUnit       terms of a sum that lie together
//   accumulate<V>(panel, weights, units, tile, fresh)   adds to the first V vectors of a tile of
//               sums [kRows][kVectors * kLanes], or starts it; kernels of floats also take the
//               distances between the rows of the panel and of the tile
//   convolve_tile<V>(panel, panel_stride, weights, units, stage, channel, rows, output, pixels)
//               writes the outputs of a tile of V vectors whose sums need not wait for more depth
//   convolve_taps<V>(taps, weights, stage, channel, rows, output, pixels)   the same of TapRuns
//   Vector      of Inputs. Kernels whose Panel is Input and whose sums are floats have these three
//   kRepeatsBias   exists if these kernels load OutputStage::repeated_bias
//   interleave(rows, panel)   packs kUnit rows of gathered values; unused if kUnit is 1 and Panel
//               is Input
//   widen(from, to, count)    Weight to Multiplier; unused where they are the same
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/generic/halves.h"
#include "kernels/generic/output.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

// The common shape of accumulate(): sums in registers, one step for each unit of depth. K has the
// vector type Accumulator, load_sums, store_sums, and step<V>(accumulators, panel, weights).
template <typename K, int kVectorsUsed, typename Panel, typename Multiplier, typename Sum>
inline void accumulate_in_registers(const Panel* panel, const Multiplier* weights, int units,
                                    Sum* tile, bool fresh,
                                    int panel_stride = K::kVectors * K::kLanes,
                                    int tile_stride = K::kVectors * K::kLanes) {
  typename K::Accumulator sums[K::kRows][kVectorsUsed];
  unroll_grid<K::kRows, kVectorsUsed>([&](auto r, auto v) MPE_UNROLLED {
    sums[r.value][v.value] = fresh
                                 ? typename K::Accumulator(0)
                                 : K::load_sums(tile + r.value * tile_stride + v.value * K::kLanes);
  });
#pragma GCC unroll 2
  for (int unit = 0; unit < units; ++unit) {
    K::template step<kVectorsUsed>(sums, panel, weights);
    panel += panel_stride * K::kUnit;
    weights += K::kRows * K::kUnit;
  }
  unroll_grid<K::kRows, kVectorsUsed>([&](auto r, auto v) MPE_UNROLLED {
    K::store_sums(tile + r.value * tile_stride + v.value * K::kLanes, sums[r.value][v.value]);
  });
}

// The step of instruction sets that read a weight as a broadcast from memory.
template <typename K, int kVectorsUsed, typename Accumulator, typename Panel, typename Multiplier>
inline __attribute__((always_inline)) void broadcast_step(
    Accumulator (&sums)[K::kRows][kVectorsUsed], const Panel* panel, const Multiplier* weights) {
  decltype(K::load_panel(panel)) values[kVectorsUsed];
  unroll<kVectorsUsed>([&](auto v) MPE_UNROLLED {
    values[v.value] = K::load_panel(panel + v.value * K::kLanes * K::kUnit);
  });
  unroll<K::kRows>([&](auto r) MPE_UNROLLED {
    const auto weight = K::broadcast(weights + r.value * K::kUnit);
    unroll<kVectorsUsed>([&](auto v) MPE_UNROLLED {
      sums[r.value][v.value] = K::multiply_add(sums[r.value][v.value], values[v.value], weight);
    });
  });
}

// The first `rows` rows of a tile of outputs.
template <typename Vector, int kRows, int kVectorsUsed, typename T>
inline __attribute__((always_inline)) void store_rows(const Vector (&tile)[kRows][kVectorsUsed],
                                                      int rows, T* output, std::int64_t pixels) {
  const auto store_row = [&](auto r) MPE_UNROLLED {
    unroll<kVectorsUsed>([&](auto v) MPE_UNROLLED {
      store(output + r.value * pixels + v.value * Vector::kLanes, tile[r.value][v.value]);
    });
  };
  if (rows >= kRows) {
    unroll<kRows>([&](auto r) MPE_UNROLLED { store_row(r); });
  } else {
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      if (r.value < rows) store_row(r);
    });
  }
}

// A tile's terms where they lie: a run for each tap, with a row for each channel.
template <typename T>
struct TapRuns {
  static constexpr int kMostTerms = 64;
  const T* starts[kMostTerms];
  int count = 0;
  int offset = 0;  // from there to the tile's first value
  int channels = 0;
  std::int64_t stride = 0;  // from a channel's row to the next

  // add(from, weights) for every run, where a term has kRows weights.
  template <int kRows, typename Weight, typename Add>
  inline __attribute__((always_inline)) void for_each(const Weight* weights, const Add& add) const {
    for (int run = 0; run < count; ++run, weights += channels * kRows) {
      add(starts[run] + offset, weights);
    }
  }
};

// The common shape of convolve_tile() and convolve_taps() for floats: add(sums).
template <typename K, int kVectorsUsed, typename Add>
inline __attribute__((always_inline)) void convolve_floats(const Add& add, const OutputStage& stage,
                                                           int channel, int rows, float* output,
                                                           std::int64_t pixels) {
  F32 sums[K::kRows][kVectorsUsed];
  unroll<K::kRows>([&](auto r) MPE_UNROLLED {
    const F32 bias(stage.bias[channel + r.value]);
    unroll<kVectorsUsed>([&](auto v) MPE_UNROLLED { sums[r.value][v.value] = bias; });
  });
  add(sums);
  // Outputs are stored while the next ones are activated. Vectors of half a cache line and more,
  // most of them over the end of one, are stored faster without anything between.
  if constexpr (K::kRows == kActivatedAtOnce && kStoresAsActivated) {
    if (rows >= K::kRows && !is_simple(stage.activation)) {
      F32 columns[kVectorsUsed][K::kRows];
      unroll_grid<kVectorsUsed, K::kRows>(
          [&](auto v, auto r) MPE_UNROLLED { columns[v.value][r.value] = sums[r.value][v.value]; });
      return with_costly(stage.activation, [&](auto kind) MPE_UNROLLED {
        activate_into_rows<kind.value>(&columns[0][0], kVectorsUsed, output, pixels);
      });
    }
  }
  activate_all(stage.activation, sums);
  store_rows(sums, rows, output, pixels);
}

// K has add_terms<V>(sums, panel, weights, units, panel_stride).
template <typename K, int kVectorsUsed>
inline __attribute__((always_inline)) void convolve_float_tile(
    const float* panel, std::int64_t panel_stride, const float* weights, int units,
    const OutputStage& stage, int channel, int rows, float* output, std::int64_t pixels) {
  const auto add = [&](F32(&sums)[K::kRows][kVectorsUsed]) MPE_UNROLLED {
    K::template add_terms<kVectorsUsed>(sums, panel, weights, units, panel_stride);
  };
  convolve_floats<K, kVectorsUsed>(add, stage, channel, rows, output, pixels);
}

template <typename K, int kVectorsUsed>
inline __attribute__((always_inline)) void convolve_float_taps(const TapRuns<float>& taps,
                                                               const float* weights,
                                                               const OutputStage& stage,
                                                               int channel, int rows, float* output,
                                                               std::int64_t pixels) {
  const auto add = [&](F32(&sums)[K::kRows][kVectorsUsed]) MPE_UNROLLED {
    taps.template for_each<K::kRows>(
        weights, [&](const float* from, const float* of_tap) MPE_UNROLLED {
          K::template add_terms<kVectorsUsed>(sums, from, of_tap, taps.channels, taps.stride);
        });
  };
  convolve_floats<K, kVectorsUsed>(add, stage, channel, rows, output, pixels);
}

template <typename K>
class Gemm {
 public:
  using Input = typename K::Input;
  using Panel = typename K::Panel;
  using Weight = typename K::Weight;
  using Multiplier = typename K::Multiplier;
  using Sum = typename K::Sum;

  static constexpr int kColumns = K::kLanes * K::kVectors;
  static constexpr bool kWidens = !std::is_same_v<Weight, Multiplier>;
  static constexpr bool kDirect = K::kUnit == 1 && std::is_same_v<Input, Panel>;
  static constexpr bool kFinishes = kDirect && std::is_same_v<Sum, float>;

  static void run(const GemmWork& work) {
    if constexpr (kFinishes) {
      if (reads_taps(work)) return run_taps(work);
      if (work.lines != nullptr || suits_panels(work)) return run_panels(work);
    }
    for (int column = work.column_begin; column < work.column_end; column += work.column_step) {
      const int left = work.column_end - column;
      const int count = left < work.column_step ? left : work.column_step;
      for (int depth = 0; depth < work.depth; depth += work.depth_step) {
        multiply(work, column, count, depth);
      }
    }
  }

 private:
  // Rows that are gathered before they are interleaved.
  static constexpr int kGatheredRows = 64;

  // The first-level cache of the smallest cores: lines a set, bytes that a way spans.
  static constexpr std::int64_t kWays = 4;
  static constexpr std::int64_t kWayBytes = 8 * 1024;
  static constexpr std::int64_t kLineBytes = 64;
  static constexpr std::int64_t kSmallWeights = 16 * 1024;

  static bool is_pointwise(const ConvolutionGeometry& geometry) {
    return geometry.taps() == 1 && geometry.stride_x == 1 && geometry.stride_y == 1 &&
           geometry.padding_y == 0 && geometry.padding_x == 0 &&
           geometry.in_height == geometry.out_height && geometry.in_width == geometry.out_width;
  }

  // Panel by panel, every block of weights: where the weights are small, or where panels need not
  // be packed.
  static bool suits_panels(const GemmWork& work) {
    if (work.depth > work.depth_step) return false;
    const std::int64_t weights = static_cast<std::int64_t>(work.rows) * work.depth;
    return is_pointwise(*work.geometry) ||
           weights * static_cast<std::int64_t>(sizeof(Weight)) <= kSmallWeights;
  }

  // Can a panel be read where it lies, that is, does it stay in the cache for all blocks? Its rows
  // are a plane apart, which may put many of them into few sets.
  static bool reads_input(const GemmWork& work) {
    if (!is_pointwise(*work.geometry)) return false;
    if (work.block_end - work.block_begin <= 2) return true;
    const std::int64_t distance =
        work.geometry->in_plane * static_cast<std::int64_t>(sizeof(Input));
    std::int64_t step = distance & -distance;
    step = step < kLineBytes ? kLineBytes : step > kWayBytes ? kWayBytes : step;
    return 2 * work.depth <= kWays * (kWayBytes / step);
  }

  // The tiles of a run of pixels: tile(first pixel, vectors). A last one of a few pixels is moved
  // back to whole vectors: some outputs are computed twice, with the same values.
  template <typename Tile>
  static inline __attribute__((always_inline)) void for_tiles(const GemmWork& work, int begin,
                                                              int end, const Tile& tile) {
    for (int column = begin; column < end;) {
      int count = end - column < kColumns ? end - column : kColumns;
      int vectors = (count + K::kLanes - 1) / K::kLanes;
      int first = column + count - vectors * K::kLanes;
      if (first < begin) {
        // Nowhere to move back to yet: whole vectors now, the rest next, if there are any.
        --vectors;
        if (vectors == 0) return multiply(work, column, count, 0);
        count = vectors * K::kLanes;
        first = column;
      }
      column += count;
      tile(first, vectors);
    }
  }

  static Input* output_at(const GemmWork& work, int block, int pixel) {
    return static_cast<Input*>(work.output) + block * K::kRows * work.geometry->out_plane + pixel;
  }

  // The end of an output row, or of this work.
  static int row_end(const GemmWork& work, int row) {
    const int end = (row + 1) * work.geometry->out_width;
    return end < work.column_end ? end : work.column_end;
  }

  // With lines, every row of the output is its own run, and a panel has as many runs of whole
  // vectors as terms.
  static void run_panels(const GemmWork& work) {
    const bool direct = reads_input(work);
    const bool lines = work.lines != nullptr;
    const auto* input = static_cast<const Input*>(work.input);
    if (lines) clear_lines(work);
    int loaded = 0;  // rows of the padded input before this one are in the lines, or were
    int end = work.column_end;
    for (int begin = work.column_begin; begin < work.column_end; begin = end) {
      if (lines) {
        const int row = begin / work.geometry->out_width;
        end = row_end(work, row);
        loaded = load_rows(work, row * work.geometry->stride_y, loaded);
      }
      for_tiles(work, begin, end, [&](int first, int vectors) MPE_UNROLLED {
        const Panel* panel = input + first;
        std::int64_t stride = work.geometry->in_plane;
        if (!direct) {
          stride = kColumns;
          panel = panel_at(work, 0, work.depth);
          if (lines) {
            pack_lines(work, first);
          } else {
            pack(work, first, vectors * K::kLanes, 0, work.depth, panel_at(work, 0, work.depth));
          }
        }
        for (int block = work.block_begin; block < work.block_end; ++block) {
          convolve_tile(work, block, vectors, panel, stride, weights_of(work, block, 0, work.depth),
                        output_at(work, block, first));
        }
      });
    }
  }

  // Are terms read from the lines where they lie? More blocks read them faster from a panel: here,
  // many of the vectors cross the end of a cache line.
  static bool reads_taps(const GemmWork& work) {
    return work.lines != nullptr && work.block_end - work.block_begin <= 2 &&
           work.depth <= TapRuns<Input>::kMostTerms;
  }

  static void run_taps(const GemmWork& work) {
    clear_lines(work);
    TapRuns<Panel> taps;
    int loaded = 0;
    int end = 0;
    for (int begin = work.column_begin; begin < work.column_end; begin = end) {
      const int row = begin / work.geometry->out_width;
      end = row_end(work, row);
      loaded = load_rows(work, row * work.geometry->stride_y, loaded);
      find_taps(work, row, taps);
      for_tiles(work, begin, end, [&](int first, int vectors) MPE_UNROLLED {
        taps.offset = first - row * work.geometry->out_width;
        for (int block = work.block_begin; block < work.block_end; ++block) {
          convolve_taps(work, block, vectors, taps, weights_of(work, block, 0, work.depth),
                        output_at(work, block, first));
        }
      });
    }
  }

  // Rows of the padded input from `top` on that an output row reads; returns the first that is not
  // there yet.
  static int load_rows(const GemmWork& work, int top, int loaded) {
    const int end = top + work.geometry->kernel_y;
    for (int row = loaded > top ? loaded : top; row < end; ++row) load_lines(work, row);
    return end;
  }

  // Of the first channel.
  static Input* line_at(const GemmWork& work, int padded_row) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int line = padded_row % geometry.kernel_y;
    return reinterpret_cast<Input*>(work.lines) +
           static_cast<std::int64_t>(line) * geometry.stride_x * work.line_width;
  }

  // In the lines.
  static std::int64_t channel_distance(const GemmWork& work) {
    const ConvolutionGeometry& geometry = *work.geometry;
    return static_cast<std::int64_t>(geometry.kernel_y) * geometry.stride_x * work.line_width;
  }

  // The terms of an output row's first value.
  static void find_taps(const GemmWork& work, int row, TapRuns<Input>& taps) {
    const ConvolutionGeometry& geometry = *work.geometry;
    taps.count = 0;
    taps.channels = geometry.channels;
    taps.stride = channel_distance(work);
    for (int ky = 0; ky < geometry.kernel_y; ++ky) {
      const Input* line = line_at(work, row * geometry.stride_y + ky);
      for (int kx = 0; kx < geometry.kernel_x; ++kx) {
        const int phase = kx % geometry.stride_x;
        taps.starts[taps.count++] = line + phase * work.line_width + kx / geometry.stride_x;
      }
    }
  }

  // Places beside the map are not written again.
  static void clear_lines(const GemmWork& work) {
    const std::int64_t count = channel_distance(work) * work.geometry->channels;
    fill_run(reinterpret_cast<Input*>(work.lines), Input{}, static_cast<int>(count));
  }

  static void load_lines(const GemmWork& work, int padded_row) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int y = padded_row - geometry.padding_y;
    const int stride = geometry.stride_x;
    const std::int64_t next = channel_distance(work);
    Input* to = line_at(work, padded_row);
    if (y < 0 || y >= geometry.in_height) {
      for (int channel = 0; channel < geometry.channels; ++channel, to += next) {
        fill_run(to, Input{}, stride * work.line_width);
      }
      return;
    }
    if (stride == 2) {
      const LinePhase even = phase_of(work, geometry.padding_x % 2);
      const LinePhase odd = phase_of(work, (geometry.padding_x + 1) % 2);
      const int pairs = even.count < odd.count ? even.count : odd.count;
      for (int channel = 0; channel < geometry.channels; ++channel) {
        const Input* from = input_row(work, channel, y);
        split_pairs<typename K::Vector>(from, to + even.place, to + odd.place, pairs);
        // A row of an odd width ends with an even place.
        copy_strided(to + even.place + pairs, from + 2 * pairs, even.count - pairs, 2);
        to += next;
      }
      return;
    }
    for (int channel = 0; channel < geometry.channels; ++channel, to += next) {
      const Input* from = input_row(work, channel, y);
      for (int phase = 0; phase < stride; ++phase) {
        const LinePhase line = phase_of(work, phase);
        if (stride == 1) {
          copy_run(to + line.place, from + line.x, line.count);
        } else {
          copy_strided(to + line.place, from + line.x, line.count, stride);
        }
      }
    }
  }

  static const Input* input_row(const GemmWork& work, int channel, int y) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const std::int64_t place =
        channel * geometry.in_plane + static_cast<std::int64_t>(y) * geometry.in_width;
    if constexpr (std::is_same_v<Input, std::uint16_t>) {
      if (work.narrowed != nullptr) {
        auto* row = reinterpret_cast<Input*>(work.narrowed);
        narrow_to_halves(static_cast<const float*>(work.input) + place, row, geometry.in_width);
        return row;
      }
    }
    return static_cast<const Input*>(work.input) + place;
  }

  // The values of a row of the input that go to one of its lines: `count` from the x-th on, every
  // stride_x-th. `place` counts from the first of the row's lines.
  struct LinePhase {
    std::int64_t place;
    int x;
    int count;
  };

  static LinePhase phase_of(const GemmWork& work, int phase) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int stride = geometry.stride_x;
    const int outside = geometry.padding_x - phase;
    const int first = limited((outside + stride - 1) / stride, 0, work.line_width);
    const int x = first * stride - outside;
    const int inside = (geometry.in_width - x + stride - 1) / stride;
    const int count = limited(inside, 0, work.line_width - first);
    return {static_cast<std::int64_t>(phase) * work.line_width + first, x, count};
  }

  static void pack_lines(const GemmWork& work, int pixel) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int y = pixel / geometry.out_width;
    const int top = y * geometry.stride_y;
    const int x = pixel - y * geometry.out_width;
    const std::int64_t next = channel_distance(work);
    Panel* to = panel_at(work, 0, work.depth);
    const int channels = geometry.channels;
    const int kernel_x = geometry.kernel_x;
    const int stride = geometry.stride_x;
    for (int ky = 0; ky < geometry.kernel_y; ++ky) {
      const Input* line = line_at(work, top + ky) + x;
      int phase = 0;
      for (int kx = 0; kx < kernel_x; ++kx) {
        const Input* from = line + phase * work.line_width;
        for (int channel = 0; channel < channels; ++channel, from += next, to += kColumns) {
          copy_block<kColumns * sizeof(Input)>(to, from);
        }
        if (++phase == stride) {
          phase = 0;
          ++line;
        }
      }
    }
  }

  // Calls convolve(vectors as a constant, channel, rows) for a tile of a block.
  template <typename Convolve>
  static inline __attribute__((always_inline)) void with_tile(const GemmWork& work, int block,
                                                              int vectors,
                                                              const Convolve& convolve) {
    const int first = block * K::kRows;
    const int rows = work.rows - first < K::kRows ? work.rows - first : K::kRows;
    unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
      if (vectors == v.value + 1) convolve(Index<v.value + 1>{}, work.first_channel + first, rows);
    });
  }

  static inline __attribute__((always_inline)) void convolve_tile(const GemmWork& work, int block,
                                                                  int vectors, const Panel* panel,
                                                                  std::int64_t panel_stride,
                                                                  const Multiplier* weights,
                                                                  Input* output) {
    with_tile(work, block, vectors, [&](auto used, int channel, int rows) MPE_UNROLLED {
      K::template convolve_tile<used.value>(panel, panel_stride, weights, work.depth, *work.stage,
                                            channel, rows, output, work.geometry->out_plane);
    });
  }

  static inline __attribute__((always_inline)) void convolve_taps(const GemmWork& work, int block,
                                                                  int vectors,
                                                                  const TapRuns<Panel>& taps,
                                                                  const Multiplier* weights,
                                                                  Input* output) {
    with_tile(work, block, vectors, [&](auto used, int channel, int rows) MPE_UNROLLED {
      K::template convolve_taps<used.value>(taps, weights, *work.stage, channel, rows, output,
                                            work.geometry->out_plane);
    });
  }

  static void multiply(const GemmWork& work, int column, int column_count, int depth) {
    const int left = work.depth - depth;
    const int depth_count = left < work.depth_step ? left : work.depth_step;
    const bool first = depth == 0;
    const bool last = left <= work.depth_step;
    const int panels = (column_count + kColumns - 1) / kColumns;

    for (int p = 0; p < panels; ++p) {
      pack(work, column + p * kColumns, panel_count(column_count, p), depth, depth_count,
           panel_at(work, p, depth_count));
    }
    alignas(64) Sum tile[K::kRows * kColumns];
    for (int block = work.block_begin; block < work.block_end; ++block) {
      const Multiplier* weights = weights_of(work, block, depth, depth_count);
      for (int p = 0; p < panels; ++p) {
        Sum* sums = first && last ? tile : tile_at(work, block, p);
        const int count = panel_count(column_count, p);
        accumulate(panel_at(work, p, depth_count), weights, depth_count / K::kUnit, sums, count,
                   first);
        if (last) write_tile(work, block, column + p * kColumns, count, sums);
      }
    }
  }

  static int panel_count(int columns, int panel) {
    const int left = columns - panel * kColumns;
    return left < kColumns ? left : kColumns;
  }

  static Panel* panel_at(const GemmWork& work, int panel, int depth_count) {
    return reinterpret_cast<Panel*>(work.panels) +
           static_cast<std::int64_t>(panel) * depth_count * kColumns;
  }

  static Sum* tile_at(const GemmWork& work, int block, int panel) {
    const int panels = work.column_step / kColumns;
    const std::int64_t index = static_cast<std::int64_t>(block - work.block_begin) * panels + panel;
    return reinterpret_cast<Sum*>(work.sums) + index * (K::kRows * kColumns);
  }

  static const Multiplier* weights_of(const GemmWork& work, int block, int depth, int depth_count) {
    const auto* stored = static_cast<const Weight*>(work.weights) +
                         (static_cast<std::int64_t>(block) * work.depth + depth) * K::kRows;
    if constexpr (kWidens) {
      auto* widened = reinterpret_cast<Multiplier*>(work.multipliers);
      K::widen(stored, widened, depth_count * K::kRows);
      return widened;
    } else {
      return stored;
    }
  }

  // Only as many vectors as have pixels are computed.
  static void accumulate(const Panel* panel, const Multiplier* weights, int units, Sum* tile,
                         int count, bool fresh) {
    const int vectors = (count + K::kLanes - 1) / K::kLanes;
    unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
      if (vectors == v.value + 1) {
        K::template accumulate<v.value + 1>(panel, weights, units, tile, fresh);
      }
    });
  }

  static void write_tile(const GemmWork& work, int block, int column, int count, const Sum* sums) {
    const int first = block * K::kRows;
    const int rows = work.rows - first < K::kRows ? work.rows - first : K::kRows;
    const int bytes = output_bytes(work.stage->kind);
    const std::int64_t plane = work.geometry->out_plane;
    auto* output = static_cast<std::byte*>(work.output) + (first * plane + column) * bytes;
    write_tile_outputs<K::kRows, kColumns>(*work.stage, work.first_channel + first, sums, rows,
                                           count, output, plane * bytes);
  }

  static Input padding_of(const GemmWork& work) {
    if constexpr (std::is_same_v<Input, std::int8_t>) {
      return work.padding_value;
    } else {
      return Input{};
    }
  }

  static void pack(const GemmWork& work, int column, int count, int depth, int depth_count,
                   Panel* panel) {
    if constexpr (kFinishes) {
      if (work.lines != nullptr) return pack_lines(work, column);
    }
    Segment segments[kColumns + 1];
    const int used = split_pixels(*work.geometry, column, count, kColumns, segments);
    const auto* input = static_cast<const Input*>(work.input);
    const Input padding = padding_of(work);
    if constexpr (kDirect) {
      gather_patches<kColumns>(*work.geometry, segments, used, depth, depth + depth_count, input,
                               padding, panel);
    } else {
      // interleave() may read a vector beyond its rows.
      alignas(64) Input rows[kGatheredRows * kColumns + 64] = {};
      for (int begin = 0; begin < depth_count; begin += kGatheredRows) {
        const int left = depth_count - begin;
        const int gathered = left < kGatheredRows ? left : kGatheredRows;
        gather_patches<kColumns>(*work.geometry, segments, used, depth + begin,
                                 depth + begin + gathered, input, padding, rows);
        for (int row = 0; row < gathered; row += K::kUnit) {
          K::interleave(rows + row * kColumns, panel);
          panel += kColumns * K::kUnit;
        }
      }
    }
  }
};

template <typename K>
constexpr GemmKernel gemm_kernel(int depth_step, int input_offset = 0) {
  using Multiply = Gemm<K>;
  GemmKernel kernel;
  kernel.rows = K::kRows;
  kernel.lanes = K::kLanes;
  kernel.columns = Multiply::kColumns;
  kernel.depth_unit = K::kUnit;
  kernel.panel_bytes = sizeof(typename K::Panel);
  kernel.multiplier_bytes = Multiply::kWidens ? sizeof(typename K::Multiplier) : 0;
  kernel.depth_step = depth_step;
  kernel.input_offset = input_offset;
  kernel.weights = K::kWeights;
  kernel.takes_lines = Multiply::kFinishes;
  kernel.repeats_bias = requires { K::kRepeatsBias; };
  kernel.run = Multiply::run;
  return kernel;
}

}  // namespace
}  // namespace mpe
