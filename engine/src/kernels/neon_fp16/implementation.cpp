// Kernels for arm64 cores with half arithmetic (FEAT_FP16): twice as many lanes for fp16. Sums of
// up to kHalfTerms products are formed in half, these are added up in float. A sum of n halves is
// off by at most n 2^-12 of the sum of its terms' magnitudes, in the mean by a root of that: 3 %
// and 0.3 % for the longest.

// The generic code is written over these vectors, so they come first.
// clang-format off
#include "kernels/neon/vectors.h"
// clang-format on
#include "kernels/generic/depthwise.h"
#include "kernels/generic/gemm.h"
#include "kernels/generic/winograd.h"

namespace mpe {
namespace {

constexpr int kHalfTerms = 128;

inline float16x8_t load_halves(const std::uint16_t* from) {
  return vreinterpretq_f16_u16(vld1q_u16(from));
}

// Eight halves and their arithmetic, for Winograd's transforms.
struct F16 {
  static constexpr int kLanes = 8;
  float16x8_t value;

  F16() = default;
  explicit F16(float16x8_t v) : value(v) {}
  explicit F16(float scalar) : value(vdupq_n_f16(static_cast<float16_t>(scalar))) {}
};

inline F16 operator+(F16 a, F16 b) { return F16(vaddq_f16(a.value, b.value)); }
inline F16 operator-(F16 a, F16 b) { return F16(vsubq_f16(a.value, b.value)); }
inline F16 multiply_add(F16 sum, F16 a, F16 b) {
  return F16(vfmaq_f16(sum.value, a.value, b.value));
}
inline void store(std::uint16_t* to, F16 x) { vst1q_u16(to, vreinterpretq_u16_f16(x.value)); }

inline void deinterleave(const std::uint16_t* from, F16 (&columns)[4]) {
  const uint16x8x4_t loaded = vld4q_u16(from);
  for (int i = 0; i < 4; ++i) columns[i].value = vreinterpretq_f16_u16(loaded.val[i]);
}

inline void deinterleave(const std::uint16_t* from, F16 (&columns)[2]) {
  const uint16x8x2_t loaded = vld2q_u16(from);
  for (int i = 0; i < 2; ++i) columns[i].value = vreinterpretq_f16_u16(loaded.val[i]);
}

// Adds eight halves to eight floats, or starts them.
inline void add_to(float* sums, float16x8_t halves, bool fresh) {
  const F32 low(vcvt_f32_f16(vget_low_f16(halves)));
  const F32 high(vcvt_high_f32_f16(halves));
  store(sums, fresh ? low : F32::load(sums) + low);
  store(sums + F32::kLanes, fresh ? high : F32::load(sums + F32::kLanes) + high);
}

struct Fp16Product {
  using Input = std::uint16_t;
  using Panel = std::uint16_t;
  using Weight = std::uint16_t;
  using Multiplier = std::uint16_t;
  using Sum = float;
  static constexpr WeightFormat kWeights = WeightFormat::kHalf;
  static constexpr int kRows = 8;
  static constexpr int kVectors = 3;
  static constexpr int kLanes = 8;
  static constexpr int kUnit = 1;

  using Transform = F16;
  static F16 load_input(const std::uint16_t* from) { return F16(load_halves(from)); }

  template <int kUsed>
  static void accumulate(const std::uint16_t* panel, const std::uint16_t* weights, int units,
                         float* tile, bool fresh, int panel_stride = kVectors * kLanes,
                         int tile_stride = kVectors * kLanes) {
    for (int begin = 0; begin < units; begin += kHalfTerms) {
      const int left = units - begin;
      const int terms = left < kHalfTerms ? left : kHalfTerms;
      float16x8_t sums[kRows][kUsed];
      unroll<kRows>([&](auto r) MPE_UNROLLED {
        unroll<kUsed>([&](auto v) MPE_UNROLLED {
          sums[r.value][v.value] = vreinterpretq_f16_u16(vdupq_n_u16(0));
        });
      });
      for (int term = 0; term < terms; ++term) {
        const float16x8_t rows = load_halves(weights);
        float16x8_t values[kUsed];
        unroll<kUsed>(
            [&](auto v) MPE_UNROLLED { values[v.value] = load_halves(panel + v.value * kLanes); });
        unroll<kRows>([&](auto r) MPE_UNROLLED {
          unroll<kUsed>([&](auto v) MPE_UNROLLED {
            float16x8_t& sum = sums[r.value][v.value];
            sum = vfmaq_laneq_f16(sum, values[v.value], rows, r.value);
          });
        });
        panel += panel_stride;
        weights += kRows;
      }
      const bool starts = fresh && begin == 0;
      unroll<kRows>([&](auto r) MPE_UNROLLED {
        unroll<kUsed>([&](auto v) MPE_UNROLLED {
          add_to(tile + r.value * tile_stride + v.value * kLanes, sums[r.value][v.value], starts);
        });
      });
    }
  }
};

struct Fp16Depthwise {
  using Input = std::uint16_t;
  using Value = std::uint16_t;
  using Sum = float;
  static constexpr WeightFormat kWeights = WeightFormat::kHalf;
  static constexpr int kLanes = 8;

  template <int kSteps>
  static void accumulate(const std::uint16_t* strip, const std::uint16_t* weights,
                         const std::int32_t* offsets, int taps, float* sums) {
    for (int begin = 0; begin < taps; begin += kHalfTerms) {
      const int left = taps - begin;
      const int end = left < kHalfTerms ? taps : begin + kHalfTerms;
      float16x8_t totals[kSteps];
      unroll<kSteps>([&](auto s)
                         MPE_UNROLLED { totals[s.value] = vreinterpretq_f16_u16(vdupq_n_u16(0)); });
      for (int tap = begin; tap < end; ++tap) {
        const float16x8_t weight = vreinterpretq_f16_u16(vdupq_n_u16(weights[tap]));
        const std::uint16_t* values = strip + offsets[tap];
        unroll<kSteps>([&](auto s) MPE_UNROLLED {
          totals[s.value] =
              vfmaq_f16(totals[s.value], load_halves(values + s.value * kLanes), weight);
        });
      }
      unroll<kSteps>([&](auto s) MPE_UNROLLED {
        add_to(sums + s.value * kLanes, totals[s.value], begin == 0);
      });
    }
  }
};

constexpr GemmKernel kFp16Gemm = gemm_kernel<Fp16Product>(576);
constexpr WinogradKernel kFp16Winograd = winograd_kernel<Fp16Product>();
constexpr DepthwiseKernel kFp16DepthwiseKernel = depthwise_kernel<Fp16Depthwise>();

bool supported(const CpuFeatures& features) { return features.neon && features.fp16; }

}  // namespace

constexpr KernelSet kNeonFp16Kernels = {"neon_fp16",
                                        supported,
                                        {nullptr, &kFp16Gemm, nullptr},
                                        {nullptr, &kFp16DepthwiseKernel, nullptr},
                                        {nullptr, &kFp16Winograd, nullptr}};

}  // namespace mpe
