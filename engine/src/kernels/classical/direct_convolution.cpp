#include "kernels/classical/direct_convolution.h"

#include <algorithm>

#include "half.h"
#include "kernels/aligned_buffer.h"
#include "kernels/geometry.h"
#include "kernels/output_constants.h"
#include "kernels/sizes.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// A tile's input channels at one time: half of the smallest first-level cache, 32 KiB.
constexpr int kInputBytes = 16 * 1024;
// A tile's sums: an eighth of the smallest second-level cache.
constexpr int kSumBytes = 64 * 1024;
// So many input channels at one time should fit, before a tile takes more rows.
constexpr int kLeastDepth = 16;
// Vectors may read so far beyond the last sum of a row. Beyond a tile's last row nothing else lies.
constexpr int kSumSlack = 16;

class DirectConvolution final : public Convolution {
 public:
  DirectConvolution(const ConvolutionRequest& request, Technique technique, DirectKernel kernel,
                    std::string_view isa)
      : kernel_(kernel),
        technique_(technique),
        isa_(isa),
        groups_(request.shape.groups),
        rows_(request.shape.out.channels / request.shape.groups),
        value_size_(value_size(request.precision)),
        output_size_(value_size(request.output_precision)),
        geometry_(request.shape, MapRows::kKept),
        constants_(request) {
    plan_tiles();
    copy_weights(request);
  }

  std::string_view isa() const override { return isa_; }
  std::string_view algorithm() const override {
    return kTechniques[static_cast<std::size_t>(technique_)];
  }
  std::size_t weight_bytes() const override { return weights_.size() + constants_.bytes(); }
  std::size_t scratch_bytes(int threads) const override {
    return constants_bytes() + static_cast<std::size_t>(threads) * sums_bytes();
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const OutputStage stage = constants_.stage_for(call.dynamic_input, call.scratch);
    const int across = divide_up(geometry_->out_height, tile_rows_);
    const int tiles = divide_up(rows_, tile_channels_) * across;
    pool.parallel_for(groups_ * tiles, [&](int thread, int begin, int end) {
      DirectWork work;
      work.geometry = &*geometry_;
      work.stage = &stage;
      work.depth_step = depth_step_;
      work.sum_stride = sum_stride();
      work.sums =
          call.scratch + constants_bytes() + static_cast<std::size_t>(thread) * sums_bytes();
      for (int i = begin; i < end; ++i) {
        set_group(work, call, i / tiles);
        work.channel_begin = i % tiles / across * tile_channels_;
        work.channel_end = std::min(work.channel_begin + tile_channels_, rows_);
        work.row_begin = i % across * tile_rows_;
        work.row_end = std::min(work.row_begin + tile_rows_, geometry_->out_height);
        kernel_(work);
      }
    });
  }

 private:
  void plan_tiles() {
    depth_step_ = geometry_->channels;
    if (technique_ < Technique::kTiled) return;
    const auto between = [](std::int64_t value, int low, int high) {
      return static_cast<int>(std::clamp<std::int64_t>(value, low, high));
    };
    const std::int64_t stride = geometry_->stride_y;
    const std::int64_t line = geometry_->in_width * static_cast<std::int64_t>(value_size_);
    const std::int64_t window = std::int64_t{geometry_->kernel_y - 1} * geometry_->dilation_y + 1;
    const std::int64_t lines = kInputBytes / (line * std::min(geometry_->channels, kLeastDepth));
    const std::int64_t sums = std::int64_t{sum_stride()} * 4;  // bytes of a row
    const std::int64_t rows = std::min((lines - window) / stride + 1, kSumBytes / sums);
    tile_rows_ = between(rows, 1, geometry_->out_height);
    const std::int64_t slab = line * ((tile_rows_ - 1) * stride + window);
    depth_step_ = between(kInputBytes / slab, 1, geometry_->channels);
    tile_channels_ = between(kSumBytes / (tile_rows_ * sums) / 4 * 4, std::min(rows_, 4), rows_);
  }

  int sum_stride() const { return divide_up(geometry_->out_width, kSumSlack) * kSumSlack; }
  std::size_t constants_bytes() const { return round_up(constants_.scratch_bytes(), kCacheLine); }
  std::size_t sums_bytes() const {
    if (technique_ == Technique::kPlain) return 0;
    const std::size_t rows =
        static_cast<std::size_t>(tile_channels_) * static_cast<std::size_t>(tile_rows_);
    return (rows * static_cast<std::size_t>(sum_stride()) + kSumSlack) * sizeof(float);
  }

  void set_group(DirectWork& work, const ConvolutionCall& call, int group) const {
    const auto index = static_cast<std::size_t>(group);
    const auto channels = static_cast<std::size_t>(geometry_->channels);
    const auto rows = static_cast<std::size_t>(rows_);
    const auto in_values = channels * static_cast<std::size_t>(geometry_->in_height) *
                           static_cast<std::size_t>(geometry_->in_width);
    const auto weights = rows * channels * static_cast<std::size_t>(geometry_->taps());
    const auto out_values = rows * static_cast<std::size_t>(geometry_->pixels());
    work.input = static_cast<const std::byte*>(call.input) + index * in_values * value_size_;
    work.weights = weights_.data() + index * weights * value_size_;
    work.output = static_cast<std::byte*>(call.output) + index * out_values * output_size_;
    work.first_channel = group * rows_;
    work.zero_point = constants_.input_zero_point(call.dynamic_input, group);
  }

  void copy_weights(const ConvolutionRequest& request) {
    const int channels = request.shape.out.channels;
    weights_ = AlignedBuffer(static_cast<std::size_t>(channels) *
                             static_cast<std::size_t>(request.shape.depth()) * value_size_);
    std::size_t i = 0;
    for (int channel = 0; channel < channels; ++channel) {
      for (const float weight : request.filter(channel)) {
        if (request.precision == Precision::kInt8) {
          weights_.as<std::int8_t>()[i] = quantize_weight(weight, constants_.weight_scale(channel));
        } else if (request.precision == Precision::kFp16) {
          weights_.as<Half>()[i] = half_from_float(weight);
        } else {
          weights_.as<float>()[i] = weight;
        }
        ++i;
      }
    }
    // The kernel subtracts the zero point from every input and skips padding. So the totals of
    // weights, which would correct the sums, are not needed.
    constants_.finish(0);
  }

  const DirectKernel kernel_;
  const Technique technique_;
  const std::string_view isa_;
  const int groups_;
  const int rows_;  // output channels of a group
  const std::size_t value_size_;
  const std::size_t output_size_;
  GroupGeometry geometry_;
  OutputConstants constants_;
  AlignedBuffer weights_;  // [output channel][channel][ky][kx]
  int tile_channels_ = 1;
  int tile_rows_ = 1;
  int depth_step_ = 1;
};

}  // namespace

std::unique_ptr<Convolution> make_direct_convolution(const ConvolutionRequest& request,
                                                     Technique technique, DirectKernel kernel,
                                                     std::string_view isa) {
  return std::make_unique<DirectConvolution>(request, technique, kernel, isa);
}

}  // namespace mpe
