// Winograd's F(4x4, 3x3) in whole numbers, exact. A tile of 6x6 input bytes becomes 36 values of 16
// bits (B^T d B, at most 100 times a byte), the weights another 36 of 16 bits (with the rows of G
// scaled so that they are whole), the products are added modulo 2^32, and the output transform,
// with the scales taken back, gives 576 times the sum, modulo 2^32. Its odd factor 9 is undone by
// 9's inverse modulo 2^32, the other 64 by a shift, which is exact as long as the sum is below 2^25
// in magnitude: make_int8_winograd() asks that of the weights.
//
// The set K offers
//   I16         vector of kWinogradTiles 16-bit lanes: + -, shift_left<n>(a), store(to, a),
//               load_four_apart(from, I16 (&)[4])   bytes 4 t + j as lane t of vector j
//   I32         + -, shift_left<n>(a), load, divide_by_576(a), store_four_apart(to, a, b, c, d)
//   lane t of vector j at 4 t + j,
//               larger(a, b), larger_of_pairs(a, b)   where outputs are pooled
//   Bounded     what writes outputs whose sums are bounded (OutputStage::bounded)
//   multiply(panel, weights, depth, tile)   tile[8 rows][8 tiles] from [depth][8] and [depth][8]
//   multiply_few(panel, weights, depth, tiles, tile)   the same of the first tiles alone
#pragma once

#include <cstdint>

#include "kernels/generic/output.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

template <typename K>
class Int8Winograd {
 public:
  static constexpr int kTiles = kWinogradTiles;
  static constexpr int kRows = kWinogradRows;
  static constexpr int kTileValues = kTiles * kRows;

  // Input channels [work.begin, work.end) of the block of tiles, transformed.
  static void transform_input(const Int8WinogradWork& work) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const std::int64_t plane = static_cast<std::int64_t>(geometry.in_height) * geometry.in_width;
    const int first_row = work.tile_begin / work.tiles_x;
    const int last_row = (work.tile_begin + work.tile_count - 1) / work.tiles_x;
    const int rows = 4 * (last_row - first_row) + 6;
    auto* padded = reinterpret_cast<std::int8_t*>(work.scratch);
    for (int channel = work.begin; channel < work.end; ++channel) {
      copy_rows(work, work.input + channel * plane, 4 * first_row - geometry.padding_y, rows,
                padded);
      TilePlace place = {0, work.tile_begin - first_row * work.tiles_x, 0};
      for (int panel = 0; panel * kTiles < work.tile_count; ++panel) {
        std::int32_t offsets[kTiles];
        const bool neighbours = tile_offsets(work, place, offsets);
        std::int16_t* to =
            work.panels + (static_cast<std::int64_t>(panel) * work.depth + channel) * kTiles;
        transform_panel(work, padded, offsets, neighbours, to);
      }
    }
  }

  // Output channels of row blocks [work.begin, work.end) for the block of tiles.
  static void multiply(const Int8WinogradWork& work) {
    const int panels = (work.tile_count + kTiles - 1) / kTiles;
    const int last_tiles = work.tile_count - (panels - 1) * kTiles;
    const int whole = last_tiles <= kFewWinogradTiles ? panels - 1 : panels;
    auto* sums = reinterpret_cast<std::int32_t*>(work.scratch);
    for (int first = work.begin; first < work.end; first += work.chunk_blocks) {
      const int left = work.end - first;
      const int blocks = left < work.chunk_blocks ? left : work.chunk_blocks;
      for (int position = 0; position < kWinogradPositions; ++position) {
        for (int block = 0; block < blocks; ++block) {
          const std::int16_t* weights =
              work.weights +
              (static_cast<std::int64_t>(first + block) * kWinogradPositions + position) *
                  work.depth * kRows;
          for (int panel = 0; panel < panels; ++panel) {
            const std::int16_t* values = work.panels + position * work.position_stride +
                                         static_cast<std::int64_t>(panel) * work.depth * kTiles;
            std::int32_t* tile = tile_of(sums, block * panels + panel) + position * kTileValues;
            if (panel < whole) {
              K::multiply(values, weights, work.depth, tile);
            } else {
              K::multiply_few(values, weights, work.depth, last_tiles, tile);
            }
          }
        }
      }
      for (int block = 0; block < blocks; ++block) {
        for (int panel = 0; panel < panels; ++panel) {
          write_panel(work, first + block, panel, tile_of(sums, block * panels + panel));
        }
      }
    }
  }

 private:
  using I16 = typename K::I16;
  // Rows of a panel's tiles, and what a vector more reads.
  using Pixels = std::int32_t[4][4 * kTiles + 16];

  static std::int32_t* tile_of(std::int32_t* sums, int index) {
    return sums + static_cast<std::int64_t>(index) * kWinogradPositions * kTileValues;
  }

  // `rows` input rows from `y` on with their padding, of work.padded_width values.
  static void copy_rows(const Int8WinogradWork& work, const std::int8_t* input, int y, int rows,
                        std::int8_t* to) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int width = work.padded_width;
    const int before = geometry.padding_x < width ? geometry.padding_x : width;
    const int count = limited(geometry.in_width, 0, width - before);
    for (int row = 0; row < rows; ++row, ++y, to += width) {
      if (y < 0 || y >= geometry.in_height) {
        fill_run(to, work.padding_value, width);
        continue;
      }
      fill_run(to, work.padding_value, before);
      copy_run(to + before, input + static_cast<std::int64_t>(y) * geometry.in_width, count);
      fill_run(to + before + count, work.padding_value, width - before - count);
    }
  }

  // A tile of the block, its column, and where its row begins in the padded rows.
  struct TilePlace {
    int tile;
    int x;
    std::int32_t row;
  };

  // Where the tiles of a panel begin in the padded rows, from `place` on, which moves to the next
  // panel. Returns whether they are neighbours. What is past the block's last tile is not used.
  static bool tile_offsets(const Int8WinogradWork& work, TilePlace& place,
                           std::int32_t (&offsets)[kTiles]) {
    for (int lane = 0; lane < kTiles; ++lane, ++place.tile) {
      offsets[lane] = 0;
      if (place.tile >= work.tile_count) continue;
      offsets[lane] = place.row + 4 * place.x;
      if (++place.x == work.tiles_x) {
        place.x = 0;
        place.row += 4 * work.padded_width;
      }
    }
    bool neighbours = true;
    for (int lane = 1; lane < kTiles; ++lane) {
      neighbours = neighbours && offsets[lane] == offsets[lane - 1] + 4;
    }
    return neighbours;
  }

  static void transform_panel(const Int8WinogradWork& work, const std::int8_t* padded,
                              const std::int32_t (&offsets)[kTiles], bool neighbours,
                              std::int16_t* to) {
    I16 across[6][6];
    unroll<6>([&](auto i) MPE_UNROLLED {
      const std::int8_t* row = padded + i.value * work.padded_width;
      I16 first[4];
      I16 rest[4];
      if (neighbours) {
        K::load_four_apart(row + offsets[0], first);
        K::load_four_apart(row + offsets[0] + 4, rest);
      } else {
        std::int8_t first_bytes[4 * kTiles];
        std::int8_t rest_bytes[4 * kTiles];
        for (int lane = 0; lane < kTiles; ++lane) {
          copy_block<4>(first_bytes + 4 * lane, row + offsets[lane]);
          copy_block<4>(rest_bytes + 4 * lane, row + offsets[lane] + 4);
        }
        K::load_four_apart(first_bytes, first);
        K::load_four_apart(rest_bytes, rest);
      }
      const I16 values[6] = {first[0], first[1], first[2], first[3], rest[0], rest[1]};
      transform_six(values, across[i.value]);
    });
    unroll<6>([&](auto j) MPE_UNROLLED {
      const I16 values[6] = {across[0][j.value], across[1][j.value], across[2][j.value],
                             across[3][j.value], across[4][j.value], across[5][j.value]};
      I16 results[6];
      transform_six(values, results);
      unroll<6>([&](auto i) MPE_UNROLLED {
        store(to + (i.value * 6 + j.value) * work.position_stride, results[i.value]);
      });
    });
  }

  // B^T d.
  static inline __attribute__((always_inline)) void transform_six(const I16 (&d)[6], I16 (&r)[6]) {
    const I16 outer = d[4] - d[2];
    const I16 inner = d[3] - d[1];
    const I16 twice = inner + inner;
    const I16 even = d[4] - shift_left<2>(d[2]);
    const I16 odd = d[3] - shift_left<2>(d[1]);
    r[0] = outer + shift_left<2>(d[0] - d[2]);
    r[1] = even + odd;
    r[2] = even - odd;
    r[3] = outer + twice;
    r[4] = outer - twice;
    r[5] = (d[5] - d[3]) - (twice + twice);
  }

  // 24 A^T m, of which G has the factors 6, -4, -4, 1, 1 and 3.
  static inline __attribute__((always_inline)) void transform_back(const I32 (&m)[6], I32 (&y)[4]) {
    const I32 sum = m[1] + m[2];
    const I32 difference = m[1] - m[2];
    const I32 far_sum = m[3] + m[4];
    const I32 far_difference = m[3] - m[4];
    y[0] = m[0] + sum + far_sum;
    y[1] = difference + shift_left<1>(far_difference);
    y[2] = sum + shift_left<2>(far_sum);
    y[3] = difference + shift_left<3>(far_difference + m[5]);
  }

  static void write_panel(const Int8WinogradWork& work, int block, int panel,
                          const std::int32_t* tiles) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const int first = block * kRows;
    const int rows = work.rows - first < kRows ? work.rows - first : kRows;
    const int begin = panel * kTiles;
    const int count = work.tile_count - begin < kTiles ? work.tile_count - begin : kTiles;
    const int bytes = output_bytes(work.stage->kind);
    auto* output = static_cast<std::byte*>(work.output);
    alignas(64) Pixels pixels;
    const bool bounded = rows == kRows && !work.pool && work.stage->kind == OutputKind::kInt8 &&
                         work.stage->eight_bounded(first);
    for (int r = 0; r < rows; ++r) {
      for (int lane = 0; lane < count; lane += I32::kLanes) {
        restore(tiles + r * kTiles + lane, pixels, 4 * lane);
      }
      const std::int64_t plane = static_cast<std::int64_t>(first + r) * geometry.pixels();
      for (int lane = 0; lane < count;) {
        const int tile = work.tile_begin + begin + lane;
        const int y = tile / work.tiles_x;
        const int x = tile - y * work.tiles_x;
        const int left = work.tiles_x - x;
        const int length = left < count - lane ? left : count - lane;
        const int width = limited(geometry.out_width - 4 * x, 0, 4 * length);
        const int height = limited(geometry.out_height - 4 * y, 0, 4);
        if (bounded && width == 4 * length && height == 4) {
          auto* to = reinterpret_cast<std::int8_t*>(output) + plane +
                     static_cast<std::int64_t>(4 * y) * geometry.out_width + 4 * x;
          write_bounded(work, first + r, pixels, lane, length, to);
          lane += length;
          continue;
        }
        if (work.pool) {
          for (int i = 0; i < height; i += 2) {
            largest_of_four(pixels[i] + 4 * lane, pixels[i + 1] + 4 * lane, width);
            const std::int64_t position =
                plane / 4 + static_cast<std::int64_t>(2 * y + i / 2) * (geometry.out_width / 2) +
                2 * x;
            write_outputs<Channels::kOne>(*work.stage, first + r, pixels[i] + 4 * lane, width / 2,
                                          output + position * bytes);
          }
          lane += length;
          continue;
        }
        for (int i = 0; i < height; ++i) {
          const std::int64_t position =
              plane + static_cast<std::int64_t>(4 * y + i) * geometry.out_width + 4 * x;
          write_outputs<Channels::kOne>(*work.stage, first + r, pixels[i] + 4 * lane, width,
                                        output + position * bytes);
        }
        lane += length;
      }
    }
  }

  // Whole outputs of neighbouring tiles, of bounded sums.
  static void write_bounded(const Int8WinogradWork& work, int channel, const Pixels& pixels,
                            int lane, int tiles, std::int8_t* output) {
    with_activation(work.stage->activation, [&](auto activation) {
      write_tiles<activation.value>(work, channel, pixels, lane, tiles, output);
    });
  }

  // A tile's row is a vector. As many of them at once as there are registers for.
  template <Activation kActivation>
  static void write_tiles(const Int8WinogradWork& work, int channel, const Pixels& pixels, int lane,
                          int tiles, std::int8_t* output) {
    static_assert(I32::kLanes == 4);
    const auto write = [&](auto count) MPE_UNROLLED {
      constexpr int kCount = count.value;
      constexpr int kHeight = kCount <= 4 ? 4 : 2;
      for (int i = 0; i < 4; i += kHeight) {
        write_rows<kActivation, kHeight, kCount>(
            work, channel, pixels, i, lane, output + std::int64_t{i} * work.geometry->out_width);
      }
      lane += kCount;
      tiles -= kCount;
      output += kCount * I32::kLanes;
    };
    while (tiles >= 8) write(Index<8>{});
    if (tiles >= 4) write(Index<4>{});
    if (tiles >= 2) write(Index<2>{});
    if (tiles >= 1) write(Index<1>{});
  }

  template <Activation kActivation, int kHeight, int kCount>
  static inline __attribute__((always_inline)) void write_rows(const Int8WinogradWork& work,
                                                               int channel, const Pixels& pixels,
                                                               int row, int lane,
                                                               std::int8_t* output) {
    using Bounded = typename K::Bounded;
    using Constants = typename Bounded::Constants;
    const OutputStage& stage = *work.stage;
    const std::int64_t width = work.geometry->out_width;
    const I32 start = Bounded::start(stage, channel);
    I32 sums[kHeight][kCount];
    unroll<kHeight>([&](auto k) MPE_UNROLLED {
      unroll<kCount>([&](auto v) MPE_UNROLLED {
        sums[k.value][v.value] =
            I32::load(pixels[row + k.value] + (lane + v.value) * I32::kLanes) + start;
      });
    });
    if constexpr (kActivation == Activation::kLogistic) {
      Bounded::template write_by_lines<0>(stage, channel, sums, output, width);
    } else {
      Constants constants[kHeight];
      unroll<kHeight>([&](auto k) MPE_UNROLLED {
        constants[k.value] = Constants::template load<kActivation>(stage, channel);
      });
      Bounded::template write<kActivation>(stage.lines, constants, sums, output, width);
    }
  }

  // The largest of each two neighbours in two rows of `width` sums, in the first half of `upper`;
  // reads up to the end of the last two vectors.
  static void largest_of_four(std::int32_t* upper, const std::int32_t* lower, int width) {
    constexpr int kLanes = I32::kLanes;
    for (int i = 0; i < width; i += 2 * kLanes) {
      const I32 a = larger(I32::load(upper + i), I32::load(lower + i));
      const I32 b = larger(I32::load(upper + i + kLanes), I32::load(lower + i + kLanes));
      store(upper + i / 2, larger_of_pairs(a, b));
    }
  }

  // One output channel's sums of a vector of tiles, from position to position a tile apart, to
  // four rows of pixels.
  static void restore(const std::int32_t* sums, Pixels& pixels, int column) {
    I32 down[4][6];
    unroll<6>([&](auto j) MPE_UNROLLED {
      I32 values[6];
      unroll<6>([&](auto i) MPE_UNROLLED {
        values[i.value] = I32::load(sums + (i.value * 6 + j.value) * kTileValues);
      });
      I32 results[4];
      transform_back(values, results);
      unroll<4>([&](auto i) MPE_UNROLLED { down[i.value][j.value] = results[i.value]; });
    });
    unroll<4>([&](auto i) MPE_UNROLLED {
      I32 y[4];
      transform_back(down[i.value], y);
      unroll<4>([&](auto j) MPE_UNROLLED { y[j.value] = divide_by_576(y[j.value]); });
      store_four_apart(pixels[i.value] + column, y[0], y[1], y[2], y[3]);
    });
  }
};

}  // namespace
}  // namespace mpe
