// The way back of int8's Winograd: from the sums of a vector of tiles, which wait in memory or are
// computed here, to outputs. Modulo 2^32 throughout (generic/int8_winograd.h).
//
// The set K offers
//   I32       + -, shift_left<n>(a), load, store, divide_by_576(a), larger(a, b),
//             store_four_apart(to, a, b, c, d)   lane t of vector j at 4 t + j
//             interleave(a, b, I32 (&to)[2])   lane t of vector j at 2 t + j of both
//   Bounded   what writes outputs whose sums are bounded (OutputStage::bounded); void: nothing
//   load_vector(from)   the 16-bit values of a vector of tiles
//   ImageWeights        Factors of the weights of a column of an image's positions, for such values
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/generic/factors.h"
#include "kernels/generic/image_sums.h"
#include "kernels/generic/output.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

// Sums that wait in memory, from position to position a register tile apart.
template <typename K>
class StoredInt8Sums {
 public:
  explicit StoredInt8Sums(const std::int32_t* sums) : sums_(sums) {}

  // Those of a column of positions.
  template <typename Column>
  inline __attribute__((always_inline)) void operator()(Column column, I32 (&sums)[6]) const {
    constexpr int kTileValues = K::kTiles * K::kRows;
    unroll<6>([&](auto i) MPE_UNROLLED {
      sums[i.value] = I32::load(sums_ + (i.value * 6 + column.value) * kTileValues);
    });
  }

 private:
  const std::int32_t* sums_;
};

// Sums of three products each, computed where they are used.
template <typename K>
class Int8SumsOfImage {
 public:
  Int8SumsOfImage(const Int8WinogradWork& work, int row, int panel, int lane)
      : values_(work.panels + panel * (kImageChannels * K::kTiles) + lane),
        weights_(static_cast<const std::int16_t*>(work.weights) +
                 static_cast<std::int64_t>(row) * (6 * kImageColumn)) {}

  template <typename Column>
  inline __attribute__((always_inline)) void operator()(Column column, I32 (&sums)[6]) const {
    const typename K::ImageWeights weights(weights_ + column.value * kImageColumn);
    sum_image_column(
        column, weights,
        [this](int position, int channel) MPE_UNROLLED {
          constexpr int kStride = kInt8ImagePanels * kImageChannels * K::kTiles;
          return K::load_vector(values_ + position * kStride + channel * K::kTiles);
        },
        sums);
  }

 private:
  const std::int16_t* values_;
  const std::int16_t* weights_;
};

template <typename K>
class Int8WinogradOutput {
 public:
  static constexpr int kLanes = I32::kLanes;

  // A tile of the block, and its place in the map of tiles.
  struct Place {
    int tile;
    int y;
    int x;

    void advance(const Int8WinogradWork& work, int tiles) {
      tile += tiles;
      for (x += tiles; x >= work.tiles_x; x -= work.tiles_x) ++y;
    }
  };

  static Place place_of(const Int8WinogradWork& work, int tile) {
    const int y = (work.tile_begin + tile) / work.tiles_x;
    return {tile, y, work.tile_begin + tile - y * work.tiles_x};
  }

  // One output channel's outputs of the panel of tiles that begins at `place`; sums_of(lane) gives
  // the sums of the vector of tiles from that one on.
  template <Activation kActivation, typename SumsOf>
  static inline __attribute__((always_inline)) void write_panel(const Int8WinogradWork& work,
                                                                int channel, Place place,
                                                                const SumsOf& sums_of) {
    const int left = work.tile_count - place.tile;
    const int count = left < K::kTiles ? left : K::kTiles;
    if constexpr (is_simple(kActivation)) {
      if (work.pool) {
        for (int lane = 0; lane < count; lane += kLanes) {
          I32 outputs[4][4];
          transform_back(sums_of(lane), outputs);
          write_pooled<kActivation>(work, channel, place, outputs);
          place.advance(work, kLanes);
        }
        return;
      }
    }
    alignas(64) Pixels pixels;
    for (int lane = 0; lane < count; lane += kLanes) {
      I32 outputs[4][4];
      transform_back(sums_of(lane), outputs);
      unroll<4>([&](auto i) MPE_UNROLLED {
        I32(&y)[4] = outputs[i.value];
        unroll<4>([&](auto j) MPE_UNROLLED { y[j.value] = divide_by_576(y[j.value]); });
        store_four_apart(pixels[i.value] + 4 * lane, y[0], y[1], y[2], y[3]);
      });
    }
    write_pixels<kActivation>(work, channel, place, count, pixels);
  }

 private:
  using Bounded = typename K::Bounded;
  // Rows of a panel's tiles, and what a vector more reads.
  using Pixels = std::int32_t[4][4 * K::kTiles + 16];

  // 24 A^T m, of which G has the factors 6, -4, -4, 1, 1 and 3.
  static inline __attribute__((always_inline)) void transform_six(const I32 (&m)[6], I32 (&y)[4]) {
    combine(m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4], m[5], y);
    y[0] = y[0] + m[0];
  }

  // From sums and differences at the pairs of points, and what is at infinity; zero is missing.
  static inline __attribute__((always_inline)) void combine(I32 sum, I32 difference, I32 far_sum,
                                                            I32 far_difference, I32 at_infinity,
                                                            I32 (&y)[4]) {
    y[0] = sum + far_sum;
    y[1] = difference + shift_left<1>(far_difference);
    y[2] = sum + shift_left<2>(far_sum);
    y[3] = difference + shift_left<3>(far_difference + at_infinity);
  }

  // 576 times the outputs of a vector of tiles. Columns that are used together come together, so
  // that few values are alive.
  template <typename Sums>
  static inline __attribute__((always_inline)) void transform_back(const Sums& load,
                                                                   I32 (&y)[4][4]) {
    const auto column = [&](auto j, I32(&down)[4]) MPE_UNROLLED {
      I32 sums[6];
      load(j, sums);
      transform_six(sums, down);
    };
    I32 infinity[4];
    I32 near[2][4];
    I32 far[2][4];
    column(Index<5>{}, infinity);
    column(Index<1>{}, near[0]);
    column(Index<2>{}, near[1]);
    unroll<4>([&](auto i)
                  MPE_UNROLLED { to_sum_and_difference(near[0][i.value], near[1][i.value]); });
    column(Index<3>{}, far[0]);
    column(Index<4>{}, far[1]);
    unroll<4>([&](auto i) MPE_UNROLLED {
      to_sum_and_difference(far[0][i.value], far[1][i.value]);
      I32(&row)[4] = y[i.value];
      combine(near[0][i.value], near[1][i.value], far[0][i.value], far[1][i.value],
              infinity[i.value], row);
    });
    I32 zero[4];
    column(Index<0>{}, zero);
    unroll<4>([&](auto i) MPE_UNROLLED { y[i.value][0] = y[i.value][0] + zero[i.value]; });
  }

  static inline __attribute__((always_inline)) void to_sum_and_difference(I32& a, I32& b) {
    const I32 first = a;
    a = first + b;
    b = first - b;
  }

  // Of a vector of tiles at `place`, the largest of each 2x2 outputs.
  template <Activation kActivation>
  static inline __attribute__((always_inline)) void write_pooled(const Int8WinogradWork& work,
                                                                 int channel, const Place& place,
                                                                 I32 (&outputs)[4][4]) {
    const OutputStage& stage = *work.stage;
    // Sums that are small keep their order when they are multiplied by 576.
    if (!work.small_sums) {
      unroll<16>([&](auto i) MPE_UNROLLED {
        I32& output = outputs[i.value / 4][i.value % 4];
        output = divide_by_576(output);
      });
    }
    I32 rows[2][2];
    unroll<2>([&](auto i) MPE_UNROLLED {
      I32 largest[2];
      unroll<2>([&](auto j) MPE_UNROLLED {
        const I32(&upper)[4] = outputs[2 * i.value];
        const I32(&lower)[4] = outputs[2 * i.value + 1];
        constexpr int kColumn = 2 * j.value;
        I32& of_four = largest[j.value];
        of_four = larger(larger(upper[kColumn], upper[kColumn + 1]),
                         larger(lower[kColumn], lower[kColumn + 1]));
        if (work.small_sums) of_four = divide_by_576(of_four);
      });
      interleave(largest[0], largest[1], rows[i.value]);
    });
    const int left = work.tile_count - place.tile;
    const int width = work.geometry->out_width / 2;
    const int height = work.geometry->out_height / 2;
    const auto position = [&](int y, int x) {
      return (static_cast<std::int64_t>(channel) * height + y) * width + x;
    };
    [[maybe_unused]] const bool whole = left >= kLanes && place.x + kLanes <= work.tiles_x &&
                                        2 * (place.x + kLanes) <= width &&
                                        2 * (place.y + 1) <= height;
    if constexpr (!std::is_void_v<Bounded>) {
      if (whole && is_bounded(stage, channel)) {
        using Constants = typename Bounded::Constants;
        const I32 start = Bounded::start(stage, channel);
        unroll<4>([&](auto i) MPE_UNROLLED {
          I32& sum = rows[i.value / 2][i.value % 2];
          sum = sum + start;
        });
        const Constants constants = Constants::template load<kActivation>(stage, channel);
        const Constants both[2] = {constants, constants};
        auto* to = static_cast<std::int8_t*>(work.output) + position(2 * place.y, 2 * place.x);
        return Bounded::template write<kActivation>(stage.lines, both, rows, to, width);
      }
    }
    alignas(64) std::int32_t pixels[2][3 * kLanes];  // runs are read up to the next vector
    unroll<4>([&](auto i) MPE_UNROLLED {
      store(pixels[i.value / 2] + i.value % 2 * kLanes, rows[i.value / 2][i.value % 2]);
    });
    const int tiles = left < kLanes ? left : kLanes;
    for_rows(work, place, tiles, [&](int first, int count, int y, int x) {
      for (int i = 0; i < 2 && 2 * y + i < height; ++i) {
        write_outputs<Channels::kOne>(stage, channel, pixels[i] + 2 * first,
                                      limited(width - 2 * x, 0, 2 * count),
                                      output_at(work, position(2 * y + i, 2 * x)));
      }
    });
  }

  // `count` tiles from `place` on.
  template <Activation kActivation>
  static void write_pixels(const Int8WinogradWork& work, int channel, const Place& place, int count,
                           const Pixels& pixels) {
    const ConvolutionGeometry& geometry = *work.geometry;
    const std::int64_t plane = static_cast<std::int64_t>(channel) * geometry.pixels();
    [[maybe_unused]] const bool bounded = is_bounded(*work.stage, channel);
    for_rows(work, place, count, [&](int first, int tiles, int y, int x) {
      const int width = limited(geometry.out_width - 4 * x, 0, 4 * tiles);
      const int height = limited(geometry.out_height - 4 * y, 0, 4);
      const std::int64_t position =
          plane + static_cast<std::int64_t>(4 * y) * geometry.out_width + 4 * x;
      if constexpr (!std::is_void_v<Bounded>) {
        if (bounded && width == 4 * tiles && height == 4) {
          auto* to = static_cast<std::int8_t*>(work.output) + position;
          return write_tiles<kActivation>(work, channel, pixels, first, tiles, to);
        }
      }
      for (int i = 0; i < height; ++i) {
        write_outputs<Channels::kOne>(
            *work.stage, channel, pixels[i] + 4 * first, width,
            output_at(work, position + static_cast<std::int64_t>(i) * geometry.out_width));
      }
    });
  }

  // body(first, count, y, x) for the rows of tiles over which `tiles` from `place` on go.
  template <typename Body>
  static void for_rows(const Int8WinogradWork& work, Place place, int tiles, const Body& body) {
    for (int first = 0; first < tiles;) {
      const int in_row = work.tiles_x - place.x;
      const int count = in_row < tiles - first ? in_row : tiles - first;
      body(first, count, place.y, place.x);
      first += count;
      place.advance(work, count);
    }
  }

  static bool is_bounded(const OutputStage& stage, int channel) {
    return stage.kind == OutputKind::kInt8 && stage.is_bounded(channel);
  }

  static std::byte* output_at(const Int8WinogradWork& work, std::int64_t position) {
    return static_cast<std::byte*>(work.output) + position * output_bytes(work.stage->kind);
  }

  // Whole outputs of neighbouring tiles, of bounded sums. A tile's row is a vector. As many of them
  // at once as there are registers for.
  template <Activation kActivation>
  static void write_tiles(const Int8WinogradWork& work, int channel, const Pixels& pixels, int lane,
                          int tiles, std::int8_t* output) {
    static_assert(std::is_void_v<Bounded> || I32::kLanes == 4);
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
    using Constants = typename Bounded::Constants;
    const OutputStage& stage = *work.stage;
    const std::int64_t width = work.geometry->out_width;
    const I32 start = Bounded::start(stage, channel);
    I32 sums[kHeight][kCount];
    unroll_grid<kHeight, kCount>([&](auto k, auto v) MPE_UNROLLED {
      sums[k.value][v.value] =
          I32::load(pixels[row + k.value] + (lane + v.value) * I32::kLanes) + start;
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
};

}  // namespace
}  // namespace mpe
