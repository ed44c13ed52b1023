// The copy of the input that generic/interleaved.h multiplies, and its panels.
#pragma once

#include <cstdint>

#include "kernels/generic/patches.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

template <typename K>
class InterleavedCopy {
 public:
  using Panel = typename K::Panel;
  using Word = std::uint32_t;
  static constexpr int kColumns = K::kLanes * K::kVectors;

  struct Range {
    int begin;
    int count;
  };

  // Planes [channel word][row][column] of words.
  struct Strip {
    Word* words;
    std::int64_t plane;  // words
    int first_row;       // of the input; may be negative
  };

  static int halves(const InterleavedWork& work) { return work.pool ? 2 : 1; }
  static int columns(const InterleavedWork& work) { return work.geometry->pixels() / halves(work); }

  static int column_count(const InterleavedWork& work, int panel) {
    const int left = columns(work) - panel * kColumns;
    return left < kColumns ? left : kColumns;
  }

  static Strip copy_rows(const InterleavedWork& work, Range panels) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int height = halves(work);
    const int begin = panels.begin * kColumns;
    const int end = limited(begin + panels.count * kColumns, 0, columns(work));
    const int first = begin / geometry.out_width * height;
    const int last = (end - 1) / geometry.out_width * height + height - 1;
    const int rows =
        (last - first) * geometry.stride_y + (geometry.kernel_y - 1) * geometry.dilation_y + 1;
    Strip strip;
    strip.words = reinterpret_cast<Word*>(work.strip);
    strip.plane = interleaved_plane(rows, work.row_words) / 4;
    strip.first_row = first * geometry.stride_y - geometry.padding_y;
    for (int word = 0; word < work.channel_words; ++word) {
      copy_plane(work, word, strip.first_row, rows, strip.words + word * strip.plane);
    }
    return strip;
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
      const std::int64_t row = y * geometry.stride_y - geometry.padding_y - strip.first_row;
      starts[i] = strip.words + row * work.row_words + segments[i].x;
    }
    const bool whole = used == 1 && segments[0].count == kColumns;
    const CopyPieces copy = copy_pieces_of(segments, used);
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
      } else {
        for (int i = 0; i < used; ++i) froms[i] = starts[i] + offset;
        copy(froms, segments, used, strip.plane, count, to);
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

  // The same of a pointwise convolution, straight from the input and arranged.
  static void pack_pixels(const InterleavedWork& work, int panel, int depth, int words, Word* to) {
    const int pixel = panel * kColumns;
    const int count = column_count(work, panel);
    for (int word = depth; word < depth + words; ++word, to += kColumns) {
      const std::int8_t* channels[K::kUnit];
      find_channels(work, word, channels);
      std::int8_t few[K::kUnit][kColumns];
      for (int c = 0; c < K::kUnit; ++c) {
        channels[c] += pixel;
        if (count == kColumns) continue;
        copy_run(few[c], channels[c], count);
        channels[c] = few[c];
      }
      K::interleave_arranged(channels, reinterpret_cast<Panel*>(to));
    }
  }

 private:
  static constexpr int kWordsAtOnce = 16;
  static constexpr int kNarrowWords = 16 * kWordsAtOnce;  // of rows that are interleaved at once
  static_assert(K::kUnit * sizeof(Panel) == sizeof(Word));

  static inline __attribute__((always_inline)) void find_channels(
      const InterleavedWork& work, int word, const std::int8_t* (&channels)[K::kUnit]) {
    for (int c = 0; c < K::kUnit; ++c) {
      // What stands for a channel too many meets weights of zero.
      const int channel = limited(word * K::kUnit + c, 0, work.geometry->channels - 1);
      channels[c] = work.input + channel * work.geometry->in_plane;
    }
  }

  static void copy_plane(const InterleavedWork& work, int word, int y, int rows, Word* to) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const std::int8_t* channels[K::kUnit];
    find_channels(work, word, channels);
    const int width = work.row_words;
    // Rows without padding that follow each other are one.
    if (geometry.stride_x == 1 && geometry.padding_x == 0 && geometry.in_width == width && y >= 0 &&
        y + rows <= geometry.in_height) {
      copy_words(channels, static_cast<std::int64_t>(y) * width, 1, rows * width, to);
      return;
    }
    const Word padding = padding_word(work.padding_value);
    const bool narrow =
        geometry.in_width < kWordsAtOnce * geometry.stride_x && geometry.in_width <= kNarrowWords;
    const int most = narrow ? kNarrowWords / geometry.in_width : 1;
    for (const int end = y + rows; y < end;) {
      if (y < 0 || y >= geometry.in_height) {
        fill_run(to, padding, width);
        to += width;
        ++y;
        continue;
      }
      const int last = end < geometry.in_height ? end : geometry.in_height;
      const int count = last - y < most ? last - y : most;
      const std::int64_t offset = static_cast<std::int64_t>(y) * geometry.in_width;
      if (narrow) {
        copy_narrow(work, channels, offset, count, padding, to);
      } else {
        copy_row(work, padding, to, [&](int x, int stride, int columns, Word* columns_to) {
          copy_words(channels, offset + x, stride, columns, columns_to);
        });
      }
      to += count * width;
      y += count;
    }
  }

  // Rows of few pixels, which are interleaved as one.
  static void copy_narrow(const InterleavedWork& work,
                          const std::int8_t* const (&channels)[K::kUnit], std::int64_t offset,
                          int rows, Word padding, Word* to) {
    Word words[kNarrowWords];
    const int width = work.geometry->in_width;
    copy_words(channels, offset, 1, rows * width, words);
    const Word* from = words;
    for (int row = 0; row < rows; ++row, from += width, to += work.row_words) {
      copy_row(work, padding, to, [&](int x, int stride, int columns, Word* columns_to) {
        if (stride == 1) {
          copy_run(columns_to, from + x, columns);
        } else {
          copy_strided(columns_to, from + x, columns, stride);
        }
      });
    }
  }

  // A row with its padding, each phase by copy(x, stride, columns, to): columns x, x + stride, ...
  template <typename CopyColumns>
  static inline __attribute__((always_inline)) void copy_row(const InterleavedWork& work,
                                                             Word padding, Word* to,
                                                             const CopyColumns& copy) {
    const int stride = work.geometry->stride_x;
    const Word* const row_end = to + work.row_words;
    for (int x = -work.geometry->padding_x; to < row_end; ++x, to += work.phase_words) {
      const int skipped = x < 0 ? (-x + stride - 1) / stride : 0;
      const int before = skipped < work.phase_words ? skipped : work.phase_words;
      const int inside = (work.geometry->in_width - x + stride - 1) / stride;
      const int end = limited(inside, before, work.phase_words);
      fill_run(to, padding, before);
      copy(x + before * stride, stride, end - before, to + before);
      fill_run(to + end, padding, work.phase_words - end);
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

  // Every stride-th pixel.
  static void copy_words(const std::int8_t* const (&channels)[K::kUnit], std::int64_t offset,
                         int stride, int count, Word* to) {
    if (stride == 1 && count >= kWordsAtOnce) {
      const std::int8_t* from[K::kUnit];
      const auto copy = [&](int i) {
        for (int c = 0; c < K::kUnit; ++c) from[c] = channels[c] + offset + i;
        K::interleave_words(from, reinterpret_cast<Panel*>(to + i));
      };
      for (int i = 0; i + kWordsAtOnce < count; i += kWordsAtOnce) copy(i);
      copy(count - kWordsAtOnce);  // overlaps the words before
      return;
    }
    constexpr int kPixels = 8 * kWordsAtOnce;
    for (int done = 0; done < count; done += kPixels) {
      const int pixels = count - done < kPixels ? count - done : kPixels;
      copy_few(channels, offset + static_cast<std::int64_t>(done) * stride, stride, pixels,
               to + done);
    }
  }

  // No more than fit in `few`.
  static void copy_few(const std::int8_t* const (&channels)[K::kUnit], std::int64_t offset,
                       int stride, int count, Word* to) {
    std::int8_t few[K::kUnit][8 * kWordsAtOnce];
    const std::int8_t* from[K::kUnit];
    for (int c = 0; c < K::kUnit; ++c) {
      if (c > 0 && channels[c] == channels[c - 1]) {
        from[c] = from[c - 1];
        continue;
      }
      from[c] = few[c];
      if (stride == 1) {
        copy_run(few[c], channels[c] + offset, count);
      } else {
        copy_strided(few[c], channels[c] + offset, count, stride);
      }
    }
    const auto advance = [&] {
      for (const std::int8_t*& row : from) row += kWordsAtOnce;
    };
    int i = 0;
    for (; i + kWordsAtOnce <= count; i += kWordsAtOnce) {
      K::interleave_words(from, reinterpret_cast<Panel*>(to + i));
      advance();
    }
    if (i == count) return;
    Word words[kWordsAtOnce];
    K::interleave_words(from, reinterpret_cast<Panel*>(words));
    copy_run(to + i, words, count - i);
  }

  static inline void copy_whole(const Word* from, std::int64_t plane, int words, Word* to) {
    for (int w = 0; w < words; ++w, from += plane, to += kColumns) {
      copy_block<kColumns * sizeof(Word)>(to, from);
    }
  }

  // Copies the pieces of `words` rows.
  using CopyPieces = void (*)(const Word* const* from, const Segment* segments, int used,
                              std::int64_t plane, int words, Word* to);

  // Every piece is copied with the length of a whole panel, or of eight words where all are short.
  // The next piece overwrites the excess; that of the last piece lies behind the panel, where the
  // next panel is not packed yet.
  static CopyPieces copy_pieces_of(const Segment* segments, int used) {
    constexpr int kFew = kColumns < 8 ? kColumns : 8;
    bool few = true;
    for (int i = 0; i < used; ++i) few &= segments[i].count <= kFew;
    if (used == 2) return few ? copy_pieces<kFew, 2> : copy_pieces<kColumns, 2>;
    return used == 3 && few ? copy_pieces<kFew, 3> : copy_many_pieces;
  }

  template <int kWords, int kUsed>
  static void copy_pieces(const Word* const* from, const Segment* segments, int, std::int64_t plane,
                          int words, Word* to) {
    const Word* rows[kUsed];
    std::int64_t columns[kUsed];
    unroll<kUsed>([&](auto i) MPE_UNROLLED {
      rows[i.value] = from[i.value];
      columns[i.value] = segments[i.value].column;
    });
    for (int w = 0; w < words; ++w, to += kColumns) {
      unroll<kUsed>([&](auto i) MPE_UNROLLED {
        copy_block<kWords * sizeof(Word)>(to + columns[i.value], rows[i.value]);
        rows[i.value] += plane;
      });
    }
  }

  static void copy_many_pieces(const Word* const* from, const Segment* segments, int used,
                               std::int64_t plane, int words, Word* to) {
    for (int w = 0; w < words; ++w, to += kColumns) {
      for (int i = 0; i < used; ++i) {
        copy_block<kColumns * sizeof(Word)>(to + segments[i].column, from[i] + w * plane);
      }
    }
  }
};

}  // namespace
}  // namespace mpe
