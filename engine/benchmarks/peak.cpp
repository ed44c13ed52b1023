#include "peak.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace mpe {
namespace {

// Registers that are written by turns: more than latency times throughput of any of the cores.
#define MPE_REPEAT_12(line)                                                                 \
  line("0") line("1") line("2") line("3") line("4") line("5") line("6") line("7") line("8") \
      line("9") line("10") line("11")

constexpr int kInstructions = 12;
constexpr int kRounds = 2000;

using Loop = void (*)(int rounds);

// A function that executes `rounds` times twelve instructions; registers 13 and 14 are operands.
#define MPE_LOOP(name, prefix, line, ...)                      \
  void name(int rounds) {                                      \
    for (int i = 0; i < rounds; ++i) {                         \
      asm volatile(prefix MPE_REPEAT_12(line)::: __VA_ARGS__); \
    }                                                          \
  }

#if defined(__x86_64__)
#define MPE_CLOBBERS \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"
#define MPE_FMA_256(r) "vfmadd231ps %%ymm13, %%ymm14, %%ymm" r "\n"
#define MPE_MADD_256(r) "vpmaddwd %%ymm13, %%ymm14, %%ymm" r "\n"
#define MPE_FMA_512(r) "vfmadd231ps %%zmm13, %%zmm14, %%zmm" r "\n"
#define MPE_DOT_512(r) "vpdpbusd %%zmm13, %%zmm14, %%zmm" r "\n"
MPE_LOOP(fma_256, "", MPE_FMA_256, MPE_CLOBBERS)
MPE_LOOP(madd_256, "", MPE_MADD_256, MPE_CLOBBERS)
MPE_LOOP(fma_512, "", MPE_FMA_512, MPE_CLOBBERS)
MPE_LOOP(dot_512, "", MPE_DOT_512, MPE_CLOBBERS)
#else
#define MPE_CLOBBERS "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11"
#define MPE_FMLA(r) "fmla v" r ".4s, v13.4s, v14.4s\n"
#define MPE_FMLA_HALF(r) "fmla v" r ".8h, v13.8h, v14.8h\n"
#define MPE_SMLAL(r) "smlal v" r ".8h, v13.8b, v14.8b\n"
#define MPE_SDOT(r) "sdot v" r ".4s, v13.16b, v14.16b\n"
MPE_LOOP(fmla, "", MPE_FMLA, MPE_CLOBBERS)
MPE_LOOP(fmla_half, ".arch_extension fp16\n", MPE_FMLA_HALF, MPE_CLOBBERS)
MPE_LOOP(smlal, "", MPE_SMLAL, MPE_CLOBBERS)
MPE_LOOP(sdot, ".arch_extension dotprod\n", MPE_SDOT, MPE_CLOBBERS)
#endif

struct Peak {
  std::string_view isa;
  Loop loops[3];         // by Precision
  int multiply_adds[3];  // of one instruction
};

constexpr Peak kPeaks[] = {
#if defined(__x86_64__)
    {"avx2", {fma_256, fma_256, madd_256}, {8, 8, 16}},
    {"avx512_vnni", {fma_512, fma_512, dot_512}, {16, 16, 64}},
#else
    {"neon", {fmla, fmla, smlal}, {4, 4, 8}},
    {"neon_fp16", {fmla, fmla_half, smlal}, {4, 8, 8}},
    {"neon_dotprod", {fmla, fmla_half, sdot}, {4, 8, 16}},
#endif
};

// The shortest of many short measurements: what interrupts one does not interrupt all.
double instructions_a_second(Loop loop) {
  using Clock = std::chrono::steady_clock;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 200; ++i) {
    const Clock::time_point start = Clock::now();
    loop(kRounds);
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return kRounds * kInstructions / least;
}

}  // namespace

double peak_multiply_adds(std::string_view isa, Precision precision) {
  const auto index = static_cast<std::size_t>(precision);
  for (const Peak& peak : kPeaks) {
    if (peak.isa != isa) continue;
    return instructions_a_second(peak.loops[index]) * peak.multiply_adds[index];
  }
  return 0.0;
}

}  // namespace mpe
