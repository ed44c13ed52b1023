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
        copy_pieces(froms, segments, used, strip.plane, count, to);
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
    for (int row = 0; row < rows; ++row, ++y, to += width) {
      if (y < 0 || y >= geometry.in_height) {
        fill_run(to, padding, width);
        continue;
      }
      const std::int64_t offset = static_cast<std::int64_t>(y) * geometry.in_width;
      Word* phase_to = to;
      for (int phase = 0; phase_to < to + width; ++phase, phase_to += work.phase_words) {
        copy_phase(work, channels, offset, phase - geometry.padding_x, padding, phase_to);
      }
    }
  }

  // Columns x, x + stride_x, ... of a row.
  static void copy_phase(const InterleavedWork& work,
                         const std::int8_t* const (&channels)[K::kUnit], std::int64_t offset, int x,
                         Word padding, Word* to) {
    const int stride = work.geometry->stride_x;
    const int skipped = x < 0 ? (-x + stride - 1) / stride : 0;
    const int before = skipped < work.phase_words ? skipped : work.phase_words;
    const int inside = (work.geometry->in_width - x + stride - 1) / stride;
    const int end = limited(inside, before, work.phase_words);
    fill_run(to, padding, before);
    copy_words(channels, offset + x + static_cast<std::int64_t>(before) * stride, stride,
               end - before, to + before);
    fill_run(to + end, padding, work.phase_words - end);
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

  // Copies every piece with the length of a whole panel. The next piece overwrites the excess; that
  // of the last piece lies behind the panel, where the next panel is not packed yet.
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
};

}  // namespace
}  // namespace mpe
