// The per-channel constants that turn a convolution's sums into its outputs (quant/requantize.h),
// laid out for the kernels. With a dynamic input those that depend on its scale are made anew for
// every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/convolution.h"
#include "kernels/kernel_set.h"

namespace mpe {

class OutputConstants {
 public:
  explicit OutputConstants(const ConvolutionRequest& request);

  // int8: the weights as they are to be multiplied, and their scales.
  float weight_scale(int channel) const { return weight_scale_[static_cast<std::size_t>(channel)]; }

  // int8: sets the total of a channel's quantised weights. The total times the kernel's zero point
  // is subtracted from the channel's sums. Call it for every channel, then finish().
  void set_weight_total(int channel, std::int32_t total) {
    weight_total_[static_cast<std::size_t>(channel)] = total;
  }
  // int8: sets the total of the positive ones among them; then stages say which sums are bounded.
  void set_positive_total(int channel, std::int32_t total) {
    positive_total_.resize(padded_channels());
    positive_total_[static_cast<std::size_t>(channel)] = total;
  }
  // The kernel adds `input_offset` to every input value.
  void finish(int input_offset);

  // Bytes of scratch that stage_for() needs: none unless the input is dynamic.
  std::size_t scratch_bytes() const;
  // The stage for a run; `dynamic_input` and `scratch` are used only for a dynamic input.
  OutputStage stage_for(const ScaleAndZero* dynamic_input, std::byte* scratch) const;

  // int8: the zero point of the input of one group (or of all).
  std::int32_t input_zero_point(const ScaleAndZero* dynamic_input, int group) const;

  std::size_t bytes() const;

 private:
  ScaleAndZero input_step(int channel) const;
  ScaleAndZero output_step(int channel) const;
  void fill(int channel, ScaleAndZero input, std::int32_t& offset, float& multiplier) const;
  bool is_bounded(int channel, ScaleAndZero input, float multiplier) const;
  std::size_t padded_channels() const {
    return static_cast<std::size_t>(channels_ + kOutputStageSlack);
  }

  OutputKind kind_ = OutputKind::kFloat;
  Activation activation_ = Activation::kLinear;
  bool int8_ = false;
  bool dynamic_ = false;
  int channels_ = 0;
  int channels_per_group_ = 0;
  int input_offset_ = 0;
  const ActivationLine* lines_ = nullptr;
  Quantization input_;
  Quantization output_;
  // One entry a channel, and slack. Those that a request does not need are empty.
  std::vector<float> bias_;
  std::vector<float> weight_scale_;
  std::vector<std::int32_t> weight_total_;
  std::vector<std::int32_t> positive_total_;
  std::vector<std::int32_t> offset_;
  std::vector<float> multiplier_;
  std::vector<float> six_;
  std::vector<float> inverse_scale_;
  std::vector<std::int32_t> zero_point_;
  std::vector<std::uint8_t> bounded_;
};

}  // namespace mpe
