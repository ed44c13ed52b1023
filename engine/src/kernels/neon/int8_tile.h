// The inner loop of int8 products without dot products, in assembly: compilers reorder it so that
// an in-order core (Cortex-A53) waits for every product. Two products of bytes fit in 16 bits
// (2 * 128 * 127 < 2^15, as weights are never -128); neighbouring pairs are then added into 32-bit
// sums: 48 operations for 256 multiply-adds, beside which all loads are issued.
#pragma once

#include <cstdint>

namespace mpe {
namespace {

// clang-format off
// One row of a tile: products of the first and second pairs of terms with the weights in v<a> and
// v<b>, added to v<s0> ... v<s3>. Each of the twelve operations is followed by a load or nothing.
#define MPE_INT8_ROW(a, b, s0, s1, s2, s3, l0, l1, l2, l3, l4, l5, l6, l7, l8, l9, l10, l11) \
  "smull v8.8h, v0.8b, v" #a ".8b\n" l0   "smull v9.8h, v1.8b, v" #a ".8b\n" l1              \
  "smull v10.8h, v2.8b, v" #a ".8b\n" l2  "smull v11.8h, v3.8b, v" #a ".8b\n" l3             \
  "smlal v8.8h, v4.8b, v" #b ".8b\n" l4   "smlal v9.8h, v5.8b, v" #b ".8b\n" l5              \
  "smlal v10.8h, v6.8b, v" #b ".8b\n" l6  "smlal v11.8h, v7.8b, v" #b ".8b\n" l7             \
  "sadalp v" #s0 ".4s, v8.8h\n" l8        "sadalp v" #s1 ".4s, v9.8h\n" l9                   \
  "sadalp v" #s2 ".4s, v10.8h\n" l10      "sadalp v" #s3 ".4s, v11.8h\n" l11
#define MPE_PAIR(register) "ld1r {v" #register ".4h}, [%[weights]], #2\n"
#define MPE_VALUES(register, offset) "ldr d" #register ", [%[panel], #" #offset "]\n"
// The first three rows; the fourth differs, as it is the last to use the values.
#define MPE_THREE_ROWS                                                                         \
  MPE_INT8_ROW(12, 13, 16, 17, 18, 19, MPE_PAIR(14), "", MPE_PAIR(15), "", "", "", "", "", "", \
               "", "", "")                                                                     \
  MPE_INT8_ROW(14, 15, 20, 21, 22, 23, MPE_PAIR(12), "", MPE_PAIR(13), "", "", "", "", "", "", \
               "", "", "")                                                                     \
  MPE_INT8_ROW(12, 13, 24, 25, 26, 27, MPE_PAIR(14), "", MPE_PAIR(15), "", "", "", "", "", "", \
               "", "", "add %[panel], %[panel], #64\n")

// Adds `units` units of depth (at least one) to a tile of 4 rows and 16 columns, or starts it. A
// unit of the panel is four terms of four pixels in 16 bytes: terms 0 and 1 of each pixel, then 2
// and 3. Nothing beyond the panel and the weights is read.
inline void accumulate_int8_tile(const std::int8_t* panel, const std::int8_t* weights, int units,
                                 std::int32_t* tile, bool fresh) {
  std::int64_t left = units;
  asm volatile(
      "cbz %w[fresh], 1f\n"
      "movi v16.4s, #0\n movi v17.4s, #0\n movi v18.4s, #0\n movi v19.4s, #0\n"
      "movi v20.4s, #0\n movi v21.4s, #0\n movi v22.4s, #0\n movi v23.4s, #0\n"
      "movi v24.4s, #0\n movi v25.4s, #0\n movi v26.4s, #0\n movi v27.4s, #0\n"
      "movi v28.4s, #0\n movi v29.4s, #0\n movi v30.4s, #0\n movi v31.4s, #0\n"
      "b 2f\n"
      "1:\n"
      "ldp q16, q17, [%[tile]]\n ldp q18, q19, [%[tile], #32]\n"
      "ldp q20, q21, [%[tile], #64]\n ldp q22, q23, [%[tile], #96]\n"
      "ldp q24, q25, [%[tile], #128]\n ldp q26, q27, [%[tile], #160]\n"
      "ldp q28, q29, [%[tile], #192]\n ldp q30, q31, [%[tile], #224]\n"
      "2:\n"
      MPE_PAIR(12) MPE_PAIR(13)
      MPE_VALUES(0, 0) MPE_VALUES(1, 16) MPE_VALUES(2, 32) MPE_VALUES(3, 48)
      MPE_VALUES(4, 8) MPE_VALUES(5, 24) MPE_VALUES(6, 40) MPE_VALUES(7, 56)
      "subs %[left], %[left], #1\n"
      "b.eq 4f\n"
      "3:\n"
      MPE_THREE_ROWS
      MPE_INT8_ROW(14, 15, 28, 29, 30, 31, MPE_PAIR(12), MPE_PAIR(13), "", "",
                   MPE_VALUES(0, 0), MPE_VALUES(1, 16), MPE_VALUES(2, 32), MPE_VALUES(3, 48),
                   MPE_VALUES(4, 8), MPE_VALUES(5, 24), MPE_VALUES(6, 40),
                   MPE_VALUES(7, 56) "subs %[left], %[left], #1\n")
      "b.ne 3b\n"
      "4:\n"
      MPE_THREE_ROWS
      MPE_INT8_ROW(14, 15, 28, 29, 30, 31, "", "", "", "", "", "", "", "", "", "", "", "")
      "stp q16, q17, [%[tile]]\n stp q18, q19, [%[tile], #32]\n"
      "stp q20, q21, [%[tile], #64]\n stp q22, q23, [%[tile], #96]\n"
      "stp q24, q25, [%[tile], #128]\n stp q26, q27, [%[tile], #160]\n"
      "stp q28, q29, [%[tile], #192]\n stp q30, q31, [%[tile], #224]\n"
      : [panel] "+r"(panel), [weights] "+r"(weights), [left] "+r"(left)
      : [tile] "r"(tile), [fresh] "r"(static_cast<int>(fresh))
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
        "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
#undef MPE_THREE_ROWS
#undef MPE_VALUES
#undef MPE_PAIR
#undef MPE_INT8_ROW
// clang-format on

}  // namespace
}  // namespace mpe
