// Kernels for arm64 cores with half arithmetic (FEAT_FP16): twice as many lanes for fp16. Sums of
// up to kHalfTerms products are formed in half, these are added up in float.

// The generic code is written over these vectors, so they come first.
// clang-format off
#include "kernels/neon/vectors.h"
// clang-format on
#include "kernels/generic/depthwise.h"
#include "kernels/generic/gemm.h"

namespace mpe {
namespace {

constexpr int kHalfTerms = 32;

inline float16x8_t load_halves(const std::uint16_t* from) {
  return vreinterpretq_f16_u16(vld1q_u16(from));
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

  template <int kUsed>
  static void accumulate(const std::uint16_t* panel, const std::uint16_t* weights, int units,
                         float* tile, bool fresh) {
    constexpr int kColumns = kLanes * kVectors;
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
        panel += kColumns;
        weights += kRows;
      }
      const bool starts = fresh && begin == 0;
      unroll<kRows>([&](auto r) MPE_UNROLLED {
        unroll<kUsed>([&](auto v) MPE_UNROLLED {
          add_to(tile + r.value * kColumns + v.value * kLanes, sums[r.value][v.value], starts);
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

constexpr GemmKernel kFp16Gemm = gemm_kernel<Fp16Product>(512);
constexpr DepthwiseKernel kFp16DepthwiseKernel = depthwise_kernel<Fp16Depthwise>();

bool supported(const CpuFeatures& features) { return features.neon && features.fp16; }

}  // namespace

constexpr KernelSet kNeonFp16Kernels = {"neon_fp16",
                                        supported,
                                        {nullptr, &kFp16Gemm, nullptr},
                                        {nullptr, &kFp16DepthwiseKernel, nullptr}};

}  // namespace mpe
