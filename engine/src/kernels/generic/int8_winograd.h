// Winograd's F(4x4, 3x3) in whole numbers, exact. A tile of 6x6 input bytes becomes 36 values of 16
// bits (B^T d B, at most 100 times a byte), the weights another 36 of 16 bits (with the rows of G
// scaled so that they are whole), the products are added modulo 2^32, and the output transform,
// with the scales taken back, gives 576 times the sum, modulo 2^32. Its odd factor 9 is undone by
// 9's inverse modulo 2^32, the other 64 by a shift, which is exact as long as the sum is below 2^25
// in magnitude: make_int8_winograd() asks that of the weights.
//
// The set K offers
//   kTiles, kRows      of a panel, and output channels of a block: the lanes of I16
//   kFewTiles          up to so many tiles that are left over go to multiply_few
//   kPairs             whether channels of panels and weights lie in pairs
//   kOfImages          whether it offers convolve_image, and so few tiles and load_vector
//   I16         vector of 16-bit lanes: + -, shift_left<n>(a), times<n>(a),
//               add_multiple<n>(sum, a), store(to, a)
//   with pairs: I16::load(from), and store_pairs(to, a, b)   lane i of both at 2 i and 2 i + 1
//   load_four_apart(from, I16 (&)[4])   bytes 4 t + j as lane t of vector j
//   load_bytes(from)   bytes as lanes
//   multiply(panel, weights, depth, first, tile)   tile[rows][tiles] from [depth][tiles] and
//               [depth][rows], added to what the tile holds unless these are the first terms
//   multiply_few(panel, weights, depth, tiles, first, last, tile)   the same of the first tiles
//               alone; before the last terms it may keep their sums in any order
// and what generic/int8_winograd_output.h asks for.
#pragma once

#include <cstdint>

#include "kernels/generic/int8_winograd_output.h"
#include "kernels/generic/output.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/int8_winograd_weights.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

template <typename K>
class Int8Winograd {
 public:
  static constexpr int kTiles = K::kTiles;
  static constexpr int kRows = K::kRows;
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
      if constexpr (K::kPairs) {
        if (channel == geometry.channels) {
          add_padding_channel(work, channel);
          break;
        }
      }
      copy_rows(work, work.input + channel * plane, 4 * first_row - geometry.padding_y, rows,
                padded);
      TilePlace place = {0, work.tile_begin - first_row * work.tiles_x, 0};
      for (int panel = 0; panel * kTiles < work.tile_count; ++panel) {
        std::int32_t offsets[kTiles];
        const bool neighbours = tile_offsets(work, place, offsets);
        std::int16_t* to = panel_of(work, panel, channel);
        if constexpr (K::kPairs) {
          if (channel % 2 == 1) {
            transform_panel(work, padded, offsets, neighbours, to, store_second);
            continue;
          }
        }
        transform_panel(work, padded, offsets, neighbours, to, store_first);
      }
    }
  }

  // Output channels of row blocks [work.begin, work.end) for the block of tiles.
  static void multiply(const Int8WinogradWork& work) {
    const Panels panels(work.tile_count);
    auto* sums = reinterpret_cast<std::int32_t*>(work.scratch);
    for (int first = work.begin; first < work.end; first += work.chunk_blocks) {
      const int left = work.end - first;
      const int blocks = left < work.chunk_blocks ? left : work.chunk_blocks;
      for (int position = 0; position < kWinogradPositions; ++position) {
        for (int block = 0; block < blocks; ++block) {
          const std::int16_t* weights =
              static_cast<const std::int16_t*>(work.weights) +
              (static_cast<std::int64_t>(first + block) * kWinogradPositions + position) *
                  work.depth * kRows;
          multiply_panels(work, panels, position, {0, work.depth, true, true}, weights,
                          tile_of(sums, block * panels.count));
        }
      }
      for (int block = 0; block < blocks; ++block) {
        for (int panel = 0; panel < panels.count; ++panel) {
          write_panel(work, first + block, panel, tile_of(sums, block * panels.count + panel));
        }
      }
    }
  }

  // The same by weights as they are, an eighth of the bytes of transformed ones. One row of a
  // tile's positions is transformed and multiplied after the other: its weights, and those that
  // they are made of, stay in the first-level cache.
  static void multiply_on_the_fly(const Int8WinogradWork& work) {
    const Panels panels(work.tile_count);
    auto* sums = reinterpret_cast<std::int32_t*>(work.scratch);
    const int stride = work.depth_step * kRows;
    for (int block = work.begin; block < work.end; ++block) {
      for (int depth = 0; depth < work.depth; depth += work.depth_step) {
        const int left = work.depth - depth;
        const int count = left < work.depth_step ? left : work.depth_step;
        const Terms terms = {depth, count, depth == 0, count == left};
        for (int row = 0; row < 6; ++row) {
          unroll<6>([&](auto a) MPE_UNROLLED {
            if (a.value == row) transform_weights<a.value>(work, block, terms);
          });
          for (int column = 0; column < 6; ++column) {
            multiply_panels(work, panels, row * 6 + column, terms,
                            work.transformed + column * stride, tile_of(sums, 0));
          }
        }
      }
      for (int panel = 0; panel < panels.count; ++panel) {
        write_panel(work, block, panel, tile_of(sums, panel));
      }
    }
  }

  // All output channels of a block of tiles of an image, from its transformed input.
  static void convolve_image(const Int8WinogradWork& work) {
    using Output = Int8WinogradOutput<K>;
    with_activation(work.stage->activation, [&](auto activation) {
      for (int channel = 0; channel < work.rows; ++channel) {
        auto place = Output::place_of(work, 0);
        for (int panel = 0; panel * kTiles < work.tile_count; ++panel) {
          Output::template write_panel<activation.value>(work, channel, place, [&](int lane) {
            return Int8SumsOfImage<K>(work, channel, panel, lane);
          });
          place.advance(work, kTiles);
        }
      }
    });
  }

 private:
  using I16 = typename K::I16;
  static constexpr int kTaps = 9;

  // Of a block of tiles.
  struct Panels {
    explicit Panels(int tiles)
        : count((tiles + kTiles - 1) / kTiles),
          last_tiles(tiles - (count - 1) * kTiles),
          whole(last_tiles <= K::kFewTiles ? count - 1 : count) {}
    int count;
    int last_tiles;  // of the last panel
    int whole;       // panels that are multiplied with all their lanes
  };

  // Of the sums: `count` channels from `begin` on.
  struct Terms {
    int begin;
    int count;
    bool first;
    bool last;
  };

  // Adds products at a position, of all panels, to the sums of a block of output channels.
  static inline __attribute__((always_inline)) void multiply_panels(
      const Int8WinogradWork& work, const Panels& panels, int position, const Terms& terms,
      const std::int16_t* weights, std::int32_t* sums) {
    const std::int16_t* values = work.panels + position * work.position_stride +
                                 static_cast<std::int64_t>(terms.begin) * kTiles;
    for (int panel = 0; panel < panels.count; ++panel, values += work.depth * kTiles) {
      std::int32_t* tile = tile_of(sums, panel) + position * kTileValues;
      if constexpr (K::kFewTiles > 0) {
        if (panel == panels.whole) {
          K::multiply_few(values, weights, terms.count, panels.last_tiles, terms.first, terms.last,
                          tile);
          continue;
        }
      }
      K::multiply(values, weights, terms.count, terms.first, tile);
    }
  }

  // A row of the transformed weights of some channels, for a block of output channels. Not
  // inlined, so that the registers hold the constants.
  template <int kRow>
  static __attribute__((noinline)) void transform_weights(const Int8WinogradWork& work, int block,
                                                          const Terms& terms) {
    const std::int64_t stride = std::int64_t{work.depth_step} * kRows;
    const std::int64_t channel = std::int64_t{block} * work.depth + terms.begin;
    const auto* from = static_cast<const std::int8_t*>(work.weights) + channel * kTaps * kRows;
    std::int16_t* to = work.transformed;
    constexpr int kStep = K::kPairs ? 2 : 1;
    for (int i = 0; i < terms.count; i += kStep) {
      I16 values[kStep][6];
      unroll<kStep>([&](auto k) MPE_UNROLLED {
        transform_weights_row<kRow>(from + k.value * kTaps * kRows, values[k.value]);
      });
      unroll<6>([&](auto j) MPE_UNROLLED {
        if constexpr (K::kPairs) {
          store_pairs(to + j.value * stride, values[0][j.value], values[1][j.value]);
        } else {
          store(to + j.value * stride, values[0][j.value]);
        }
      });
      from += kStep * kTaps * kRows;
      to += kStep * kRows;
    }
  }

  template <int kRow>
  static inline __attribute__((always_inline)) void transform_weights_row(const std::int8_t* from,
                                                                          I16 (&values)[6]) {
    I16 down[3];
    unroll<3>([&](auto x) MPE_UNROLLED {
      I16 taps[3];
      unroll<3>([&](auto y) MPE_UNROLLED {
        taps[y.value] = K::load_bytes(from + (y.value * 3 + x.value) * kRows);
      });
      I16 column[6];
      transform_int8_weights(taps, column);
      down[x.value] = column[kRow];
    });
    transform_int8_weights(down, values);
  }

  // Where the values of a channel are stored; in pairs, those of both.
  static std::int16_t* panel_of(const Int8WinogradWork& work, int panel, int channel) {
    if constexpr (K::kPairs) channel -= channel % 2;
    return work.panels + (static_cast<std::int64_t>(panel) * work.depth + channel) * kTiles;
  }

  // The first channel of a pair waits in the first half of their place.
  static inline __attribute__((always_inline)) void store_first(std::int16_t* to, I16 x) {
    store(to, x);
  }
  static inline __attribute__((always_inline)) void store_second(std::int16_t* to, I16 x) {
    store_pairs(to, I16::load(to), x);
  }

  // A channel of zeros, which makes a pair with the last one.
  static void add_padding_channel(const Int8WinogradWork& work, int channel) {
    for (int panel = 0; panel * kTiles < work.tile_count; ++panel) {
      for (int position = 0; position < kWinogradPositions; ++position) {
        store_second(panel_of(work, panel, channel) + position * work.position_stride, I16(0));
      }
    }
  }

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

  template <typename Store>
  static void transform_panel(const Int8WinogradWork& work, const std::int8_t* padded,
                              const std::int32_t (&offsets)[kTiles], bool neighbours,
                              std::int16_t* to, const Store& store_value) {
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
        store_value(to + (i.value * 6 + j.value) * work.position_stride, results[i.value]);
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

  // Outputs of a block of output channels and a panel, from its sums.
  static void write_panel(const Int8WinogradWork& work, int block, int panel,
                          const std::int32_t* tiles) {
    using Output = Int8WinogradOutput<K>;
    const int first = block * kRows;
    const int rows = work.rows - first < kRows ? work.rows - first : kRows;
    const auto place = Output::place_of(work, panel * kTiles);
    with_activation(work.stage->activation, [&](auto activation) {
      for (int r = 0; r < rows; ++r) {
        Output::template write_panel<activation.value>(work, first + r, place, [&](int lane) {
          return StoredInt8Sums<K>(tiles + r * kTiles + lane);
        });
      }
    });
  }
};

template <typename K>
constexpr Int8WinogradKernel int8_winograd_kernel() {
  using Kernel = Int8Winograd<K>;
  Int8WinogradKernel kernel;
  kernel.tiles = K::kTiles;
  kernel.few_tiles = K::kFewTiles;
  kernel.rows = K::kRows;
  kernel.pairs = K::kPairs;
  kernel.transform_input = Kernel::transform_input;
  kernel.multiply = Kernel::multiply;
  kernel.multiply_on_the_fly = Kernel::multiply_on_the_fly;
  if constexpr (K::kOfImages) kernel.convolve_image = Kernel::convolve_image;
  return kernel;
}

}  // namespace
}  // namespace mpe
