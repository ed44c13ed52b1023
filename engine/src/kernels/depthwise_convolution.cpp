#include "kernels/depthwise_convolution.h"

#include <algorithm>
#include <span>
#include <vector>

#include "half.h"
#include "kernels/aligned_buffer.h"
#include "kernels/output_constants.h"
#include "kernels/sizes.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// A strip is written once and read once per tap: with its sums it should stay in the first-level
// cache.
constexpr int kStripBytes = 12 * 1024;

// Output rows that kernels compute at once where they can.
constexpr int kBlockRows = 4;

// Kernels may read the last channel's weights as whole vectors.
constexpr std::size_t kWeightSlack = 16;

ConvolutionGeometry geometry_of(const ConvolutionShape& shape) {
  ConvolutionGeometry geometry;
  geometry.channels = 1;
  geometry.in_height = shape.in.height;
  geometry.in_width = shape.in.width;
  geometry.out_height = shape.out.height;
  geometry.out_width = shape.out.width;
  geometry.kernel_y = shape.kernel_y;
  geometry.kernel_x = shape.kernel_x;
  geometry.stride_y = shape.stride_y;
  geometry.stride_x = shape.stride_x;
  geometry.padding_y = shape.padding_y;
  geometry.padding_x = shape.padding_x;
  geometry.dilation_y = shape.dilation_y;
  geometry.dilation_x = shape.dilation_x;
  geometry.in_plane = shape.in.plane();
  geometry.out_plane = shape.out.plane();
  return geometry;
}

class DepthwiseConvolution final : public Convolution {
 public:
  DepthwiseConvolution(const ConvolutionRequest& request, const DepthwiseKernel& kernel,
                       std::string_view isa, bool in_place)
      : kernel_(kernel),
        isa_(isa),
        in_place_(in_place),
        same_size_(value_size(request.precision) == value_size(request.output_precision)),
        channels_(request.shape.out.channels),
        multiplier_(request.shape.out.channels / request.shape.in.channels),
        geometry_(geometry_of(request.shape)),
        taps_((geometry_.taps() + 1) / 2 * 2),
        constants_(request) {
    if (request.input != nullptr) input_zero_points_ = request.input->zero_point;
    input_zero_points_.resize(static_cast<std::size_t>(request.shape.in.channels),
                              input_zero_points_.empty() ? 0 : input_zero_points_[0]);
    plan_strip();
    pack_weights(request);
  }

  std::string_view isa() const override { return isa_; }
  std::string_view algorithm() const override { return "depthwise"; }
  // Each channel's plane is read completely before it is written, and no other channel reads it.
  bool works_in_place() const override {
    return in_place_ && multiplier_ == 1 && strip_rows_ == geometry_.out_height;
  }
  std::size_t weight_bytes() const override {
    return weights_.size() + constants_.bytes() +
           (tap_offsets_.size() + input_zero_points_.size()) * sizeof(std::int32_t);
  }

  std::size_t scratch_bytes(int threads) const override {
    return shared_bytes() + static_cast<std::size_t>(threads) * (strip_bytes() + sums_bytes());
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const OutputStage stage = constants_.stage_for(call.dynamic_input, call.scratch);
    const std::int32_t* zero_points = input_zero_points_.data();
    if (call.dynamic_input != nullptr) {
      auto* same = reinterpret_cast<std::int32_t*>(call.scratch + constants_bytes());
      std::fill_n(same, input_zero_points_.size(), call.dynamic_input->zero_point);
      zero_points = same;
    }
    pool.parallel_for(channels_, [&](int thread, int begin, int end) {
      DepthwiseWork work = work_for(call.scratch, thread);
      work.geometry = &geometry_;
      work.stage = &stage;
      work.input = call.input;
      work.output = call.output;
      work.zero_points = zero_points;
      work.channel_begin = begin;
      work.channel_end = end;
      work.row_end = geometry_.out_height;
      work.in_rows.count = geometry_.in_height;
      work.out_rows.count = geometry_.out_height;
      kernel_.run(work);
    });
  }

  bool computes_rows() const override { return constants_.scratch_bytes() == 0; }
  int row_step() const override { return std::min(strip_rows_, kBlockRows); }
  // A strip is read completely before its outputs are written.
  bool rows_in_place() const override {
    return in_place_ && multiplier_ == 1 && geometry_.stride_y == 1 &&
           geometry_.in_width == geometry_.out_width && same_size_;
  }

  void run_rows(const RowsCall& call) const override {
    const OutputStage stage = constants_.stage_for(nullptr, call.scratch);
    ConvolutionGeometry geometry = geometry_;
    geometry.in_plane = call.input.plane;
    geometry.out_plane = call.output.plane;
    DepthwiseWork work = work_for(call.scratch, 0);
    work.geometry = &geometry;
    work.stage = &stage;
    work.input = call.input.data;
    work.output = call.output.data;
    work.zero_points = input_zero_points_.data();
    work.channel_begin = call.first_of(channels_);
    work.channel_end = call.end_of(channels_);
    if (work.channel_begin == work.channel_end) return;
    work.in_rows = call.input.rows;
    work.out_rows = call.output.rows;
    for (int y = call.begin; y < call.end; y = work.row_end) {
      work.row_begin = y;
      work.row_end = std::min(call.end, y + call.output.rows.together(y));
      kernel_.run(work);
    }
  }

 private:
  // What is the same for every call.
  DepthwiseWork work_for(std::byte* scratch, int thread) const {
    DepthwiseWork work;
    work.weights = weights_.data();
    work.tap_offsets = tap_offsets_.data();
    work.multiplier = multiplier_;
    work.strip_rows = strip_rows_;
    work.plane_width = plane_width_;
    work.plane_size = plane_size_;
    work.strip = scratch + shared_bytes() +
                 static_cast<std::size_t>(thread) * (strip_bytes() + sums_bytes());
    work.sums = work.strip + strip_bytes();
    return work;
  }

  std::int64_t strip_input_rows(std::int64_t output_rows) const {
    return (output_rows - 1) * geometry_.stride_y +
           std::int64_t{geometry_.kernel_y - 1} * geometry_.dilation_y + 1;
  }

  void plan_strip() {
    const std::int64_t stride_y = geometry_.stride_y;
    const std::int64_t stride_x = geometry_.stride_x;
    const std::int64_t reach = std::int64_t{geometry_.kernel_x - 1} * geometry_.dilation_x;
    plane_width_ = to_int(geometry_.out_width + reach / stride_x);
    const std::int64_t rows = kStripBytes / (plane_width_ * stride_x * kernel_.strip_value_bytes);
    const std::int64_t fitting = (rows - strip_input_rows(1)) / stride_y + 1;
    // Neighbouring strips both copy the rows that they share: under a tall, dilated kernel, strips
    // of few rows would copy each row many times.
    const std::int64_t extent = divide_up(strip_input_rows(1), stride_y);
    const std::int64_t chosen = 4 * fitting > extent ? fitting : extent;
    strip_rows_ = static_cast<int>(std::clamp<std::int64_t>(chosen, 1, geometry_.out_height));
    if (strip_rows_ < geometry_.out_height && strip_rows_ > kBlockRows) {
      strip_rows_ -= strip_rows_ % kBlockRows;
    }
    plane_size_ = divide_up(strip_input_rows(strip_rows_), stride_y) * plane_width_;
    to_int(stride_y * stride_x * plane_size_);
    for (int ky = 0; ky < geometry_.kernel_y; ++ky) {
      for (int kx = 0; kx < geometry_.kernel_x; ++kx) {
        const std::int64_t y = std::int64_t{ky} * geometry_.dilation_y;
        const std::int64_t x = std::int64_t{kx} * geometry_.dilation_x;
        tap_offsets_.push_back(to_int((y % stride_y * stride_x + x % stride_x) * plane_size_ +
                                      y / stride_y * plane_width_ + x / stride_x));
      }
    }
    // The tap that makes their number even has weight zero and reads the first tap's input.
    tap_offsets_.resize(static_cast<std::size_t>(taps_), 0);
  }

  std::size_t constants_bytes() const { return round_up(constants_.scratch_bytes(), kCacheLine); }
  std::size_t shared_bytes() const {
    if (constants_.scratch_bytes() == 0) return 0;
    return constants_bytes() +
           round_up(input_zero_points_.size() * sizeof(std::int32_t), kCacheLine);
  }
  std::size_t strip_bytes() const {
    const std::int64_t planes = std::int64_t{geometry_.stride_y} * geometry_.stride_x;
    const auto values = static_cast<std::size_t>(planes * plane_size_ + kernel_.lanes);
    return round_up(values * static_cast<std::size_t>(kernel_.strip_value_bytes), kCacheLine);
  }
  std::size_t sums_bytes() const {
    const auto values =
        static_cast<std::size_t>(std::int64_t{strip_rows_} * plane_width_ + kernel_.lanes);
    return round_up(values * sizeof(float), kCacheLine);
  }

  void pack_weights(const ConvolutionRequest& request) {
    const auto taps = static_cast<std::size_t>(geometry_.taps());
    const auto stride = static_cast<std::size_t>(taps_);
    const std::size_t size = kernel_.weights == WeightFormat::kFloat ? sizeof(float) : sizeof(Half);
    weights_ = AlignedBuffer(static_cast<std::size_t>(channels_) * stride * size + kWeightSlack);
    for (int channel = 0; channel < channels_; ++channel) {
      const auto filter = request.filter(channel);
      const std::size_t first = static_cast<std::size_t>(channel) * stride;
      if (kernel_.weights == WeightFormat::kInt16) {
        pack_int8(filter, channel, weights_.as<std::int16_t>() + first);
        continue;
      }
      for (std::size_t tap = 0; tap < taps; ++tap) {
        const float weight = filter[tap];
        if (kernel_.weights == WeightFormat::kHalf) {
          weights_.as<Half>()[first + tap] = half_from_float(weight);
        } else {
          // fp16 weights are rounded even where sums are formed in float.
          weights_.as<float>()[first + tap] = request.precision == Precision::kFp16
                                                  ? half_to_float(half_from_float(weight))
                                                  : weight;
        }
      }
    }
    constants_.finish(0);
  }

  void pack_int8(std::span<const float> filter, int channel, std::int16_t* to) {
    std::int32_t total = 0;
    std::int32_t positive = 0;
    for (const float weight : filter) {
      const std::int8_t value = quantize_weight(weight, constants_.weight_scale(channel));
      *to++ = value;
      total += value;
      positive += std::max<std::int32_t>(value, 0);
    }
    constants_.set_weight_total(channel, total);
    constants_.set_positive_total(channel, positive);
  }

  const DepthwiseKernel& kernel_;
  const std::string_view isa_;
  const bool in_place_;   // if it can
  const bool same_size_;  // are the output's values as large as the input's?
  const int channels_;
  const int multiplier_;  // output channels that read one input channel
  const ConvolutionGeometry geometry_;
  const int taps_;
  OutputConstants constants_;
  std::vector<std::int32_t> input_zero_points_;
  std::vector<std::int32_t> tap_offsets_;
  AlignedBuffer weights_;  // [channel][taps]
  int strip_rows_ = 0;
  int plane_width_ = 0;
  std::int64_t plane_size_ = 0;
};

}  // namespace

std::unique_ptr<Convolution> make_depthwise_convolution(const ConvolutionRequest& request,
                                                        const DepthwiseKernel& kernel,
                                                        std::string_view isa, bool in_place) {
  return std::make_unique<DepthwiseConvolution>(request, kernel, isa, in_place);
}

}  // namespace mpe
