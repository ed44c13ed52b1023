#include "kernels/output_constants.h"

#include <algorithm>
#include <cmath>

#include "quant/activation_lines.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

std::size_t index_of(int channel) { return static_cast<std::size_t>(channel); }

OutputKind kind_of(const ConvolutionRequest& request) {
  switch (request.output_precision) {
    case Precision::kFp16:
      return OutputKind::kHalf;
    case Precision::kInt8:
      return OutputKind::kInt8;
    default:
      return OutputKind::kFloat;
  }
}

}  // namespace

OutputConstants::OutputConstants(const ConvolutionRequest& request)
    : kind_(kind_of(request)),
      activation_(request.activation),
      int8_(request.precision == Precision::kInt8),
      dynamic_(int8_ && request.input == nullptr),
      channels_(request.shape.out.channels),
      channels_per_group_(request.shape.out.channels / request.shape.groups) {
  bias_.assign(request.bias.begin(), request.bias.end());
  bias_.resize(padded_channels());
  if (!int8_) return;

  if (request.input != nullptr) input_ = *request.input;
  if (kind_ == OutputKind::kInt8) output_ = *request.output;
  weight_scale_.resize(padded_channels(), 1.0F);
  weight_total_.resize(padded_channels());
  for (std::size_t c = 0; c < index_of(channels_); ++c) {
    weight_scale_[c] = request.weight_scale(static_cast<int>(c));
  }
}

void OutputConstants::finish(int input_offset) {
  if (!int8_) return;
  input_offset_ = input_offset;
  if (kind_ == OutputKind::kInt8) {
    zero_point_.resize(padded_channels());
    if (activation_ == Activation::kRelu6) six_.resize(padded_channels());
    if (!is_foldable(activation_)) {
      inverse_scale_.resize(padded_channels());
      lines_ = activation_lines(activation_);
    }
    for (int c = 0; c < channels_; ++c) {
      const ScaleAndZero output = output_step(c);
      zero_point_[index_of(c)] = output.zero_point;
      if (!six_.empty()) six_[index_of(c)] = relu6_limit(output.scale);
      if (!inverse_scale_.empty()) inverse_scale_[index_of(c)] = inverse_scale(output.scale);
    }
  }
  if (dynamic_) return;
  offset_.resize(padded_channels());
  multiplier_.resize(padded_channels());
  if (!positive_total_.empty()) bounded_.resize(padded_channels(), 1);
  for (int c = 0; c < channels_; ++c) {
    fill(c, input_step(c), offset_[index_of(c)], multiplier_[index_of(c)]);
    if (bounded_.empty()) continue;
    bounded_[index_of(c)] = is_bounded(c, input_step(c), multiplier_[index_of(c)]) ? 1 : 0;
  }
  // These are needed again only if the input's scale changes.
  for (auto* floats : {&bias_, &weight_scale_}) std::vector<float>().swap(*floats);
  for (auto* totals : {&weight_total_, &positive_total_}) {
    std::vector<std::int32_t>().swap(*totals);
  }
}

ScaleAndZero OutputConstants::input_step(int channel) const {
  return input_.of(channel / channels_per_group_);
}

ScaleAndZero OutputConstants::output_step(int channel) const { return output_.of(channel); }

void OutputConstants::fill(int channel, ScaleAndZero input, std::int32_t& offset,
                           float& multiplier) const {
  const std::size_t c = index_of(channel);
  const std::int32_t bias = quantize_bias(bias_[c], input.scale, weight_scale_[c]);
  // Modulo 2^32: the kernels' sums wrap likewise, and the total fits again.
  const std::uint32_t correction = static_cast<std::uint32_t>(input.zero_point + input_offset_) *
                                   static_cast<std::uint32_t>(weight_total_[c]);
  offset = static_cast<std::int32_t>(static_cast<std::uint32_t>(bias) - correction);
  multiplier =
      kind_ == OutputKind::kInt8 && is_foldable(activation_)
          ? requantize_multiplier(input.scale, weight_scale_[c], output_step(channel).scale)
          : dequantize_multiplier(input.scale, weight_scale_[c]);
}

bool OutputConstants::is_bounded(int channel, ScaleAndZero input, float multiplier) const {
  const std::size_t c = index_of(channel);
  const std::int64_t positive = positive_total_[c];
  const std::int64_t negative = weight_total_[c] - positive;
  const std::int64_t least = -128 - std::int64_t{input.zero_point};
  const std::int64_t most = 127 - std::int64_t{input.zero_point};
  const std::int64_t bias = quantize_bias(bias_[c], input.scale, weight_scale_[c]);
  const std::int64_t low = positive * least + negative * most + bias;
  const std::int64_t high = positive * most + negative * least + bias;
  if (low < -kBoundedSum || high > kBoundedSum) return false;
  if (kind_ != OutputKind::kInt8) return true;
  const float limits[] = {static_cast<float>(low) * multiplier,
                          static_cast<float>(high) * multiplier};
  return std::ranges::all_of(limits, [&](float limit) {
    if (is_foldable(activation_)) return std::abs(limit) <= kBoundedSteps;
    // Of the lines' values, those at the ends are furthest from zero, or all are near it.
    constexpr float kNear = 2 * float{kLinesEitherSide} / kLinesPerUnit;
    const float furthest = std::max(kNear, std::abs(activate_by_lines(lines_, limit)));
    return furthest * inverse_scale_[c] <= kBoundedSteps;
  });
}

std::size_t OutputConstants::scratch_bytes() const {
  constexpr std::size_t kBytes = sizeof(std::int32_t) + sizeof(float) + sizeof(std::uint8_t);
  return dynamic_ ? padded_channels() * kBytes : 0;
}

OutputStage OutputConstants::stage_for(const ScaleAndZero* dynamic_input,
                                       std::byte* scratch) const {
  OutputStage stage;
  stage.kind = kind_;
  stage.activation = activation_;
  stage.bias = bias_.data();
  stage.offset = offset_.data();
  stage.multiplier = multiplier_.data();
  stage.six = six_.data();
  stage.inverse_scale = inverse_scale_.data();
  stage.lines = lines_;
  stage.zero_point = zero_point_.data();
  stage.bounded = bounded_.empty() ? nullptr : bounded_.data();
  if (dynamic_) {
    auto* offset = reinterpret_cast<std::int32_t*>(scratch);
    auto* multiplier = reinterpret_cast<float*>(offset + padded_channels());
    auto* bounded = reinterpret_cast<std::uint8_t*>(multiplier + padded_channels());
    for (int c = 0; c < channels_; ++c) {
      fill(c, *dynamic_input, offset[index_of(c)], multiplier[index_of(c)]);
      if (positive_total_.empty()) continue;
      bounded[c] = is_bounded(c, *dynamic_input, multiplier[index_of(c)]) ? 1 : 0;
    }
    // The slack, which kernels read but never use.
    std::fill(offset + channels_, offset + padded_channels(), 0);
    std::fill(multiplier + channels_, multiplier + padded_channels(), 0.0F);
    std::fill(bounded + channels_, bounded + padded_channels(), std::uint8_t{1});
    stage.offset = offset;
    stage.multiplier = multiplier;
    stage.bounded = positive_total_.empty() ? nullptr : bounded;
  }
  return stage;
}

std::int32_t OutputConstants::input_zero_point(const ScaleAndZero* dynamic_input, int group) const {
  if (!int8_) return 0;
  return dynamic_ ? dynamic_input->zero_point : input_.of(group).zero_point;
}

std::size_t OutputConstants::bytes() const {
  const std::size_t floats = bias_.size() + weight_scale_.size() + multiplier_.size() +
                             six_.size() + inverse_scale_.size();
  const std::size_t integers =
      weight_total_.size() + positive_total_.size() + offset_.size() + zero_point_.size();
  return floats * sizeof(float) + integers * sizeof(std::int32_t) + bounded_.size();
}

}  // namespace mpe
