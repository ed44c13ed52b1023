// Int8 convolution from a copy of the input in which a pixel's channels lie together, `unit` to a
// 32-bit word: the copy is made once for all taps, has its padding in it, and a panel of patches is
// then runs of whole words, whatever the tap; where there are few of these, they are multiplied
// where they lie. Every panel meets several blocks of weights while it
// is in the first-level cache. Where outputs are pooled, panels come in pairs, of even and of odd
// output rows, and the largest of four sums is what becomes an output: bias, activation and
// rounding do not change the order of sums.
//
// A kernel K is one of generic/gemm.h, with unit values of Panel in a word, and further offers
//   interleave_words(rows, to)   sixteen words of kUnit rows of at least as many values
//   kArranged, arrange(words, panel)   does the tile want the words of a unit in another order?
//   accumulate_pixel(panel, weights, units, tile, fresh)   accumulate() for the first pixel alone;
//               not every kernel has it
// The including unit's vectors offer larger(a, b) and larger_of_pairs(a, b).
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
class Interleaved {
 public:
  static void run(const InterleavedWork& work) {
    const Writer writer = writer_of(*work.stage);
    for (int panel = work.panel_begin; panel < work.panel_end; panel += work.panel_step) {
      const int left = work.panel_end - panel;
      const Range panels = {panel, left < work.panel_step ? left : work.panel_step};
      const Strip strip = copy_rows(work, panels);
      for (int depth = 0; depth < work.depth; depth += work.depth_step) {
        multiply(work, strip, panels, depth, writer);
      }
    }
  }

  static constexpr int kColumns = K::kLanes * K::kVectors;
  static constexpr bool kWidens = !std::is_same_v<typename K::Weight, typename K::Multiplier>;

 private:
  using Panel = typename K::Panel;
  using Weight = typename K::Weight;
  using Multiplier = typename K::Multiplier;
  using Word = std::uint32_t;
  // Outputs of a tile whose sums are there.
  using Write = void (*)(const InterleavedWork& work, int block, int column, int count,
                         const std::int32_t* sums);
  // Outputs of whole pooled tiles, from the words at `offsets` from those of their two halves.
  using Pool = void (*)(const InterleavedWork& work, int row_begin, int row_end, int column,
                        const Word* const (&halves)[2], const std::int32_t* offsets);
  // Outputs of a whole tile, from its last terms and the sums `before` of the others, if there are.
  using Finish = void (*)(const InterleavedWork& work, int block, int column, const Panel* panel,
                          const Multiplier* weights, int words, const std::int32_t* before);
  struct Writer {
    Write write;
    Pool pool;
    Finish finish;
  };

  static constexpr int kTile = K::kRows * kColumns;
  static constexpr int kWordsAtOnce = 16;
  static constexpr int kLyingWords = 160;
  // Four lanes, as these have lane_of(), twice_each() and store_int8_halves().
  static constexpr bool kSharesHalves = K::kVectors == 3 && K::kLanes == 4 && K::kRows == 8;
  static constexpr bool kReadsLying = !K::kArranged && !kWidens;
  // Half a tile's rows of both halves are as many sums as a tile has: they stay in registers.
  static constexpr bool kPoolsInRegisters = kSharesHalves && kReadsLying;
  static constexpr int kPooledRows = K::kRows / 2;
  static_assert(K::kUnit * sizeof(Panel) == sizeof(Word));

  struct Range {
    int begin;
    int count;
  };

  // The copy: planes [channel word][row][column] of words.
  struct Strip {
    Word* words;
    std::int64_t plane;  // words
    int first_row;       // of the input; may be negative
  };

  static int halves(const InterleavedWork& work) { return work.pool ? 2 : 1; }
  static int columns(const InterleavedWork& work) { return work.geometry->pixels() / halves(work); }

  static Strip copy_rows(const InterleavedWork& work, Range panels) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int height = halves(work);
    const int begin = panels.begin * kColumns;
    const int end = limited(begin + panels.count * kColumns, 0, columns(work));
    const int first = begin / geometry.out_width * height;
    const int last = (end - 1) / geometry.out_width * height + height - 1;
    const int rows =
        (last - first) * geometry.stride_y + (geometry.kernel_y - 1) * geometry.dilation + 1;
    Strip strip;
    strip.words = reinterpret_cast<Word*>(work.strip);
    strip.plane = interleaved_plane(rows, work.padded_width) / 4;
    strip.first_row = first * geometry.stride_y - geometry.padding;
    for (int word = 0; word < work.channel_words; ++word) {
      copy_plane(work, word, strip.first_row, rows, strip.words + word * strip.plane);
    }
    return strip;
  }

  static void copy_plane(const InterleavedWork& work, int word, int y, int rows, Word* to) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const std::int64_t plane = static_cast<std::int64_t>(geometry.in_height) * geometry.in_width;
    const std::int8_t* channels[K::kUnit];
    for (int c = 0; c < K::kUnit; ++c) {
      // What stands for a channel too many meets weights of zero.
      const int channel = limited(word * K::kUnit + c, 0, geometry.channels - 1);
      channels[c] = work.input + channel * plane;
    }
    const int width = work.padded_width;
    const int before = geometry.padding < width ? geometry.padding : width;
    const int count = limited(geometry.in_width, 0, width - before);
    // Rows without padding that follow each other are one.
    if (before == 0 && count == width && geometry.in_width == width && y >= 0 &&
        y + rows <= geometry.in_height) {
      copy_words(channels, static_cast<std::int64_t>(y) * width, rows * width, to);
      return;
    }
    const Word padding = padding_word(work.padding_value);
    for (int row = 0; row < rows; ++row, ++y, to += width) {
      if (y < 0 || y >= geometry.in_height) {
        fill_run(to, padding, width);
        continue;
      }
      fill_run(to, padding, before);
      copy_words(channels, static_cast<std::int64_t>(y) * geometry.in_width, count, to + before);
      fill_run(to + before + count, padding, width - before - count);
    }
  }

  static Word padding_word(std::int8_t value) {
    std::int8_t values[kWordsAtOnce];
    const std::int8_t* rows[K::kUnit];
    Word words[kWordsAtOnce];
    fill_run(values, value, kWordsAtOnce);
    for (const std::int8_t*& row : rows) row = values;
    K::interleave_words(rows, reinterpret_cast<Panel*>(words));
    return words[0];
  }

  static void copy_words(const std::int8_t* const (&channels)[K::kUnit], std::int64_t offset,
                         int count, Word* to) {
    const std::int8_t* from[K::kUnit];
    const auto copy = [&](int i) {
      for (int c = 0; c < K::kUnit; ++c) from[c] = channels[c] + offset + i;
      K::interleave_words(from, reinterpret_cast<Panel*>(to + i));
    };
    if (count >= kWordsAtOnce) {
      for (int i = 0; i + kWordsAtOnce < count; i += kWordsAtOnce) copy(i);
      copy(count - kWordsAtOnce);  // overlaps what was there before
      return;
    }
    std::int8_t few[K::kUnit][kWordsAtOnce] = {};
    Word words[kWordsAtOnce];
    for (int c = 0; c < K::kUnit; ++c) {
      copy_run(few[c], channels[c] + offset, count);
      from[c] = few[c];
    }
    K::interleave_words(from, reinterpret_cast<Panel*>(words));
    copy_run(to, words, count);
  }

  static int column_count(const InterleavedWork& work, int panel) {
    const int left = columns(work) - panel * kColumns;
    return left < kColumns ? left : kColumns;
  }

  static void multiply(const InterleavedWork& work, const Strip& strip, Range panels, int depth,
                       const Writer& writer) {
    const int left = work.depth - depth;
    const int words = left < work.depth_step ? left : work.depth_step;
    const bool first = depth == 0;
    const bool last = left <= work.depth_step;
    const int height = halves(work);
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
    for (int p = 0; p < panels.count; ++p) {
      if (lies_whole(work, panels.begin + p)) continue;
      for (int half = 0; half < height; ++half) {
        pack(work, strip, panels.begin + p, half, depth, words,
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
        const int panel = panels.begin + p;
        const int count = column_count(work, panel);
        if (lies_whole(work, panel)) {
          multiply_lying(work, strip, offsets, panel, begin, blocks, tiles, writer);
          continue;
        }
        const auto* values = reinterpret_cast<const Panel*>(packed + p * height * panel_words);
        const Multiplier* weights = weights_of(work, begin, 0, depth, words);
        std::int32_t* sums = first && last ? tiles : tiles_at(work, begin, p);
        for (int b = 0; b < blocks; ++b, weights += weight_step, sums += sum_step) {
          if (last && writer.finish != nullptr && count == kColumns &&
              (begin + b + 1) * K::kRows <= work.rows && !work.pool) {
            writer.finish(work, begin + b, panel * kColumns, values, weights, words,
                          first ? nullptr : sums);
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

  // Is a panel multiplied where it lies in the copy? Where few terms leave little to compute beside
  // the packing, and it is part of one row.
  static bool lies_whole(const InterleavedWork& work, int panel) {
    if constexpr (!kReadsLying) return false;
    if (work.depth > kLyingWords || work.depth > work.depth_step || work.geometry->stride_x != 1) {
      return false;
    }
    const int first = panel * kColumns;
    return first % work.geometry->out_width + kColumns <= work.geometry->out_width;
  }

  static void multiply_lying(const InterleavedWork& work, const Strip& strip,
                             const std::int32_t* offsets, int panel, int begin, int blocks,
                             std::int32_t* tiles, const Writer& writer) {
    if constexpr (kReadsLying) {
      const ConvolutionGeometry& geometry = *work.geometry;
      const int height = halves(work);
      const int row = panel * kColumns / geometry.out_width;
      const int x = panel * kColumns - row * geometry.out_width;
      const int y = row * height * geometry.stride_y - geometry.padding - strip.first_row;
      const Word* start = strip.words + static_cast<std::int64_t>(y) * work.padded_width + x;
      const Word* const starts[2] = {start, start + geometry.stride_y * work.padded_width};
      int block = begin;
      if (kPoolsInRegisters && work.pool) {
        const int whole = limited(work.rows / K::kRows, begin, begin + blocks);
        writer.pool(work, begin * K::kRows, whole * K::kRows, panel * kColumns, starts, offsets);
        block = whole;
      }
      for (; block < begin + blocks; ++block) {
        for (int half = 0; half < height; ++half) {
          accumulate_lying(starts[half], offsets, work.depth, stored(work, block, 0),
                           tiles + half * kTile);
        }
        writer.write(work, block, panel * kColumns, kColumns, tiles);
      }
    }
  }

  static void accumulate_lying(const Word* start, const std::int32_t* offsets, int words,
                               const Weight* weights, std::int32_t* tile) {
    typename K::Accumulator sums[K::kRows][K::kVectors];
    unroll<K::kRows>([&](auto r) MPE_UNROLLED {
      unroll<K::kVectors>(
          [&](auto v) MPE_UNROLLED { sums[r.value][v.value] = typename K::Accumulator(0); });
    });
#pragma GCC unroll 2
    for (int word = 0; word < words; ++word) {
      K::template step<K::kVectors>(sums, reinterpret_cast<const Panel*>(start + offsets[word]),
                                    weights);
      weights += K::kRows * K::kUnit;
    }
    unroll<K::kRows>([&](auto r) MPE_UNROLLED {
      unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
        K::store_sums(tile + r.value * kColumns + v.value * K::kLanes, sums[r.value][v.value]);
      });
    });
  }

  static std::int32_t* tiles_at(const InterleavedWork& work, int block, int panel) {
    const std::int64_t index =
        static_cast<std::int64_t>(block - work.block_begin) * work.panel_step + panel;
    return reinterpret_cast<std::int32_t*>(work.sums) + index * halves(work) * kTile;
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

  // Words [depth, depth + words) of the patches under a panel.
  static void pack(const InterleavedWork& work, const Strip& strip, int panel, int half, int depth,
                   int words, Word* to) {
    const ConvolutionGeometry& geometry = *work.geometry;
    Segment segments[kColumns + 1];
    const Word* starts[kColumns];
    const Word* froms[kColumns];
    const int used =
        split_pixels(geometry, panel * kColumns, column_count(work, panel), 0, segments);
    for (int i = 0; i < used; ++i) {
      const int y = segments[i].y * halves(work) + half;
      const std::int64_t row = y * geometry.stride_y - geometry.padding - strip.first_row;
      starts[i] = strip.words + row * work.padded_width + segments[i].x * geometry.stride_x;
    }
    const bool whole = used == 1 && segments[0].count == kColumns && geometry.stride_x == 1;
    int tap = depth / work.channel_words;
    int channel = depth - tap * work.channel_words;
    const Word* const end = to + static_cast<std::int64_t>(words) * kColumns;
    Word* const begin = to;
    if (whole && work.channel_words == 1) {
      for (; to < end; to += kColumns, ++tap) {
        copy_block<kColumns * sizeof(Word)>(to, starts[0] + work.tap_offsets[tap]);
      }
    }
    while (to < end) {
      const int left = static_cast<int>((end - to) / kColumns);
      const int count = work.channel_words - channel < left ? work.channel_words - channel : left;
      const std::int64_t offset = work.tap_offsets[tap] + channel * strip.plane;
      if (whole) {
        copy_whole(starts[0] + offset, strip.plane, count, to);
      } else if (geometry.stride_x == 1) {
        for (int i = 0; i < used; ++i) froms[i] = starts[i] + offset;
        copy_pieces(froms, segments, used, strip.plane, count, to);
      } else {
        for (int i = 0; i < used; ++i) {
          const Word* from = starts[i] + offset;
          Word* piece = to + segments[i].column;
          for (int w = 0; w < count; ++w, from += strip.plane, piece += kColumns) {
            copy_strided(piece, from, segments[i].count, geometry.stride_x);
          }
        }
      }
      to += count * kColumns;
      channel = 0;
      ++tap;
    }
    if constexpr (K::kArranged) {
      for (Word* word = begin; word < end; word += kColumns) {
        K::arrange(reinterpret_cast<Panel*>(word));
      }
    }
  }

  static inline void copy_whole(const Word* from, std::int64_t plane, int words, Word* to) {
    for (int w = 0; w < words; ++w, from += plane, to += kColumns) {
      copy_block<kColumns * sizeof(Word)>(to, from);
    }
  }

  // Every piece as long as a whole panel: what is too much is overwritten by what follows, or lies
  // behind the panel, where the next one has not been packed yet.
  static void copy_pieces(const Word* (&from)[kColumns], const Segment* segments, int used,
                          std::int64_t plane, int words, Word* to) {
    if (used == 2) {
      const Word* first = from[0];
      const Word* second = from[1];
      const int column = segments[1].column;
      for (int w = 0; w < words; ++w, first += plane, second += plane, to += kColumns) {
        copy_block<kColumns * sizeof(Word)>(to, first);
        copy_block<kColumns * sizeof(Word)>(to + column, second);
      }
      return;
    }
    for (int w = 0; w < words; ++w, to += kColumns) {
      for (int i = 0; i < used; ++i) {
        copy_block<kColumns * sizeof(Word)>(to + segments[i].column, from[i]);
        from[i] += plane;
      }
    }
  }

  template <bool kPool>
  static constexpr int kOutputVectors = kPool ? (K::kVectors + 1) / 2 : K::kVectors;

  // A vector of a row's sums, or of the largest of each four in it and in the tile after it.
  template <bool kPool, int kVector>
  static inline I32 sums_of(const std::int32_t* row) {
    const auto load = [&](int index) { return I32::load(row + index * K::kLanes); };
    if constexpr (kPool) {
      constexpr int kFirst = 2 * kVector;
      constexpr int kSecond = kFirst + 1 < K::kVectors ? kFirst + 1 : kFirst;
      const auto upper_or_lower = [&](int index) {
        return larger(load(index), load(index + K::kRows * K::kVectors));
      };
      return larger_of_pairs(upper_or_lower(kFirst), upper_or_lower(kSecond));
    } else {
      return load(kVector);
    }
  }

  // The first `count` outputs of kRows rows side by side, so that none waits for its own results.
  // Always inlined: a count that is known makes every store a whole vector.
  template <Activation kActivation, int kVectors, int kRows, typename Sums, typename Output>
  static inline __attribute__((always_inline)) void write_rows(const OutputStage& stage,
                                                               int channel, const Sums& sums,
                                                               int count, Output* output,
                                                               std::int64_t plane) {
    constexpr int kLanes = I32::kLanes;
    Int8Constants<Channels::kOne> constants[kRows];
    F32 values[kRows][kVectors];
    I32 steps[kRows][kVectors];
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      constants[r.value] = Int8Constants<Channels::kOne>::template load<kActivation, Output>(
          stage, channel + r.value, 0);
      unroll<kVectors>([&](auto v) MPE_UNROLLED {
        values[r.value][v.value] =
            to_float(sums(r, v) + constants[r.value].offset) * constants[r.value].multiplier;
      });
    });
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      unroll<kVectors>([&](auto v) MPE_UNROLLED {
        F32& value = values[r.value][v.value];
        if constexpr (std::is_same_v<Output, float>) {
          value = activate_vector<kActivation>(stage.activation, value);
        } else {
          steps[r.value][v.value] =
              requantized<kActivation>(stage.activation, constants[r.value], value);
        }
      });
    });
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      unroll<kVectors>([&](auto v) MPE_UNROLLED {
        Output* to = output + r.value * plane + v.value * kLanes;
        const int left = count - v.value * kLanes;
        if (left <= 0) return;
        const int stored = left < kLanes ? left : kLanes;
        if constexpr (std::is_same_v<Output, float>) {
          store(to, values[r.value][v.value], stored);
        } else {
          store_int8(to, steps[r.value][v.value], stored);
        }
      });
    });
  }

  // Whole pooled outputs of four rows, of the larger sums of each column, with their offset, that
  // larger_sums(row, vector) gives. Each row's last vector of them makes half a vector of outputs:
  // two rows share one.
  template <Activation kActivation, typename Output, typename Sums>
  static inline __attribute__((always_inline)) void write_pooled_rows(const OutputStage& stage,
                                                                      int channel,
                                                                      const Sums& larger_sums,
                                                                      Output* output,
                                                                      std::int64_t plane) {
    using Constants = Int8Constants<Channels::kOne>;
    constexpr int kVectors = kPooledRows + kPooledRows / 2;
    const auto four =
        Int8Constants<Channels::kSuccessive>::template load<kActivation, Output>(stage, channel, 0);
    const auto constants_at = [&](auto i) MPE_UNROLLED -> Constants {
      if constexpr (i.value < kPooledRows) {
        return spread<Constants>(four, [&](auto x) MPE_UNROLLED { return lane_of(x, i); });
      } else {
        constexpr int kPair = i.value - kPooledRows;
        return spread<Constants>(
            four, [&](auto x) MPE_UNROLLED { return twice_each(x, Index<kPair>{}); });
      }
    };
    F32 values[kVectors];
    unroll<kVectors>([&](auto i) MPE_UNROLLED {
      constexpr int kRow = i.value < kPooledRows ? i.value : 2 * (i.value - kPooledRows);
      const I32 largest = i.value < kPooledRows
                              ? larger_of_pairs(larger_sums(kRow, 0), larger_sums(kRow, 1))
                              : larger_of_pairs(larger_sums(kRow, 2), larger_sums(kRow + 1, 2));
      values[i.value] = to_float(largest) * constants_at(i).multiplier;
    });
    if constexpr (std::is_same_v<Output, float>) {
      unroll<kVectors>([&](auto i) MPE_UNROLLED {
        values[i.value] = activate_vector<kActivation>(stage.activation, values[i.value]);
      });
      constexpr int kLanes = F32::kLanes;
      unroll<kPooledRows>(
          [&](auto row) MPE_UNROLLED { store(output + row.value * plane, values[row.value]); });
      unroll<kPooledRows / 2>([&](auto pair) MPE_UNROLLED {
        float shared[kLanes];
        store(shared, values[kPooledRows + pair.value]);
        float* to = output + 2 * pair.value * plane + kLanes;
        copy_block<kLanes / 2 * sizeof(float)>(to, shared);
        copy_block<kLanes / 2 * sizeof(float)>(to + plane, shared + kLanes / 2);
      });
    } else {
      I32 steps[kVectors];
      unroll<kVectors>([&](auto i) MPE_UNROLLED {
        steps[i.value] =
            requantized<kActivation>(stage.activation, constants_at(i), values[i.value]);
      });
      unroll<kPooledRows>([&](auto row) MPE_UNROLLED {
        store_int8(output + row.value * plane, steps[row.value], I32::kLanes);
      });
      unroll<kPooledRows / 2>([&](auto pair) MPE_UNROLLED {
        std::int8_t* to = output + 2 * pair.value * plane + I32::kLanes;
        store_int8_halves(to, to + plane, steps[kPooledRows + pair.value]);
      });
    }
  }

  // Constants of four rows, as `function` makes each vector of them.
  template <typename Constants, typename Four, typename Function>
  static inline __attribute__((always_inline)) Constants spread(const Four& four,
                                                                const Function& function) {
    return {function(four.offset), function(four.multiplier), function(four.zero_point),
            function(four.six), function(four.inverse_scale)};
  }

  template <Activation kActivation, bool kPool, bool kWhole, typename Output>
  static void write_columns(const InterleavedWork& work, int block, int column, int count,
                            const std::int32_t* sums) {
    constexpr int kStep = kPool ? 2 : 1;
    const int first = block * K::kRows;
    const int rows = work.rows - first < K::kRows ? work.rows - first : K::kRows;
    const std::int64_t plane = work.geometry->pixels() / (kStep * kStep);
    const OutputStage& stage = *work.stage;
    auto* output = static_cast<Output*>(work.output) + first * plane + column / kStep;
    const int outputs = (kWhole ? kColumns : count) / kStep;
    int r = 0;
    if constexpr (kPool && kWhole && kSharesHalves) {
      for (; r + kPooledRows <= rows;
           r += kPooledRows, sums += kPooledRows * kColumns, output += kPooledRows * plane) {
        const auto larger_sums = [&](int row, int index) {
          const std::int32_t* from = sums + row * kColumns + index * K::kLanes;
          return larger(I32::load(from), I32::load(from + kTile)) +
                 I32(stage.offset[first + r + row]);
        };
        write_pooled_rows<kActivation>(stage, first + r, larger_sums, output, plane);
      }
    }
    constexpr int kVectors = kOutputVectors<kPool>;
    const auto sums_at = [&](auto row, auto v) MPE_UNROLLED {
      return sums_of<kPool, v.value>(sums + row.value * kColumns);
    };
    for (; r + 2 <= rows; r += 2, sums += 2 * kColumns, output += 2 * plane) {
      write_rows<kActivation, kVectors, 2>(stage, first + r, sums_at, outputs, output, plane);
    }
    if (r < rows) {
      write_rows<kActivation, kVectors, 1>(stage, first + r, sums_at, outputs, output, plane);
    }
  }

  template <Activation kActivation, typename Output>
  static void finish_tile(const InterleavedWork& work, int block, int column, const Panel* panel,
                          const Multiplier* weights, int words, const std::int32_t* before) {
    I32 sums[K::kRows][K::kVectors];
    unroll<K::kRows>([&](auto r) MPE_UNROLLED {
      unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
        sums[r.value][v.value] = before == nullptr
                                     ? I32(0)
                                     : I32::load(before + r.value * kColumns + v.value * K::kLanes);
      });
    });
#pragma GCC unroll 2
    for (int word = 0; word < words; ++word) {
      K::template step<K::kVectors>(sums, panel, weights);
      panel += kColumns * K::kUnit;
      weights += K::kRows * K::kUnit;
    }
    const std::int64_t plane = work.geometry->pixels();
    const int first = block * K::kRows;
    auto* output = static_cast<Output*>(work.output) + first * plane + column;
    unroll<K::kRows / 2>([&](auto pair) MPE_UNROLLED {
      constexpr int kRow = 2 * pair.value;
      const auto sums_at = [&](auto row, auto v)
                               MPE_UNROLLED { return sums[kRow + row.value][v.value]; };
      write_rows<kActivation, K::kVectors, 2>(*work.stage, first + kRow, sums_at, kColumns,
                                              output + kRow * plane, plane);
    });
  }

  template <Activation kActivation, typename Output>
  static void pool_tiles(const InterleavedWork& work, int row_begin, int row_end, int column,
                         const Word* const (&halves)[2], const std::int32_t* offsets) {
    const std::int64_t plane = work.geometry->pixels() / 4;
    auto* output = static_cast<Output*>(work.output) + row_begin * plane + column / 2;
    for (int row = row_begin; row < row_end; row += kPooledRows, output += kPooledRows * plane) {
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
      write_pooled_rows<kActivation>(*work.stage, row, larger_sums, output, plane);
    }
  }

  template <Activation kActivation, typename Output>
  static void write_tile(const InterleavedWork& work, int block, int column, int count,
                         const std::int32_t* sums) {
    const bool whole = count == kColumns;
    if (work.pool) {
      (whole ? write_columns<kActivation, true, true, Output>
             : write_columns<kActivation, true, false, Output>)(work, block, column, count, sums);
    } else {
      (whole ? write_columns<kActivation, false, true, Output>
             : write_columns<kActivation, false, false, Output>)(work, block, column, count, sums);
    }
  }

  template <Activation kActivation, typename Output>
  static Writer writer_to() {
    Writer writer = {write_tile<kActivation, Output>, nullptr, nullptr};
    if constexpr (kPoolsInRegisters) {
      writer.pool = pool_tiles<kActivation, Output>;
      writer.finish = finish_tile<kActivation, Output>;
    }
    return writer;
  }
  template <Activation kActivation>
  static Writer writer_for(OutputKind kind) {
    return kind == OutputKind::kInt8 ? writer_to<kActivation, std::int8_t>()
                                     : writer_to<kActivation, float>();
  }
  static Writer writer_of(const OutputStage& stage) {
    switch (stage.activation) {
      case Activation::kLinear:
        return writer_for<Activation::kLinear>(stage.kind);
      case Activation::kLeaky:
        return writer_for<Activation::kLeaky>(stage.kind);
      case Activation::kRelu:
        return writer_for<Activation::kRelu>(stage.kind);
      case Activation::kRelu6:
        return writer_for<Activation::kRelu6>(stage.kind);
      default:
        return writer_for<Activation::kLogistic>(stage.kind);
    }
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
  kernel.run = Multiply::run;
  return kernel;
}

}  // namespace
}  // namespace mpe
