// What this machine's core offers, as the operating system allows it to be used.
#pragma once

#include <cstddef>

namespace mpe {

struct CpuFeatures {
  // arm64 (Advanced SIMD itself is part of every target)
  bool neon = false;
  bool fp16 = false;      // half arithmetic: FEAT_FP16
  bool dotprod = false;   // FEAT_DotProd
  bool in_order = false;  // a Cortex-A35, A53 or A55, which execute instructions in program order
  // x86-64
  bool avx2 = false;         // AVX2, FMA and F16C
  bool avx512_vnni = false;  // AVX-512 F, BW, DQ, VL and VNNI
};

// What of a core's data caches can be counted on. The first level of the smallest board, a
// Raspberry Pi 3, serves every arm64, and its second level most: larger ones brought nothing on a
// modelled Cortex-A76, and Linux need not know them.
struct CpuCaches {
  std::size_t first_bytes = std::size_t{32} << 10U;  // the first level, for data
  // Stays there while other data streams through: one of two ways of 16 KiB.
  std::size_t resident_bytes = std::size_t{16} << 10U;
  std::size_t second_bytes = std::size_t{512} << 10U;  // the second level
  bool second_is_shared = false;                       // by all cores
  std::size_t third_bytes = 0;                         // the third level; 0: none that is known
  // How many multiply-adds of vectors take as long as a byte from memory, with one thread, and how
  // many more with each further thread: threads share the memory. As the boards' coefficients have
  // it (toolchains/targets/).
  double byte_price = 1.0 / 3.0;
  double shared_byte_price = 0.45;
  // The same for a byte from the third level, however many threads: by 80 to 100 GB/s of an AMD
  // EPYC (Zen 4).
  double third_byte_price = 1.0 / 32.0;
};

// Asked of the system once.
const CpuFeatures& cpu_features();
const CpuCaches& cpu_caches();

// Of a second-level or third-level cache, beside what streams through. With all of it, a layer of
// 80 to 64 channels read its weights again for every block of tiles on a Cortex-A72.
inline constexpr double kUsableShare = 0.875;
// A thread's part of that share of the second-level cache, where so many threads run.
std::size_t usable_second_bytes(int threads);

}  // namespace mpe
