// Winograd's convolution (kernels/winograd_tiles.h) for a block of tiles at a time: the input tiles
// are transformed, at each position of a tile a matrix product runs over the channels (and over a
// channel's values at that position, of which there are several with stride 2), and the sums are
// transformed back. Neighbouring tiles lie along the vectors everywhere.
//
// Tiles are taken in the order of their rows, and rows of tiles follow each other without a gap in
// the products, so that small maps fill the vectors as well. The input's transform goes segment by
// segment (a row's part of the block) and may write up to a vector beyond a segment's end, where
// the next segment follows, but not beyond the block. The output's takes vectors of tiles as they
// come, over the ends of rows, and pools what it made where that is all that is wanted.
//
// A kernel K is one of generic/gemm.h with kUnit 1 and an accumulate() that takes the distances of
// panel rows and tile rows, and beside that has
//   Transform     the vector type of the input's transform; kLanes of it make a vector of a panel
//   Sums          the vector type of the output's transform; the sums wait for it in its Value
//   load_input(from)   Input to Transform, and in fp16 also floats, rounded to half
//   WeightTransform    how weights are transformed in an inference: a Vector type, with load(from)
//                 from Weight and store(to, x) to Multiplier
// Vector types have Value, what they are loaded from and stored as, and kLowest, the least of
// these; they offer keep_larger(largest, x) and keep_larger_value(largest, x), for which zeros are
// equal, for pooling; deinterleave(from, columns) and interleave(to, columns): column i of `count`
// holds the values at i, i + count, i + 2 count, ...; following(x, next): the lanes of x from the
// second on, then the first of next; and settle(x), which has x computed before what settles after
// it: compilers take more at once than the registers hold.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/generic/winograd_output.h"
#include "kernels/kernel_set.h"
#include "kernels/winograd_tiles.h"

namespace mpe {
namespace {

// Tiles of the block in one row of tiles.
struct TileSegment {
  int first;  // tile of the block
  int count;
  int y;  // row and column of the padded input where the first one begins
  int x;
};

template <typename Body>
inline void for_segments(const WinogradWork& work, Body&& body) {
  const int step = work.form->step;
  int y = work.tile_begin / work.tiles_x;
  int x = work.tile_begin - y * work.tiles_x;
  for (int first = 0; first < work.tile_count;) {
    const int left = work.tile_count - first;
    const int count = left < work.tiles_x - x ? left : work.tiles_x - x;
    body(TileSegment{first, count, y * step, x * step});
    first += count;
    x = 0;
    ++y;
  }
}

// `kSmaller`: transforms the input times kSmallerInput.
template <typename K, typename Tiles, bool kSmaller = false, typename Input = typename K::Input>
class WinogradInput {
 public:
  using Panel = typename K::Panel;
  using Vector = typename K::Transform;
  static constexpr int kInput = Tiles::kInput;
  static constexpr int kStep = Tiles::kOutput * Tiles::kStride;
  static constexpr int kLanes = Vector::kLanes;

  static void run(const WinogradWork& work) {
    const ConvolutionGeometry& geometry = *work.geometry;
    auto* lines = reinterpret_cast<Panel*>(work.lines);
    auto* zeros = reinterpret_cast<Input*>(lines + kInput * work.line_width);
    fill_run(zeros, Input{}, work.line_width);
    // Vectors go beyond a segment's last tile. What another layer has left there would be computed
    // with, and its overflow be taken for one of this layer.
    fill_run(lines, Panel{}, kInput * work.line_width);
    Panel* starts[kInput * kInput];
    find_panels(work, starts);
    for (int channel = work.channel_begin; channel < work.channel_end; ++channel) {
      const Input* input = static_cast<const Input*>(work.input) + channel * geometry.in_plane;
      for_segments(work, [&](const TileSegment& segment) {
        transform_columns(work, segment, input, zeros, lines);
        // Two lines at once, so that none waits for its own results.
        unroll<(kInput + 1) / 2>([&](auto i) MPE_UNROLLED {
          constexpr int kFirst = 2 * i.value;
          constexpr int kLines = kFirst + 1 < kInput ? 2 : 1;
          transform_rows<kFirst, kLines>(work, segment, lines, starts, channel);
        });
      });
    }
  }

 private:
  static constexpr WinogradForm kForm = winograd_form<Tiles>(0);

  // Where the first channel's values of a transformed tile begin, from (0, 0) on: once, as a
  // product of 64 bits keeps an Arm core busy for three cycles.
  static void find_panels(const WinogradWork& work, Panel* (&starts)[kInput * kInput]) {
    unroll<kInput * kInput>([&](auto i) MPE_UNROLLED {
      constexpr WinogradValue kValue = winograd_value<Tiles>(i.value / kInput, i.value % kInput);
      starts[i.value] = reinterpret_cast<Panel*>(work.panels) +
                        kForm.first_values[kValue.position] * work.value_stride +
                        std::int64_t{kValue.place} * work.panel_stride;
    });
  }

  // Along y, all columns of the segment. lines: [kInput][line_width]
  static void transform_columns(const WinogradWork& work, const TileSegment& segment,
                                const Input* input, const Input* zeros, Panel* lines) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int x = segment.x - geometry.padding_x;
    const int width = segment.count * kStep + kInput - kStep;
    const int first = limited(-x, 0, width);
    const int last = limited(geometry.in_width - x, first, width);
    const Input* rows[kInput];
    find_rows(work, segment.y - geometry.padding_y, input, rows);
    unroll<kInput>([&](auto i) MPE_UNROLLED {
      const bool inside = rows[i.value] != nullptr && last > first;
      rows[i.value] = inside ? rows[i.value] + x + first : zeros;
    });
    if (first > 0) clear_columns(work, lines, first);
    if (last < width) clear_columns(work, lines + last, width - last);
    lines += first;
    const int line_width = work.line_width;
    const int count = last - first;
    if (count >= kLanes) {
      // The last vector overlaps the one before if the count is not a multiple.
      int i = 0;
      for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
        transform_columns_at<2>(rows, i, lines, line_width);
      }
      for (; i < count; i += kLanes) {
        transform_columns_at<1>(rows, i + kLanes <= count ? i : count - kLanes, lines, line_width);
      }
    } else if (count > 0) {
      Input values[kInput][kLanes] = {};
      const Input* copies[kInput];
      for (int i = 0; i < kInput; ++i) {
        copies[i] = values[i];
        copy_run(values[i], rows[i], count);
      }
      transform_columns_at<1>(copies, 0, lines, line_width);
      if (last < width) clear_columns(work, lines + count, width - last);
    }
  }

  // The rows of a tile; null: in the padding.
  static inline __attribute__((always_inline)) void find_rows(const WinogradWork& work, int top,
                                                              const Input* input,
                                                              const Input* (&rows)[kInput]) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int place = work.in_rows.place_of(top);
    const std::int64_t start = static_cast<std::int64_t>(place) * geometry.in_width;
    const bool together = place + kInput <= work.in_rows.count;
    unroll<kInput>([&](auto i) MPE_UNROLLED {
      const int y = top + i.value;
      const std::int64_t row =
          together ? start + i.value * geometry.in_width
                   : static_cast<std::int64_t>(work.in_rows.place_of(y)) * geometry.in_width;
      rows[i.value] = y >= 0 && y < geometry.in_height ? input + row : nullptr;
    });
  }

  // A few columns of all lines.
  static void clear_columns(const WinogradWork& work, Panel* lines, int count) {
    for (int x = 0; x < count; ++x) {
      unroll<kInput>([&](auto i) MPE_UNROLLED { lines[i.value * work.line_width + x] = Panel{}; });
    }
  }

  // Vectors side by side, so that none waits for its own results.
  template <int kVectors>
  static inline __attribute__((always_inline)) void transform_columns_at(
      const Input* const (&rows)[kInput], int x, Panel* lines, int line_width) {
    Vector values[kVectors][kInput];
    Vector transformed[kVectors][kInput];
    unroll_grid<kInput, kVectors>([&](auto i, auto v) MPE_UNROLLED {
      Vector& value = values[v.value][i.value];
      value = K::load_input(rows[i.value] + x + v.value * kLanes);
      if constexpr (kSmaller) value = value * Vector(kSmallerInput);
    });
    unroll<kVectors>([&](auto v) MPE_UNROLLED {
      Tiles::transform_input(values[v.value], transformed[v.value]);
    });
    unroll_grid<kInput, kVectors>([&](auto i, auto v) MPE_UNROLLED {
      store(lines + i.value * line_width + x + v.value * kLanes, transformed[v.value][i.value]);
    });
  }

  // Along x, a vector of tiles at a time, of kLines lines.
  template <int kFirst, int kLines>
  static void transform_rows(const WinogradWork& work, const TileSegment& segment,
                             const Panel* lines, Panel* const (&starts)[kInput * kInput],
                             int channel) {
    constexpr int kCount = kLines * kInput;
    const int width = work.line_width;
    const Panel* line = lines + kFirst * width;
    const int room = work.panel_stride - segment.first;
    const std::int64_t row = std::int64_t{channel - work.panel_channel} * work.panel_stride;
    Panel* to[kCount];
    unroll<kCount>([&](auto j) MPE_UNROLLED {
      constexpr int kValue = kFirst * kInput + j.value;
      constexpr WinogradValue kPlace = winograd_value<Tiles>(kValue / kInput, kValue % kInput);
      to[j.value] = starts[kValue] + kForm.values_at(kPlace.position) * row + segment.first;
    });
    const auto transform_at = [&](int tile, auto... count) MPE_UNROLLED {
      Vector values[kLines][kInput];
      Vector transformed[kLines][kInput];
      unroll<kLines>([&](auto k) MPE_UNROLLED {
        load_tiles(line + k.value * width + tile * kStep, values[k.value]);
      });
      unroll<kLines>([&](auto k) MPE_UNROLLED {
        Tiles::transform_input(values[k.value], transformed[k.value]);
      });
      unroll<kCount>([&](auto j) MPE_UNROLLED {
        store(to[j.value] + tile, transformed[j.value / kInput][j.value % kInput], count...);
      });
    };
    // The next channel's row follows a panel's, and is written later. Not so where a channel has
    // several rows there, or where another thread transforms the next one.
    const bool ends_in_next =
        kForm.all_values() == kForm.all_positions() && channel + 1 < work.channel_end;
    const int fits = room - kLanes + 1;
    const int end = ends_in_next || fits > segment.count ? segment.count : fits;
    int tile = 0;
    for (; tile < end; tile += kLanes) transform_at(tile);
    if (tile < segment.count) {
      // Back to a whole vector: some tiles are transformed twice, to the same values.
      if (room >= kLanes) return transform_at(room - kLanes);
      return transform_at(tile, room - tile);
    }
    if (segment.first + segment.count < work.tile_count) return;
    // The products go on to the panel's end.
    for (; tile < room; ++tile) {
      unroll<kCount>([&](auto j) MPE_UNROLLED { to[j.value][tile] = Panel{}; });
    }
  }

  static inline __attribute__((always_inline)) void load_tiles(const Panel* line,
                                                               Vector (&values)[kInput]) {
    Vector columns[kStep];
    deinterleave(line, columns);
    unroll<kStep>([&](auto i) MPE_UNROLLED { values[i.value] = columns[i.value]; });
    // Each tile's last columns are the next tile's first ones.
    unroll<kInput - kStep>([&](auto i) MPE_UNROLLED {
      values[kStep + i.value] =
          following(columns[i.value], Vector::load(line + kStep * kLanes + i.value));
    });
  }
};

// Whether K has accumulate_with_single<V>(), for V vectors of tiles and a single tile. Before the
// last terms, K may keep the single tile's sums in any order in the vectors after the V.
template <typename K>
constexpr bool takes_single() {
  return requires { K::kTakesSingle; };
}

template <typename K>
class WinogradProduct {
 public:
  using Panel = typename K::Panel;
  using Weight = typename K::Weight;
  using Multiplier = typename K::Multiplier;
  using Sum = typename K::Sums::Value;
  static constexpr bool kWidens = !std::is_same_v<Weight, Multiplier>;
  static_assert(K::kUnit == 1);

  // A block has as many units at a position as there are values to multiply, since its products
  // take that much longer.
  static void run(const WinogradWork& work) {
    const auto& first_values = work.form->first_values;
    const TilePanels tile_panels(work.tile_count);
    int position = 0;
    for (int unit = work.unit_begin; unit < work.unit_end;) {
      while (first_values[position + 1] * work.chunk_blocks <= unit) ++position;
      const int values = work.form->values_at(position);
      const int start = first_values[position] * work.chunk_blocks;
      const int end = start + values * work.chunk_blocks;
      const int last = end < work.unit_end ? end : work.unit_end;
      const Blocks blocks = {position, values, (unit - start + values - 1) / values,
                             (last - start + values - 1) / values};
      for (int depth = 0; depth < values * work.depth; depth += work.depth_step) {
        multiply(work, tile_panels, blocks, depth);
      }
      unit = last;
    }
  }

  // How a block's tiles are divided: panels as equal as can be, since a narrow one leaves the
  // multipliers waiting for loads.
  struct TilePanels {
    explicit TilePanels(int tiles)
        : count((vectors_of(tiles) + K::kVectors - 1) / K::kVectors),
          fewest(vectors_of(tiles) / count),
          wider(vectors_of(tiles) - fewest * count),
          single(takes_single<K>() && tiles % K::kLanes == 1 && vectors_of(tiles) > 1) {}
    int count;
    int fewest;   // vectors of a panel
    int wider;    // panels with one vector more
    bool single;  // the last vector holds a single tile, as where a map has odd numbers of tiles

   private:
    static int vectors_of(int tiles) { return (tiles + K::kLanes - 1) / K::kLanes; }
  };

  // Terms [depth, depth + terms) of the sums of blocks [first, last) of the chunk, by
  // weights_of(block).
  template <typename WeightsOf>
  static inline __attribute__((always_inline)) void multiply_blocks(const WinogradWork& work,
                                                                    const TilePanels& tile_panels,
                                                                    int position, int first,
                                                                    int last, int depth, int terms,
                                                                    WeightsOf&& weights_of) {
    const int values = work.form->values_at(position);
    const Panel* panels = reinterpret_cast<const Panel*>(work.panels) +
                          work.form->first_values[position] * work.value_stride +
                          std::int64_t{depth - values * work.panel_channel} * work.panel_stride;
    const int all_terms = work.depth * values;
    for (int block = first; block < last; ++block) {
      const Multiplier* weights = weights_of(block);
      auto* sums = reinterpret_cast<Sum*>(work.sums) + position * work.sum_position +
                   static_cast<std::int64_t>(block) * K::kRows * work.sum_stride;
      int begin = 0;
      for (int i = 0; i < tile_panels.count; ++i) {
        const int used = tile_panels.fewest + (i < tile_panels.wider ? 1 : 0);
        const bool ends_in_single = tile_panels.single && i == tile_panels.count - 1;
        unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
          if (used != v.value + 1) return;
          const Panel* panel = panels + begin * K::kLanes;
          Sum* tile = sums + begin * K::kLanes;
          if constexpr (takes_single<K>() && v.value > 0) {
            if (ends_in_single) {
              return accumulate_with_single<v.value>(work, panel, weights, terms, tile, depth == 0,
                                                     depth + terms == all_terms);
            }
          }
          K::template accumulate<v.value + 1>(panel, weights, terms, tile, depth == 0,
                                              work.panel_stride, work.sum_stride);
        });
        begin += used;
      }
    }
  }

 private:
  // Blocks [first, last) of the chunk, at a position with so many values.
  struct Blocks {
    int position;
    int values;
    int first;
    int last;
  };

  template <int kVectors>
  static inline __attribute__((always_inline)) void accumulate_with_single(
      const WinogradWork& work, const Panel* panel, const Multiplier* weights, int terms, Sum* tile,
      bool first, bool last) {
    K::template accumulate_with_single<kVectors>(panel, weights, terms, tile, first, last,
                                                 work.panel_stride, work.sum_stride);
  }

  static void multiply(const WinogradWork& work, const TilePanels& tile_panels,
                       const Blocks& blocks, int depth) {
    const int left = blocks.values * work.depth - depth;
    const int terms = left < work.depth_step ? left : work.depth_step;
    multiply_blocks(work, tile_panels, blocks.position, blocks.first, blocks.last, depth, terms,
                    [&](int block) { return weights_of(work, blocks, block, depth, terms); });
  }

  static const Multiplier* weights_of(const WinogradWork& work, const Blocks& blocks, int block,
                                      int depth, int terms) {
    const std::int64_t value = work.form->first_values[blocks.position];
    const std::int64_t row =
        value * work.blocks + std::int64_t{work.first_row / K::kRows + block} * blocks.values;
    const auto* stored =
        static_cast<const Weight*>(work.weights) + (row * work.depth + depth) * K::kRows;
    if constexpr (kWidens) {
      auto* widened = reinterpret_cast<Multiplier*>(work.multipliers);
      K::widen(stored, widened, terms * K::kRows);
      return widened;
    } else {
      return stored;
    }
  }
};

// The products with weights that are stored as they are, a quarter of the bytes of transformed
// ones, and transformed for some channels and blocks of output channels at a time. One row of a
// tile's positions is transformed and multiplied after the other: its weights, and those that they
// are made of, stay in the first-level cache.
template <typename K, typename Tiles>
class WinogradOnTheFly {
 public:
  using Weight = typename K::Weight;
  using Multiplier = typename K::Multiplier;
  using Weights = typename K::WeightTransform;
  using Vector = typename Weights::Vector;
  static constexpr int kInput = Tiles::kInput;
  static constexpr int kPositions = Tiles::kPositions;
  static constexpr int kLanes = Vector::kLanes;
  static constexpr int kTaps = 9;
  static constexpr WinogradForm kForm = winograd_form<Tiles>(0);
  static constexpr bool kSingleValues = kForm.most_values() == 1;
  // Where a position has several values, a channel's weights have to be whole vectors.
  static constexpr bool kOffered = kSingleValues || K::kRows % kLanes == 0;

  static void run(const WinogradWork& work) {
    const auto* weights = reinterpret_cast<const Multiplier*>(work.multipliers);
    const typename WinogradProduct<K>::TilePanels tile_panels(work.tile_count);
    for (int depth = work.channel_begin; depth < work.channel_end; depth += work.depth_step) {
      const int left = work.channel_end - depth;
      const int terms = left < work.depth_step ? left : work.depth_step;
      const int step = vectors_of(terms) * kLanes;
      for (int first = 0; first < work.chunk_blocks; first += work.transformed_blocks) {
        const int more = work.chunk_blocks - first;
        const int blocks = more < work.transformed_blocks ? more : work.transformed_blocks;
        for (int row = 0; row < kPositions; ++row) {
          unroll<kPositions>([&](auto a) MPE_UNROLLED {
            if (a.value == row) transform_row<a.value>(work, first, blocks, depth, terms);
          });
          for (int column = 0; column < kPositions; ++column) {
            const int position = row * kPositions + column;
            const int values = kForm.values_at(position);
            WinogradProduct<K>::multiply_blocks(work, tile_panels, position, first, first + blocks,
                                                values * depth, values * terms, [&](int block) {
                                                  return weights +
                                                         column * work.transformed_stride +
                                                         (block - first) * values * step;
                                                });
          }
        }
      }
    }
  }

 private:
  static int vectors_of(int terms) { return (terms * K::kRows + kLanes - 1) / kLanes; }

  // To [column][block][term][value of the position][output channel]. depth_step terms are whole
  // vectors. Not inlined, so that the registers hold the constants.
  template <int kRow>
  static __attribute__((noinline)) void transform_row(const WinogradWork& work, int first,
                                                      int blocks, int depth, int terms) {
    const int count = vectors_of(terms);
    const std::int64_t stride = work.transformed_stride;
    auto* to = reinterpret_cast<Multiplier*>(work.multipliers);
    std::int64_t done = 0;
    for (int block = 0; block < blocks; ++block) {
      const std::int64_t row = work.first_row / K::kRows + first + block;
      const std::int64_t vector = row * vectors_of(work.depth) + depth * K::kRows / kLanes;
      const auto* from = static_cast<const Weight*>(work.weights) + vector * kLanes * kTaps;
      // Side by side, so that none waits for its own results.
      constexpr int kVectors = kSingleValues ? 2 : K::kRows / kLanes;
      int i = 0;
      for (; i + kVectors <= count; i += kVectors) {
        transform_vectors<kRow, kVectors>(from, to, done, stride);
        from += kVectors * kTaps * kLanes;
        to += kVectors * kLanes;
        done += kVectors;
      }
      if constexpr (kSingleValues) {
        for (; i < count; ++i, from += kTaps * kLanes, to += kLanes) {
          transform_vectors<kRow, 1>(from, to, done++, stride);
        }
      }
    }
  }

  // One row of positions, for some vectors of weights. Where a position has several values, these
  // are the vectors of one channel, and behind `done` vectors that were transformed before.
  // from: [vector][tap][lane]
  template <int kRow, int kVectors>
  static inline __attribute__((always_inline)) void transform_vectors(const Weight* from,
                                                                      Multiplier* to,
                                                                      std::int64_t done,
                                                                      std::int64_t stride) {
    constexpr int kFirst = Tiles::kFirstValue[kRow];
    constexpr int kDown = Tiles::kFirstValue[kRow + 1] - kFirst;
    Vector taps[kDown][kVectors][3];
    unroll_grid<3, kVectors>([&](auto x, auto v) MPE_UNROLLED {
      Vector column[3];
      unroll<3>([&](auto y) MPE_UNROLLED {
        column[y.value] = Weights::load(from + (v.value * kTaps + y.value * 3 + x.value) * kLanes);
      });
      Vector transformed[kInput];
      Tiles::transform_weights(column, transformed);
      unroll<kDown>([&](auto a) MPE_UNROLLED {
        taps[a.value][v.value][x.value] = transformed[kFirst + a.value];
      });
    });
    Vector values[kDown][kVectors][kInput];
    unroll_grid<kDown, kVectors>([&](auto a, auto v) MPE_UNROLLED {
      Tiles::transform_weights(taps[a.value][v.value], values[a.value][v.value]);
    });
    unroll<kPositions>([&](auto j) MPE_UNROLLED {
      constexpr int kLeft = Tiles::kFirstValue[j.value];
      constexpr int kAcross = Tiles::kFirstValue[j.value + 1] - kLeft;
      // From address to address, as in WinogradOutput.
      asm volatile("" : "+r"(to));
      Multiplier* column = to + done * (kDown * kAcross - 1) * kLanes;
      unroll_grid<kDown, kAcross>([&](auto a, auto b) MPE_UNROLLED {
        unroll<kVectors>([&](auto v) MPE_UNROLLED {
          constexpr int kVector = (a.value * kAcross + b.value) * kVectors + v.value;
          Weights::store(column + kVector * kLanes, values[a.value][v.value][kLeft + b.value]);
        });
      });
      to += stride;
    });
  }
};

template <typename K, typename Tiles>
constexpr void set_form(WinogradKernel& kernel, int form) {
  kernel.transform_input[form] = WinogradInput<K, Tiles>::run;
  if constexpr (sizeof(typename K::Sums::Value) == 2) {
    kernel.transform_smaller_input[form] = WinogradInput<K, Tiles, true>::run;
  }
  using Vector = typename K::Sums;
  kernel.transform_output[form] = WinogradOutput<Vector, Tiles, StoredSums<Vector, Tiles>>::run;
}

template <typename K, typename Tiles>
constexpr void set_form_of_image(WinogradKernel& kernel) {
  using Sums = SumsOfImage<K, Tiles>;
  kernel.image_tiles = Sums::kTiles;
  kernel.convolve_image = WinogradOutput<typename K::Sums, Tiles, Sums>::run;
  if constexpr (!std::is_same_v<typename K::Input, float>) {
    kernel.transform_float_image = WinogradInput<K, Tiles, false, float>::run;
    if constexpr (sizeof(typename K::Sums::Value) == 2) {
      kernel.transform_smaller_float_image = WinogradInput<K, Tiles, true, float>::run;
    }
  }
}

template <typename K, typename Tiles>
constexpr void set_form_on_the_fly(WinogradKernel& kernel, int form) {
  using OnTheFly = WinogradOnTheFly<K, Tiles>;
  if constexpr (OnTheFly::kOffered) kernel.multiply_on_the_fly[form] = OnTheFly::run;
}

// Whether vectors interleave the five columns of tiles of 5x5.
template <typename Vector>
concept InterleavesFive =
    requires(typename Vector::Value* to, const Vector (&columns)[5]) { interleave(to, columns); };

template <typename K>
constexpr WinogradKernel winograd_kernel() {
  WinogradKernel kernel;
  kernel.rows = K::kRows;
  kernel.lanes = K::kLanes;
  kernel.sum_lanes = K::Sums::kLanes;
  kernel.sum_bytes = sizeof(typename K::Sums::Value);
  kernel.vectors = K::kVectors;
  kernel.panel_bytes = sizeof(typename K::Panel);
  kernel.multiplier_bytes = WinogradProduct<K>::kWidens ? sizeof(typename K::Multiplier) : 0;
  kernel.takes_single = takes_single<K>();
  kernel.weights = K::kWeights;
  set_form<K, WinogradTiles<2, 1>>(kernel, 0);
  set_form<K, WinogradTiles<4, 1>>(kernel, 1);
  set_form<K, WinogradTiles<2, 2>>(kernel, 2);
  kernel.multiply = WinogradProduct<K>::run;
  set_form_on_the_fly<K, WinogradTiles<4, 1>>(kernel, 1);
  set_form_on_the_fly<K, WinogradTiles<2, 2>>(kernel, 2);
  set_form_of_image<K, WinogradTiles<4, 1>>(kernel);
  if constexpr (K::kWeights == WeightFormat::kFloat && InterleavesFive<typename K::Sums>) {
    set_form<K, WinogradTiles<5, 1>>(kernel, 3);
    set_form_on_the_fly<K, WinogradTiles<5, 1>>(kernel, 3);
  }
  kernel.transformed_bytes = sizeof(typename K::Multiplier);
  kernel.weight_lanes = K::WeightTransform::Vector::kLanes;
  return kernel;
}

}  // namespace
}  // namespace mpe
