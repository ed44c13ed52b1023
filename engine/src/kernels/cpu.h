// What this machine's core offers, as the operating system allows it to be used.
#pragma once

namespace mpe {

struct CpuFeatures {
  // arm64 (Advanced SIMD itself is part of every target)
  bool neon = false;
  bool fp16 = false;     // half arithmetic: FEAT_FP16
  bool dotprod = false;  // FEAT_DotProd
  // x86-64
  bool avx2 = false;         // AVX2, FMA and F16C
  bool avx512_vnni = false;  // AVX-512 F, BW, DQ, VL and VNNI
};

// Asked of the system once.
const CpuFeatures& cpu_features();

}  // namespace mpe
