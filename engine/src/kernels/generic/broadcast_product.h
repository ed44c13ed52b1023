// The product in float of instruction sets that multiply with a value broadcast from memory:
// x86-64. Included after a set's vectors.
#pragma once

#include "kernels/generic/float_kernels.h"

namespace mpe {
namespace {

// One term of a tile: a vector of pixels times a broadcast weight, for every row.
template <int kTileRows, int kTileVectors>
struct BroadcastFp32Product {
  using Vector = F32;
  using Input = float;
  using Panel = float;
  using Weight = float;
  using Multiplier = float;
  using Sum = float;
  using Accumulator = F32;
  static constexpr WeightFormat kWeights = WeightFormat::kFloat;
  static constexpr int kRows = kTileRows;
  static constexpr int kVectors = kTileVectors;
  static constexpr int kLanes = F32::kLanes;
  static constexpr int kUnit = 1;

  static F32 load_sums(const float* sums) { return F32::load(sums); }
  static void store_sums(float* to, F32 sums) { store(to, sums); }
  static F32 load_panel(const float* panel) { return F32::load(panel); }
  static F32 broadcast(const float* weight) { return F32(*weight); }
  static F32 multiply_add(F32 sum, F32 value, F32 weight) {
    return mpe::multiply_add(sum, value, weight);
  }
  template <int kUsed>
  static void step(F32 (&sums)[kRows][kUsed], const float* panel, const float* weights) {
    broadcast_step<BroadcastFp32Product, kUsed>(sums, panel, weights);
  }
  template <int kUsed>
  static inline __attribute__((always_inline)) void add_terms(F32 (&sums)[kRows][kUsed],
                                                              const float* panel,
                                                              const float* weights, int units,
                                                              std::int64_t panel_stride) {
    for (int unit = 0; unit < units; ++unit, panel += panel_stride, weights += kRows) {
      broadcast_step<BroadcastFp32Product, kUsed>(sums, panel, weights);
    }
  }
  template <int kUsed>
  static void convolve_tile(const float* panel, std::int64_t panel_stride, const float* weights,
                            int units, const OutputStage& stage, int channel, int rows,
                            float* output, std::int64_t pixels) {
    convolve_float_tile<BroadcastFp32Product, kUsed>(panel, panel_stride, weights, units, stage,
                                                     channel, rows, output, pixels);
  }
  template <int kUsed>
  static void convolve_taps(const TapRuns<float>& taps, const float* weights,
                            const OutputStage& stage, int channel, int rows, float* output,
                            std::int64_t pixels) {
    convolve_float_taps<BroadcastFp32Product, kUsed>(taps, weights, stage, channel, rows, output,
                                                     pixels);
  }
  template <int kUsed>
  static void accumulate(const float* panel, const float* weights, int units, float* tile,
                         bool fresh, int panel_stride = kVectors * kLanes,
                         int tile_stride = kVectors * kLanes) {
    accumulate_in_registers<BroadcastFp32Product, kUsed>(panel, weights, units, tile, fresh,
                                                         panel_stride, tile_stride);
  }

  // The same of kUsed vectors and one value more. Its sums lie along the rows, and wait so in the
  // first row until the last terms; then they go to their rows, before zeros.
  static constexpr bool kTakesSingle = true;
  template <int kUsed>
  static inline __attribute__((always_inline)) void accumulate_with_single(
      const float* panel, const float* weights, int units, float* tile, bool first, bool last,
      int panel_stride, int tile_stride) {
    static_assert(HalfF32::kLanes == kRows);
    F32 sums[kRows][kUsed];
    float* single_tile = tile + kUsed * kLanes;
    HalfF32 singles = first ? HalfF32(0.0F) : HalfF32::load(single_tile);
    unroll_grid<kRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      sums[r.value][v.value] =
          first ? F32(0) : F32::load(tile + r.value * tile_stride + v.value * kLanes);
    });
    for (int unit = 0; unit < units; ++unit, panel += panel_stride, weights += kRows) {
      broadcast_step<BroadcastFp32Product, kUsed>(sums, panel, weights);
      singles = mpe::multiply_add(singles, HalfF32::load(weights), HalfF32(panel[kUsed * kLanes]));
    }
    unroll_grid<kRows, kUsed>([&](auto r, auto v) MPE_UNROLLED {
      store(tile + r.value * tile_stride + v.value * kLanes, sums[r.value][v.value]);
    });
    if (!last) return store(single_tile, singles);
    float values[kRows];
    store(values, singles);
    for (int r = 0; r < kRows; ++r) {
      store(single_tile + r * tile_stride, F32(0));
      single_tile[r * tile_stride] = values[r];
    }
  }
};

}  // namespace
}  // namespace mpe
