// Direct convolution with the including unit's vectors of floats: fp32.
#pragma once

#include "kernels/generic/direct.h"
#include "kernels/generic/output.h"

namespace mpe {
namespace {

template <int kRowsOfBlock, int kStepsOfBlock>
struct DirectFp32 {
  using Stored = float;
  using Sum = float;
  using Values = F32;
  using Scalar = DirectFloat;
  static constexpr int kLanes = F32::kLanes;
  static constexpr int kRows = kRowsOfBlock;
  static constexpr int kSteps = kStepsOfBlock;

  static F32 load(const float* from, int stride, int /*zero_point*/) {
    if (stride == 1) return F32::load(from);
    float values[kLanes];
    for (int i = 0; i < kLanes; ++i) values[i] = from[i * stride];
    return F32::load(values);
  }
  static F32 broadcast(float weight) { return F32(weight); }
  static F32 multiply_add(F32 sum, F32 weight, F32 value) {
    return mpe::multiply_add(sum, value, weight);
  }
  static F32 load_sums(const float* from) { return F32::load(from); }
  static void store_sums(float* to, F32 sums, int count) { store(to, sums, count); }
  static void write(const OutputStage& stage, int channel, const float* sums, int count,
                    void* output) {
    write_outputs<Channels::kOne>(stage, channel, sums, count, output);
  }
};

}  // namespace
}  // namespace mpe
