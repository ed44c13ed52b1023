// The way back of Winograd's convolution: from the sums of a vector of tiles, which wait in memory
// or are computed here, to outputs. The vector types are those of generic/winograd.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/generic/factors.h"
#include "kernels/generic/image_sums.h"
#include "kernels/generic/output.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"
#include "kernels/winograd_tiles.h"

namespace mpe {
namespace {

// Sums that wait in memory: those of a vector of tiles at the positions of a column.
template <typename Vector, typename Tiles>
class StoredSums {
 public:
  using Sum = typename Vector::Value;
  static constexpr int kPositions = Tiles::kPositions;

  StoredSums(const WinogradWork& work, int row, int tile)
      : sums_(reinterpret_cast<const Sum*>(work.sums) +
              static_cast<std::int64_t>(row - work.first_row) * work.sum_stride + tile),
        position_(work.sum_position) {}

  template <typename Column>
  inline __attribute__((always_inline)) void operator()(Column column,
                                                        Vector (&values)[kPositions]) const {
    const Sum* from = sums_ + column.value * position_;
    unroll<kPositions>([&](auto i) MPE_UNROLLED {
      // From address to address: all of them, made ahead, would take the vectors' place in
      // time and registers, and a product of 64 bits keeps an Arm core busy for three cycles.
      asm volatile("" : "+r"(from));
      values[i.value] = Vector::load(from);
      from += kPositions * position_;
    });
  }

 private:
  const Sum* sums_;
  const std::int64_t position_;
};

// Sums of three products each, computed where they are used. The transformed input of a block has
// room for kTiles tiles, however many there are.
template <typename K, typename Tiles>
class SumsOfImage {
 public:
  using Panel = typename K::Panel;
  using Multiplier = typename K::Multiplier;
  using Vector = typename K::Sums;
  static constexpr int kPositions = Tiles::kPositions;
  static constexpr int kLanes = Vector::kLanes;
  // Half of the first-level cache of the smallest cores, less what streams through.
  static constexpr int kPanelBytes = 12 * 1024;
  static constexpr int kTiles =
      kPanelBytes / (kPositions * kPositions * kImageChannels * static_cast<int>(sizeof(Panel))) /
      kLanes * kLanes;
  static_assert(kTiles > 0);

  SumsOfImage(const WinogradWork& work, int row, int tile)
      : panels_(reinterpret_cast<const Panel*>(work.panels) + tile),
        weights_(static_cast<const Multiplier*>(work.weights) +
                 static_cast<std::int64_t>(row) * kPositions * kImageColumn) {}

  template <typename Column>
  inline __attribute__((always_inline)) void operator()(Column column,
                                                        Vector (&sums)[kPositions]) const {
    const Factors<Vector, kImageChannels * kPositions> weights(weights_ +
                                                               column.value * kImageColumn);
    sum_image_column(
        column, weights,
        [this](int position, int channel) MPE_UNROLLED {
          return Vector::load(panels_ + (position * kImageChannels + channel) * kTiles);
        },
        sums);
  }

 private:
  const Panel* panels_;
  const Multiplier* weights_;
};

// `Sums` gives the sums of an output channel and a vector of tiles, column by column.
template <typename Vector, typename Tiles, typename Sums>
class WinogradOutput {
 public:
  using Sum = typename Vector::Value;
  static constexpr int kTile = Tiles::kOutput;
  static constexpr int kLanes = Vector::kLanes;
  static constexpr bool kScaled = sizeof(Sum) == 2;  // the weights, so that sums fit into a half
  static constexpr bool kRescales = !kScaled && Tiles::kOutputScale != 1.0;
  static constexpr bool kPools = winograd_form<Tiles>(0).pools();

  static void run(const WinogradWork& work) {
    with_activation(work.stage->activation,
                    [&](auto activation) { run_with<activation.value>(work); });
  }

 private:
  // A vector of tiles may go over the end of a row of tiles.
  struct Place {
    int row;   // output channel
    int tile;  // of the block
    int y;     // row of tiles, and the first tile in it
    int x;
  };

  template <Activation kActivation>
  static void run_with(const WinogradWork& work) {
    if constexpr (kActivation == Activation::kLogistic) {
      return run_costly(work);
    }
    // Bias and activation keep the order of values, so that only what is left of a pooled tile
    // needs them.
    for_places(work, [&](const Place& place) {
      Vector pixels[kTile][kTile];
      transform_back(work, place, pixels);
      if constexpr (kPools) {
        if (work.pool) {
          Vector largest[kTile / 2][kTile / 2];
          pool(pixels, largest, [](Vector a, Vector b) { return keep_larger_value(a, b); });
          add_bias(work, place, largest);
          activate_tile<kActivation>(work.stage->activation, largest);
          return write_pixels(work, place, largest);
        }
      }
      add_bias(work, place, pixels);
      activate_tile<kActivation>(work.stage->activation, pixels);
      write_pixels(work, place, pixels);
    });
  }

  // The pixels of several vectors of tiles wait in memory, so that a call for their activation has
  // enough to do.
  static void run_costly(const WinogradWork& work) {
    constexpr int kAtOnce = 32 / (kTile * kTile);
    Vector pixels[kAtOnce][kTile][kTile];
    Place places[kAtOnce];
    int count = 0;
    const auto finish = [&] {
      activate_costly_values(work.stage->activation, &pixels[0][0][0], count * kTile * kTile);
      for (int i = 0; i < count; ++i) write_activated(work, places[i], pixels[i]);
      count = 0;
    };
    for_places(work, [&](const Place& place) {
      Vector tile[kTile][kTile];  // in registers
      transform_back(work, place, tile);
      add_bias(work, place, tile);
      unroll_grid<kTile, kTile>([&](auto i, auto j) MPE_UNROLLED {
        pixels[count][i.value][j.value] = tile[i.value][j.value];
      });
      places[count] = place;
      if (++count == kAtOnce) finish();
    });
    if (count > 0) finish();
  }

  static void write_activated(const WinogradWork& work, const Place& place,
                              const Vector (&pixels)[kTile][kTile]) {
    if constexpr (kPools) {
      if (work.pool) {
        Vector largest[kTile / 2][kTile / 2];
        pool(pixels, largest, [](Vector a, Vector b) { return keep_larger(a, b); });
        return write_pixels(work, place, largest);
      }
    }
    write_pixels(work, place, pixels);
  }

  template <typename Body>
  static inline __attribute__((always_inline)) void for_places(const WinogradWork& work,
                                                               Body&& body) {
    for (int row = work.row_begin; row < work.row_end; ++row) {
      int y = work.tile_begin / work.tiles_x;
      int x = work.tile_begin - y * work.tiles_x;
      for (int tile = 0; tile < work.tile_count; tile += kLanes) {
        body(Place{row, tile, y, x});
        for (x += kLanes; x >= work.tiles_x; x -= work.tiles_x) ++y;
      }
    }
  }

  // Of the outputs (i, j) of a tile, by i + j.
  static constexpr float output_scale(int sum) {
    double scale = 1.0;
    for (int i = 0; i < sum; ++i) scale *= Tiles::kOutputScale;
    return static_cast<float>(scale);
  }

  // Without the activation; with the bias only where that rescales the pixels.
  static inline __attribute__((always_inline)) void transform_back(const WinogradWork& work,
                                                                   const Place& place,
                                                                   Vector (&pixels)[kTile][kTile]) {
    const Sums load(work, place.row, place.tile);
    if constexpr (!kRescales) {
      Tiles::transform_output(load, pixels);
    } else {
      Tiles::transform_output_rescaled(load, pixels);
      const Vector bias(work.stage->bias[place.row]);
      unroll_grid<kTile, kTile>([&](auto i, auto j) MPE_UNROLLED {
        constexpr float kScale = output_scale(i.value + j.value);
        Vector& pixel = pixels[i.value][j.value];
        pixel = multiply_add(bias, pixel, Vector(kScale));
      });
    }
  }

  // Where transform_back() has not done it already.
  template <int kSize>
  static inline __attribute__((always_inline)) void add_bias(const WinogradWork& work,
                                                             const Place& place,
                                                             Vector (&pixels)[kSize][kSize]) {
    if constexpr (!kRescales) {
      const Vector bias(work.stage->bias[place.row]);
      const Vector unscale(kScaled ? work.unscales[place.row] : 1.0F);
      unroll_grid<kSize, kSize>([&](auto i, auto j) MPE_UNROLLED {
        Vector& pixel = pixels[i.value][j.value];
        pixel = kScaled ? multiply_add(bias, pixel, unscale) : pixel + bias;
      });
    }
  }

  // The largest of each 2x2 pixels by keep(largest, pixel).
  template <typename Keep>
  static inline __attribute__((always_inline)) void pool(const Vector (&pixels)[kTile][kTile],
                                                         Vector (&largest)[kTile / 2][kTile / 2],
                                                         const Keep& keep) {
    unroll_grid<kTile / 2, kTile / 2>([&](auto i, auto j) MPE_UNROLLED {
      const Vector(&upper)[kTile] = pixels[2 * i.value];
      const Vector(&lower)[kTile] = pixels[2 * i.value + 1];
      constexpr int kColumn = 2 * j.value;
      Vector& pooled = largest[i.value][j.value];
      pooled = keep(Vector(Vector::kLowest), upper[kColumn]);
      pooled = keep(pooled, upper[kColumn + 1]);
      pooled = keep(pooled, lower[kColumn]);
      pooled = keep(pooled, lower[kColumn + 1]);
    });
  }

  // The output as it is written, of kSize pixels each way in a tile: pooled or not.
  template <int kSize>
  struct Output {
    int width;
    int height;
    std::int64_t plane;
    explicit Output(const WinogradWork& work)
        : width(work.geometry->out_width * kSize / kTile),
          height(work.geometry->out_height * kSize / kTile),
          plane(work.geometry->out_plane * (kSize * kSize) / (kTile * kTile)) {}
    std::int64_t position(int channel, int y, int x) const {
      return channel * plane + static_cast<std::int64_t>(y) * width + x;
    }
  };

  // Tiles of kSize pixels each way.
  template <int kSize>
  static inline __attribute__((always_inline)) void write_pixels(const WinogradWork& work,
                                                                 const Place& place,
                                                                 const Vector (*pixels)[kSize]) {
    constexpr int kPixels = kSize * kLanes;
    const Output<kSize> output(work);
    const int width = output.width;
    const bool same = (work.stage->kind == OutputKind::kHalf) == (sizeof(Sum) == 2);
    if (same && work.tile_count - place.tile >= kLanes && place.x + kLanes <= work.tiles_x &&
        (place.x + kLanes) * kSize <= width && (place.y + 1) * kSize <= output.height) {
      Sum* to = static_cast<Sum*>(work.output) +
                output.position(place.row, place.y * kSize, place.x * kSize);
      unroll<kSize>([&](auto i) MPE_UNROLLED {
        interleave(to + i.value * static_cast<std::int64_t>(width), pixels[i.value]);
      });
      return;
    }
    alignas(64) Sum values[kSize * kPixels + kLanes];  // runs are read up to the next full vector
    unroll<kSize>([&](auto i)
                      MPE_UNROLLED { interleave(values + i.value * kPixels, pixels[i.value]); });
    write_parts<kSize>(work, place, values);
  }

  // A vector of tiles that goes over the end of a row or of the map, row by row. One function for
  // all activations. values: [kSize][kSize * kLanes]
  template <int kSize>
  static __attribute__((noinline)) void write_parts(const WinogradWork& work, Place place,
                                                    const Sum* values) {
    const Output<kSize> output(work);
    const int left = work.tile_count - place.tile;
    const int tiles = left < kLanes ? left : kLanes;
    int y = place.y;
    int x = place.x;
    for (int first = 0; first < tiles; x = 0, ++y) {
      const int in_row = work.tiles_x - x;
      const int used = in_row < tiles - first ? in_row : tiles - first;
      const int inside = output.width - x * kSize;
      const int columns = used * kSize < inside ? used * kSize : inside;
      const int below = output.height - y * kSize;
      const int rows = below < kSize ? below : kSize;
      for (int i = 0; i < rows; ++i) {
        write_run(work, output.position(place.row, y * kSize + i, x * kSize),
                  values + i * kSize * kLanes + first * kSize, columns);
      }
      first += used;
    }
  }

  static void write_run(const WinogradWork& work, std::int64_t position, const Sum* values,
                        int count) {
    if constexpr (sizeof(Sum) == 4) {
      if (work.stage->kind == OutputKind::kHalf) {
        auto* to = static_cast<std::uint16_t*>(work.output) + position;
        for (int k = 0; k < count; k += kLanes) {
          store_half(to + k, F32::load(values + k), count - k < kLanes ? count - k : kLanes);
        }
        return;
      }
    }
    copy_run(static_cast<Sum*>(work.output) + position, values, count);
  }
};

}  // namespace
}  // namespace mpe
