// The inner loop of Winograd's products: 16-bit values times 16-bit weights by lane, added into
// 32-bit sums, 16 operations for 64 multiply-adds with all loads beside them. In assembly, as
// compilers join the 64-bit loads into ones that an in-order core cannot issue with arithmetic.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/generic/unroll.h"

namespace mpe {
namespace {

// clang-format off
#define MPE_INT16_ROWS(multiply, low, high, weights, a0, a1, b0, b1, c0, c1, d0, d1, load0, load1) \
  multiply " v" #a0 ".4s, v" #low ".4h, v" #weights ".h[0]\n" load0                                  \
  multiply " v" #a1 ".4s, v" #high ".4h, v" #weights ".h[0]\n"                                       \
  multiply " v" #b0 ".4s, v" #low ".4h, v" #weights ".h[1]\n" load1                                  \
  multiply " v" #b1 ".4s, v" #high ".4h, v" #weights ".h[1]\n"                                       \
  multiply " v" #c0 ".4s, v" #low ".4h, v" #weights ".h[2]\n"                                        \
  multiply " v" #c1 ".4s, v" #high ".4h, v" #weights ".h[2]\n"                                       \
  multiply " v" #d0 ".4s, v" #low ".4h, v" #weights ".h[3]\n"                                        \
  multiply " v" #d1 ".4s, v" #high ".4h, v" #weights ".h[3]\n"
#define MPE_LOAD(register, pointer, offset) "ldr d" #register ", [%[" #pointer "], #" #offset "]\n"

// Two steps of depth, of which the first starts the sums or adds to them.
#define MPE_INT16_STEPS(first)                                                                       \
  MPE_INT16_ROWS(first, 0, 1, 2, 16, 17, 18, 19, 20, 21, 22, 23,                                     \
                 MPE_LOAD(4, panel, 16), MPE_LOAD(5, panel, 24))                                     \
  MPE_INT16_ROWS(first, 0, 1, 3, 24, 25, 26, 27, 28, 29, 30, 31,                                     \
                 MPE_LOAD(6, weights, 16), MPE_LOAD(7, weights, 24) "subs %[left], %[left], #2\n")   \
  MPE_INT16_ROWS("smlal", 4, 5, 6, 16, 17, 18, 19, 20, 21, 22, 23,                                   \
                 MPE_LOAD(0, panel, 32), MPE_LOAD(1, panel, 40) "add %[panel], %[panel], #32\n")     \
  MPE_INT16_ROWS("smlal", 4, 5, 7, 24, 25, 26, 27, 28, 29, 30, 31, MPE_LOAD(2, weights, 32),         \
                 MPE_LOAD(3, weights, 40) "add %[weights], %[weights], #32\n")

#define MPE_INT16_SUMS(instruction)                                                                  \
  instruction " q16, q17, [%[tile]]\n" instruction " q18, q19, [%[tile], #32]\n"                     \
  instruction " q20, q21, [%[tile], #64]\n" instruction " q22, q23, [%[tile], #96]\n"                \
  instruction " q24, q25, [%[tile], #128]\n" instruction " q26, q27, [%[tile], #160]\n"              \
  instruction " q28, q29, [%[tile], #192]\n" instruction " q30, q31, [%[tile], #224]\n"
#define MPE_INT16_TILE(begin)                                                                        \
  asm volatile(                                                                                      \
      MPE_LOAD(0, panel, 0) MPE_LOAD(1, panel, 8) MPE_LOAD(2, weights, 0) MPE_LOAD(3, weights, 8)    \
      begin                                                                                          \
      "1:\n"                                                                                         \
      MPE_INT16_STEPS("smlal")                                                                       \
      "b.ne 1b\n"                                                                                    \
      "2:\n"                                                                                         \
      MPE_INT16_SUMS("stp")                                                                          \
      : [panel] "+r"(panel), [weights] "+r"(weights), [left] "+r"(left)                              \
      : [tile] "r"(tile)                                                                             \
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19",  \
        "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31")

// tile[8][8] = sum over k of weights[k][8] x panel[k][8], added to what it holds unless these are
// the first terms; `depth` is even and not zero. Reads one step beyond either array.
inline void multiply_int16_tile(const std::int16_t* panel, const std::int16_t* weights, int depth,
                                bool first, std::int32_t* tile) {
  std::int64_t left = depth;
  if (first) {
    MPE_INT16_TILE(MPE_INT16_STEPS("smull") "b.eq 2f\n");
  } else {
    MPE_INT16_TILE(MPE_INT16_SUMS("ldp"));
  }
}
#undef MPE_INT16_TILE
#undef MPE_INT16_SUMS
#undef MPE_INT16_STEPS
#undef MPE_LOAD
#undef MPE_INT16_ROWS
// clang-format on

// The first kTiles columns of the same tile, by sums that lie along the rows, and wait so before
// the last terms. `depth` is even.
template <int kTiles>
inline void multiply_few_int16_tiles(const std::int16_t* panel, const std::int16_t* weights,
                                     int depth, bool first, bool last, std::int32_t* tile) {
  static_assert(kTiles <= 4);
  int32x4_t sums[kTiles][2] = {};
  if (!first) {
    unroll<2 * kTiles>([&](auto i) MPE_UNROLLED {
      sums[i.value / 2][i.value % 2] = vld1q_s32(tile + 4 * i.value);
    });
  }
  // All loads of some steps come first: an in-order core waits for each that is used at once.
  const auto add_steps = [&](auto steps) MPE_UNROLLED {
    constexpr int kSteps = steps.value;
    int16x4_t values[kSteps];
    int16x4_t rows[kSteps][2];
    unroll<kSteps>([&](auto k) MPE_UNROLLED {
      values[k.value] = vld1_s16(panel + 8 * k.value);
      rows[k.value][0] = vld1_s16(weights + 8 * k.value);
      rows[k.value][1] = vld1_s16(weights + 8 * k.value + 4);
    });
    unroll_grid<kSteps, 2 * kTiles>([&](auto k, auto i) MPE_UNROLLED {
      int32x4_t& sum = sums[i.value / 2][i.value % 2];
      sum = vmlal_lane_s16(sum, rows[k.value][i.value % 2], values[k.value], i.value / 2);
    });
    panel += 8 * kSteps;
    weights += 8 * kSteps;
  };
  int k = 0;
  for (; k + 4 <= depth; k += 4) add_steps(Index<4>{});
  if (k < depth) add_steps(Index<2>{});
  if (!last) {
    unroll<2 * kTiles>([&](auto i) MPE_UNROLLED {
      vst1q_s32(tile + 4 * i.value, sums[i.value / 2][i.value % 2]);
    });
    return;
  }
  unroll_grid<kTiles, 8>([&](auto t, auto row) MPE_UNROLLED {
    tile[row.value * 8 + t.value] = vgetq_lane_s32(sums[t.value][row.value / 4], row.value % 4);
  });
}

}  // namespace
}  // namespace mpe
