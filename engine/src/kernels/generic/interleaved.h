// Int8 convolution from a copy of the input in which a pixel's channels lie together, `unit` to a
// 32-bit word: the copy is made once for all taps, has its padding in it, and a panel of patches is
// then runs of whole words, whatever the tap; where there are few of these, they are multiplied
// where they lie. Every panel meets several blocks of weights while it is in the first-level cache.
// Where the tile wants another order, panels of a pointwise convolution need no copy: they are made
// from the input at once. The copy and the panels are in generic/interleaved_copy.h, what becomes
// of the sums is in generic/interleaved_output.h. Where outputs are pooled, panels come in pairs,
// of even and of odd output rows, and the largest of four sums is what becomes an output: bias,
// activation and rounding do not change the order of sums.
//
// A kernel K is one of generic/gemm.h, with unit values of Panel in a word, and further offers
//   interleave_words(rows, to)   sixteen words of kUnit rows of at least as many values
//   kArranged, arrange(words, panel)   does the tile want the words of a unit in another order?
//   interleave_arranged(rows, panel)   interleave_words() and arrange() at once, if it does
//   accumulate_pixel(panel, weights, units, tile, fresh)   accumulate() for the first pixel alone;
//               not every kernel has it
// and, where a tile's outputs are written from registers,
//   loaded(start)   a copy of what sums start from
// The including unit's vectors offer larger(a, b) and larger_of_pairs(a, b).
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/generic/interleaved_copy.h"
#include "kernels/generic/interleaved_output.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

template <typename K>
class Interleaved {
 public:
  static void run(const InterleavedWork& work) {
    const Writer writer = writer_of(*work.stage);
    for (int panel = work.panel_begin; panel < work.panel_end; panel += work.panel_step) {
      const int left = work.panel_end - panel;
      const Range panels = {panel, left < work.panel_step ? left : work.panel_step};
      const Strip strip = work.packs_pixels ? Strip{} : Copy::copy_rows(work, panels);
      for (int depth = 0; depth < work.depth; depth += work.depth_step) {
        multiply(work, strip, panels, depth, writer);
      }
    }
  }

  static constexpr int kColumns = InterleavedCopy<K>::kColumns;
  static constexpr bool kWidens = !std::is_same_v<typename K::Weight, typename K::Multiplier>;

 private:
  using Copy = InterleavedCopy<K>;
  using Outputs = InterleavedOutput<K>;
  using Range = typename Copy::Range;
  using Strip = typename Copy::Strip;
  using Word = typename Copy::Word;
  using Panel = typename K::Panel;
  using Weight = typename K::Weight;
  using Multiplier = typename K::Multiplier;
  // Writes the outputs of a tile from its complete sums.
  using Write = void (*)(const InterleavedWork& work, int block, int column, int count,
                         const std::int32_t* sums);
  // Outputs of a whole panel, from its last terms and the sums `before` of the others, if there
  // are.
  using Finish = void (*)(const InterleavedWork& work, int block, int panel, const Panel* packed,
                          const Multiplier* weights, int words, const std::int32_t* before);
  // Outputs of panels that lie, from the first on; returns how many.
  using Lying = int (*)(const InterleavedWork& work, const Strip& strip,
                        const std::int32_t* offsets, Range panels, int block_begin, int block_end);
  struct Writer {
    Write write;
    Lying lying;
    Finish finish;
  };

  static constexpr int kTile = Outputs::kTile;
  static constexpr int kLyingWords = 160;
  static constexpr bool kReadsLying = !K::kArranged && !kWidens;
  // Half a tile's rows of both halves are as many sums as a tile has: they stay in registers.
  static constexpr bool kInRegisters = Outputs::kSharesHalves && kReadsLying;
  static constexpr int kPooledRows = Outputs::kPooledRows;
  static constexpr int kHalfRows = K::kRows / 2;

  static void multiply(const InterleavedWork& work, const Strip& strip, Range panels, int depth,
                       const Writer& writer) {
    const int left = work.depth - depth;
    const int words = left < work.depth_step ? left : work.depth_step;
    const bool first = depth == 0;
    const bool last = left <= work.depth_step;
    const int height = Copy::halves(work);
    const std::int64_t panel_words = static_cast<std::int64_t>(words) * kColumns;
    auto* packed = reinterpret_cast<Word*>(work.panels);

    std::int32_t offsets[kLyingWords];
    if (work.depth <= kLyingWords) {
      for (int i = 0; i < work.depth; ++i) {
        const int tap = i / work.channel_words;
        const int word = i - tap * work.channel_words;
        offsets[i] = work.tap_offsets[tap] + static_cast<std::int32_t>(word * strip.plane);
      }
    }
    const int joined = joined_panels(work, panels);
    PanelPlace place(work, panels.begin + joined);
    for (int p = joined; p < panels.count; ++p, place.advance(work)) {
      if constexpr (K::kArranged) {
        if (work.packs_pixels) {
          Copy::pack_pixels(work, panels.begin + p, depth, words, packed + p * panel_words);
          continue;
        }
      }
      if (lying_start(work, strip, place) != nullptr) continue;
      for (int half = 0; half < height; ++half) {
        Copy::pack(work, strip, panels.begin + p, half, depth, words,
                   packed + (p * height + half) * panel_words);
      }
    }
    // From one block of rows to the next.
    const std::int64_t weight_step =
        weights_of(work, 0, 1, 0, words) - weights_of(work, 0, 0, 0, words);
    const std::int64_t sum_step =
        first && last ? 0 : static_cast<std::int64_t>(work.panel_step) * height * kTile;
    alignas(64) std::int32_t tiles[2 * kTile];
    for (int begin = work.block_begin; begin < work.block_end; begin += work.block_step) {
      const int most = work.block_end - begin;
      const int blocks = most < work.block_step ? most : work.block_step;
      if constexpr (kWidens) widen(work, begin, blocks, depth, words);
      for (int p = 0; p < panels.count; ++p) {
        p += writer.lying(work, strip, offsets, {panels.begin + p, panels.count - p}, begin,
                          begin + blocks);
        if (p == panels.count) break;
        const int panel = panels.begin + p;
        const int count = Copy::column_count(work, panel);
        const auto* values = reinterpret_cast<const Panel*>(packed + p * height * panel_words);
        const Multiplier* weights = weights_of(work, begin, 0, depth, words);
        std::int32_t* sums = first && last ? tiles : tiles_at(work, begin, p);
        for (int b = 0; b < blocks; ++b, weights += weight_step, sums += sum_step) {
          if (last && writer.finish != nullptr && count == kColumns && finishes(work, begin + b)) {
            writer.finish(work, begin + b, panel, values, weights, words, first ? nullptr : sums);
            continue;
          }
          for (int half = 0; half < height; ++half) {
            accumulate(values + half * panel_words * K::kUnit, weights, words, sums + half * kTile,
                       count, first);
          }
          if (last) writer.write(work, begin + b, panel * kColumns, count, sums);
        }
      }
    }
  }

  // Channels of a block.
  static int rows_of(const InterleavedWork& work, int block) {
    const int left = work.rows - block * K::kRows;
    return left < K::kRows ? left : K::kRows;
  }

  // Do sums become outputs without leaving the registers?
  static bool finishes(const InterleavedWork& work, int block) {
    const int rows = rows_of(work, block);
    return (rows == K::kRows || rows == kHalfRows) && !work.pool;
  }

  static bool lies(const InterleavedWork& work) {
    return kReadsLying && work.depth <= kLyingWords && work.depth <= work.depth_step;
  }
  // Do rows of the copy follow each other as those of the pixels do, with nothing between them?
  static bool joins_rows(const InterleavedWork& work) {
    return work.geometry->stride_y == 1 && work.row_words == work.geometry->out_width && !work.pool;
  }
  // How many of the panels, from the first on, lie in joined rows.
  static int joined_panels(const InterleavedWork& work, Range panels) {
    if (!lies(work) || !joins_rows(work)) return 0;
    return limited(work.geometry->pixels() / kColumns - panels.begin, 0, panels.count);
  }

  // A panel, and the place of its first pixel.
  struct PanelPlace {
    int panel;
    int row;
    int x;

    PanelPlace(const InterleavedWork& work, int first) : panel(first) {
      row = panel * kColumns / work.geometry->out_width;
      x = panel * kColumns - row * work.geometry->out_width;
    }
    // To the next panel, without a division.
    void advance(const InterleavedWork& work) {
      ++panel;
      for (x += kColumns; x >= work.geometry->out_width; x -= work.geometry->out_width) ++row;
    }
  };

  // Where a panel lies in the copy, if it is multiplied there: where few terms leave little to
  // compute beside the packing, and its pixels lie together.
  static const Word* lying_start(const InterleavedWork& work, const Strip& strip,
                                 const PanelPlace& place) {
    if (!lies(work)) return nullptr;
    const ConvolutionGeometry& geometry = *work.geometry;
    if (joins_rows(work)) {
      const int column = place.panel * kColumns;
      if (column + kColumns > geometry.pixels()) return nullptr;
      const std::int64_t skipped =
          std::int64_t{geometry.padding_y + strip.first_row} * work.row_words;
      return strip.words + (column - skipped);
    }
    if (place.x + kColumns > geometry.out_width) return nullptr;
    const int y = place.row * Copy::halves(work) * geometry.stride_y - geometry.padding_y;
    return strip.words + static_cast<std::int64_t>(y - strip.first_row) * work.row_words + place.x;
  }

  // Panels that stay in the first-level cache while all blocks of weights meet them.
  static constexpr int kMostLying = 64;
  static constexpr int kLyingBytes = 16 * 1024;

  template <Activation kActivation, typename Output>
  static int multiply_lying(const InterleavedWork& work, const Strip& strip,
                            const std::int32_t* offsets, Range panels, int block_begin,
                            int block_end) {
    const int fitting = kLyingBytes / (work.depth * kColumns * static_cast<int>(sizeof(Word)));
    const int most = limited(fitting, 1, kMostLying);
    const Word* starts[kMostLying];
    PanelPlace place(work, panels.begin);
    for (int done = 0;;) {
      int count = 0;
      while (count < most && done + count < panels.count) {
        starts[count] = lying_start(work, strip, place);
        if (starts[count] == nullptr) break;
        ++count;
        place.advance(work);
      }
      if (count == 0) return done;
      const Lie lie = {starts, offsets, {panels.begin + done, count}};
      for (int block = block_begin; block < block_end; ++block) {
        multiply_block<kActivation, Output>(work, lie, block);
      }
      done += count;
    }
  }

  // Panels that lie: the words at `offsets` from each start.
  struct Lie {
    const Word* const* starts;
    const std::int32_t* offsets;
    Range panels;
  };

  template <Activation kActivation, typename Output>
  static void multiply_block(const InterleavedWork& work, const Lie& lie, int block) {
    const int height = Copy::halves(work);
    const std::int64_t half = work.geometry->stride_y * work.row_words;
    if constexpr (kInRegisters) {
      if (work.pool && rows_of(work, block) == K::kRows) {
        for (int i = 0; i < lie.panels.count; ++i) {
          const Word* const halves[2] = {lie.starts[i], lie.starts[i] + half};
          pool_tiles<kActivation, Output>(work, block * K::kRows, (lie.panels.begin + i) * kColumns,
                                          halves, lie.offsets);
        }
        return;
      }
      if (finishes(work, block)) {
        const auto panel_at = [&lie](int panel, int word) MPE_UNROLLED {
          return reinterpret_cast<const Panel*>(lie.starts[panel] + lie.offsets[word]);
        };
        return finish_block<kActivation, Output>(work, block, lie.panels, panel_at,
                                                 stored(work, block, 0), work.depth, nullptr);
      }
    }
    alignas(64) std::int32_t tiles[2 * kTile];
    for (int i = 0; i < lie.panels.count; ++i) {
      for (int h = 0; h < height; ++h) {
        accumulate_lying(lie.starts[i] + h * half, lie.offsets, work.depth, stored(work, block, 0),
                         tiles + h * kTile);
      }
      Outputs::template write_tile<kActivation, Output>(
          work, block, (lie.panels.begin + i) * kColumns, kColumns, tiles);
    }
  }

  static void accumulate_lying(const Word* start, const std::int32_t* offsets, int words,
                               const Weight* weights, std::int32_t* tile) {
    typename K::Accumulator sums[K::kRows][K::kVectors];
    unroll_grid<K::kRows, K::kVectors>(
        [&](auto r, auto v) MPE_UNROLLED { sums[r.value][v.value] = typename K::Accumulator(0); });
#pragma GCC unroll 2
    for (int word = 0; word < words; ++word) {
      K::template step<K::kVectors>(sums, reinterpret_cast<const Panel*>(start + offsets[word]),
                                    weights);
      weights += K::kRows * K::kUnit;
    }
    unroll_grid<K::kRows, K::kVectors>([&](auto r, auto v) MPE_UNROLLED {
      K::store_sums(tile + r.value * kColumns + v.value * K::kLanes, sums[r.value][v.value]);
    });
  }

  static std::int32_t* tiles_at(const InterleavedWork& work, int block, int panel) {
    const std::int64_t index =
        static_cast<std::int64_t>(block - work.block_begin) * work.panel_step + panel;
    return reinterpret_cast<std::int32_t*>(work.sums) + index * Copy::halves(work) * kTile;
  }

  static const Weight* stored(const InterleavedWork& work, int block, int depth) {
    return static_cast<const Weight*>(work.weights) +
           (static_cast<std::int64_t>(block) * work.depth + depth) * (K::kRows * K::kUnit);
  }
  static Multiplier* widened(const InterleavedWork& work, int block, int words) {
    return reinterpret_cast<Multiplier*>(work.multipliers) +
           static_cast<std::int64_t>(block) * words * (K::kRows * K::kUnit);
  }
  static const Multiplier* weights_of(const InterleavedWork& work, int begin, int block, int depth,
                                      int words) {
    if constexpr (kWidens) {
      return widened(work, block, words);
    } else {
      return stored(work, begin + block, depth);
    }
  }
  static void widen(const InterleavedWork& work, int begin, int blocks, int depth, int words) {
    for (int block = 0; block < blocks; ++block) {
      K::widen(stored(work, begin + block, depth), widened(work, block, words),
               words * K::kRows * K::kUnit);
    }
  }

  // Only as many vectors as have pixels are computed.
  static void accumulate(const Panel* panel, const Multiplier* weights, int words,
                         std::int32_t* tile, int count, bool fresh) {
    if constexpr (requires { K::accumulate_pixel(panel, weights, words, tile, fresh); }) {
      if (count == 1) return K::accumulate_pixel(panel, weights, words, tile, fresh);
    }
    const int vectors = (count + K::kLanes - 1) / K::kLanes;
    unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
      if (vectors == v.value + 1) {
        K::template accumulate<v.value + 1>(panel, weights, words, tile, fresh);
      }
    });
  }

  // Outputs of the first kUsedRows rows of panels, from their last terms and the sums `before` of
  // the others, if there are; panel_at(panel, word) is where a word's pixels lie. After the first
  // kFirst words an even number is left.
  template <Activation kActivation, typename Output, bool kBounded, int kUsedRows, int kFirst,
            typename PanelAt>
  static void finish_rows(const InterleavedWork& work, int block, Range panels,
                          const PanelAt& panel_at, const Multiplier* weights, int words,
                          const std::int32_t* before) {
    const int first = block * K::kRows;
    const OutputStage& stage = *work.stage;
    const std::int64_t plane = work.geometry->out_plane;
    auto* output = static_cast<Output*>(work.output) + first * plane + panels.begin * kColumns;
    const Starts<kBounded, kUsedRows> starts(stage, first);
    const BlockConstants<kActivation, kBounded, kUsedRows> constants(stage, first);
    for (int panel = 0; panel < panels.count; ++panel, output += kColumns) {
      I32 sums[kUsedRows][K::kVectors];
      unroll_grid<kUsedRows, K::kVectors>([&](auto r, auto v) MPE_UNROLLED {
        I32& sum = sums[r.value][v.value];
        sum = starts.of(r);
        if (before != nullptr) {
          sum = sum + I32::load(before + r.value * kColumns + v.value * K::kLanes);
        }
      });
      const Multiplier* next = weights;
      const auto step = [&](int word) MPE_UNROLLED {
        K::template step<K::kVectors>(sums, panel_at(panel, word), next);
        next += K::kRows * K::kUnit;
      };
      // Beside what sums start from, with no branch between.
      unroll<kFirst>([&](auto word) MPE_UNROLLED { step(word.value); });
      for (int word = kFirst; word < words; word += 2) {
        step(word);
        step(word + 1);
      }
      if constexpr (kActivation == Activation::kLogistic && std::is_same_v<Output, std::int8_t>) {
        Outputs::template write_by_lines<kBounded>(stage, first, sums, output, plane);
        continue;
      }
      unroll<kUsedRows / 2>([&](auto pair) MPE_UNROLLED {
        constexpr int kRow = 2 * pair.value;
        if constexpr (kBounded) {
          constants.template write<kRow>(sums, output, plane);
        } else {
          const auto sums_at = [&](auto row, auto v)
                                   MPE_UNROLLED { return sums[kRow + row.value][v.value]; };
          Outputs::template write_rows<kActivation, K::kVectors, 2>(
              stage, first + kRow, sums_at, kColumns, output + kRow * plane, plane);
        }
      });
    }
  }

  // What sums start from: nothing, or what makes bounded ones easy to convert.
  template <bool kBounded, int kUsedRows>
  struct Starts {
    I32 rows[kBounded ? kUsedRows : 1];
    Starts(const OutputStage& stage, int channel) {
      if constexpr (kBounded) {
        for (int r = 0; r < kUsedRows; ++r) rows[r] = K::Bounded::start(stage, channel + r);
      } else {
        rows[0] = I32(0);
      }
    }
    template <typename Row>
    I32 of(Row) const {
      if constexpr (kBounded) return K::loaded(rows[Row::value]);
      return rows[0];
    }
  };

  template <Activation kActivation, bool kBounded, int kUsedRows>
  struct BlockConstants {
    BlockConstants(const OutputStage&, int) {}
  };
  template <Activation kActivation, int kUsedRows>
  struct BlockConstants<kActivation, true, kUsedRows> {
    using Constants = typename K::Bounded::Constants;
    Constants rows[kUsedRows];
    const ActivationLine* lines;
    BlockConstants(const OutputStage& stage, int channel) : lines(stage.lines) {
      for (int r = 0; r < kUsedRows; ++r) {
        rows[r] = Constants::template load<kActivation>(stage, channel + r);
      }
    }
    // Rows kRow and the next.
    template <int kRow>
    inline __attribute__((always_inline)) void write(const I32 (&sums)[kUsedRows][K::kVectors],
                                                     std::int8_t* output,
                                                     std::int64_t plane) const {
      const Constants two[] = {rows[kRow], rows[kRow + 1]};
      I32 of_two[2][K::kVectors];
      unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
        of_two[0][v.value] = sums[kRow][v.value];
        of_two[1][v.value] = sums[kRow + 1][v.value];
      });
      K::Bounded::template write<kActivation>(lines, two, of_two, output + kRow * plane, plane);
    }
  };

  // By the number of the block's channels (see finishes()) and whether their sums are bounded.
  template <Activation kActivation, typename Output, typename PanelAt>
  static void finish_block(const InterleavedWork& work, int block, Range panels,
                           const PanelAt& panel_at, const Multiplier* weights, int words,
                           const std::int32_t* before) {
    const int rows = rows_of(work, block);
    const auto finish = [&](auto used, auto bounded) MPE_UNROLLED {
      const auto finish_after = [&](auto first) MPE_UNROLLED {
        finish_rows<kActivation, Output, bounded.value != 0, used.value, first.value>(
            work, block, panels, panel_at, weights, words, before);
      };
      if (words % 2 == 1) return finish_after(Index<1>{});
      finish_after(Index<2>{});
    };
    const auto finish_all = [&](auto bounded) MPE_UNROLLED {
      if (rows == K::kRows) return finish(Index<K::kRows>{}, bounded);
      finish(Index<kHalfRows>{}, bounded);
    };
    if constexpr (Outputs::kHasBounded && std::is_same_v<Output, std::int8_t>) {
      if (work.stage->eight_bounded(block * K::kRows)) return finish_all(Index<1>{});
    }
    finish_all(Index<0>{});
  }

  template <Activation kActivation, typename Output>
  static void finish_tile(const InterleavedWork& work, int block, int panel, const Panel* packed,
                          const Multiplier* weights, int words, const std::int32_t* before) {
    const auto panel_at = [packed](int, int word)
                              MPE_UNROLLED { return packed + word * (kColumns * K::kUnit); };
    finish_block<kActivation, Output>(work, block, {panel, 1}, panel_at, weights, words, before);
  }

  // Outputs of whole pooled tiles, from the words at `offsets` from those of their two halves.
  template <Activation kActivation, typename Output>
  static void pool_tiles(const InterleavedWork& work, int first_row, int column,
                         const Word* const (&halves)[2], const std::int32_t* offsets) {
    const std::int64_t plane = work.geometry->out_plane / 4;
    auto* output = static_cast<Output*>(work.output) + first_row * plane + column / 2;
    for (int row = first_row; row < first_row + K::kRows;
         row += kPooledRows, output += kPooledRows * plane) {
      const Weight* weights = stored(work, row / K::kRows, 0) + row % K::kRows * K::kUnit;
      const I32 four = I32::load(work.stage->offset + row);
      I32 sums[2][kPooledRows][K::kVectors];
      unroll<2 * kPooledRows>([&](auto i) MPE_UNROLLED {
        constexpr int kRow = i.value % kPooledRows;
        unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
          sums[i.value / kPooledRows][kRow][v.value] = lane_of(four, Index<kRow>{});
        });
      });
#pragma GCC unroll 2
      for (int word = 0; word < work.depth; ++word, weights += K::kRows * K::kUnit) {
        unroll<2>([&](auto half) MPE_UNROLLED {
          const Word* from = halves[half.value] + offsets[word];
          K::template step<K::kVectors>(sums[half.value], reinterpret_cast<const Panel*>(from),
                                        weights);
        });
      }
      const auto larger_sums = [&](int r, int vector) MPE_UNROLLED {
        return larger(sums[0][r][vector], sums[1][r][vector]);
      };
      Outputs::template write_pooled_rows<kActivation>(*work.stage, row, larger_sums, output,
                                                       plane);
    }
  }

  template <Activation kActivation, typename Output>
  static Writer writer_to() {
    Writer writer = {Outputs::template write_tile<kActivation, Output>, none_lies, nullptr};
    if constexpr (kReadsLying) writer.lying = multiply_lying<kActivation, Output>;
    if constexpr (kInRegisters) writer.finish = finish_tile<kActivation, Output>;
    return writer;
  }
  static int none_lies(const InterleavedWork&, const Strip&, const std::int32_t*, Range, int, int) {
    return 0;
  }
  template <Activation kActivation>
  static Writer writer_for(OutputKind kind) {
    return kind == OutputKind::kInt8 ? writer_to<kActivation, std::int8_t>()
                                     : writer_to<kActivation, float>();
  }
  static Writer writer_of(const OutputStage& stage) {
    return with_activation(stage.activation, [&](auto activation) {
      return writer_for<activation.value>(stage.kind);
    });
  }
};

template <typename K>
constexpr InterleavedKernel interleaved_kernel(int depth_step, int block_bytes,
                                               int input_offset = 0) {
  using Multiply = Interleaved<K>;
  InterleavedKernel kernel;
  kernel.rows = K::kRows;
  kernel.columns = Multiply::kColumns;
  kernel.unit = K::kUnit;
  kernel.multiplier_bytes = Multiply::kWidens ? sizeof(typename K::Multiplier) : 0;
  kernel.input_offset = input_offset;
  kernel.depth_step = depth_step;
  kernel.block_bytes = block_bytes;
  kernel.packs_pixels = K::kArranged;
  kernel.run = Multiply::run;
  return kernel;
}

}  // namespace
}  // namespace mpe
