#include "kernels/gemm_convolution.h"

#include <algorithm>

#include "half.h"
#include "kernels/aligned_buffer.h"
#include "kernels/geometry.h"
#include "kernels/output_constants.h"
#include "kernels/shares.h"
#include "kernels/sizes.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// Packed input that a thread works on: it should stay in the second-level cache, of which the
// smallest board has 512 KiB for four cores.
constexpr int kPanelBytes = 192 * 1024;
constexpr int kSmallPanelBytes = 32 * 1024;

// Panels come from lines of the padded input where the gathering would take long beside the
// computation. That is so for few terms; all weights then stay in a first-level cache. It is also
// so with a stride; then a panel stays in that cache, and the weights, which are read once for each
// panel, in the second one.
constexpr int kLineTerms = 64;
constexpr std::size_t kLineWeightBytes = 16 * 1024;
constexpr int kLinePanelBytes = 28 * 1024;
constexpr std::size_t kStridedWeightBytes = 160 * 1024;

class GemmConvolution final : public Convolution {
 public:
  GemmConvolution(const ConvolutionRequest& request, const GemmKernel& kernel, std::string_view isa,
                  GemmForm form, bool small_scratch)
      : kernel_(kernel),
        isa_(isa),
        form_(form),
        input_size_(value_size(request.precision)),
        output_size_(value_size(request.output_precision)),
        groups_(request.shape.groups),
        rows_(request.shape.out.channels / request.shape.groups),
        width_(request.shape.out.width),
        pointwise_(request.shape.pointwise()),
        geometry_(request.shape),
        constants_(request) {
    block_rows_ = form == GemmForm::kTiles ? kernel.rows : kernel.vector_rows;
    blocks_ = divide_up(rows_, block_rows_);
    depth_ = divide_up(request.shape.depth(), kernel.depth_unit) * kernel.depth_unit;
    choose_steps(small_scratch ? kSmallPanelBytes : kPanelBytes);
    if (suits_lines()) {
      const int reach = (geometry_->kernel_x - 1) / geometry_->stride_x;
      line_width_ =
          divide_up(geometry_->out_width, kernel.columns) * kernel.columns + reach + kernel.columns;
      reads_floats_ = request.may_read_floats && request.precision == Precision::kFp16;
    }
    pack_weights(request);
    if (kernel.repeats_bias && form == GemmForm::kTiles) repeat_bias(request.bias);
  }

  std::string_view isa() const override { return isa_; }
  std::string_view algorithm() const override {
    return form_ == GemmForm::kTiles ? "gemm" : "gemv";
  }
  bool reads_floats() const override { return reads_floats_; }
  std::size_t weight_bytes() const override {
    return weights_.size() + repeated_bias_.size() + constants_.bytes();
  }

  std::size_t scratch_bytes(int threads) const override {
    return constants_bytes() + static_cast<std::size_t>(threads) * thread_bytes(threads);
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const OutputStage stage = stage_for(call.dynamic_input, call.scratch);
    const int threads = pool.threads();
    const bool by_pixels = splits_pixels(threads);
    if (by_pixels && groups_ == 1 && !has_lines()) return share_pixels(call, stage, pool);
    const int units = by_pixels ? column_panels() : blocks_;
    // All groups' units in one row: a thread's share may end inside one group and begin in another.
    pool.parallel_for(groups_ * units, [&](int thread, int begin, int end) {
      GemmWork work = work_for(call, stage, thread, threads);
      while (begin < end) {
        const int group = begin / units;
        const int first = begin - group * units;
        const int last = std::min(units, first + end - begin);
        set_group(work, call, group);
        if (by_pixels) {
          work.column_begin = first * kernel_.columns;
          work.column_end = std::min(last * kernel_.columns, geometry_->pixels());
        } else {
          work.block_begin = first;
          work.block_end = last;
        }
        (form_ == GemmForm::kTiles ? kernel_.run : kernel_.run_vector)(work);
        begin += last - first;
      }
    });
  }

  // Fewer pixels than a vector has are summed up in another order.
  bool computes_rows() const override {
    return (has_lines() || (pointwise_ && width_ >= kernel_.lanes)) && groups_ == 1 &&
           form_ == GemmForm::kTiles && constants_.scratch_bytes() == 0;
  }
  bool reads_ring() const override { return !has_lines(); }

  void run_rows(const RowsCall& call) const override {
    const OutputStage stage = stage_for(nullptr, call.scratch);
    const ConvolutionCall whole{call.input.data, call.output.data, call.scratch, nullptr};
    GemmWork work = work_for(whole, stage, 0, 1);
    set_group(work, whole, 0);
    ConvolutionGeometry geometry = *geometry_;
    geometry.in_plane = call.input.plane;
    geometry.out_plane = call.output.plane;
    work.geometry = &geometry;
    if (has_lines()) return run_rows_of_lines(call, work);
    for_joined_rows(call, [&](int y, int rows) {
      work.input = call.input.row(y, width_, input_size_);
      work.output = call.output.row(y, width_, output_size_);
      const int pixels = rows * width_;
      const int panels = whole_panels(pixels);
      work.column_begin = call.first_of(panels) * kernel_.columns;
      work.column_end =
          call.end_of(panels) == panels ? pixels : call.end_of(panels) * kernel_.columns;
      if (work.column_begin < work.column_end) kernel_.run(work);
    });
  }

 private:
  // Threads share the panels of pixels, and those that are left by blocks of output channels.
  void share_pixels(const ConvolutionCall& call, const OutputStage& stage, ThreadPool& pool) const {
    const int threads = pool.threads();
    pool.parallel_for(threads, [&](int thread, int, int) {
      GemmWork work = work_for(call, stage, thread, threads);
      set_group(work, call, 0);
      for_share(column_panels(), blocks_, thread, threads,
                [&](int first, int last, int block_begin, int block_end) {
                  work.column_begin = first * kernel_.columns;
                  work.column_end = std::min(last * kernel_.columns, geometry_->pixels());
                  work.block_begin = block_begin;
                  work.block_end = block_end;
                  kernel_.run(work);
                });
    });
  }

  bool has_lines() const { return line_width_ > 0; }

  // From the whole input.
  void run_rows_of_lines(const RowsCall& call, GemmWork& work) const {
    for (int y = call.begin; y < call.end;) {
      const int rows = std::min(call.end - y, call.output.rows.together(y));
      work.output = call.output.origin(y, width_, output_size_);
      const int panels = whole_panels(width_);
      // The last panel of a row has the rest of it.
      const auto pixel = [&](int panel) {
        return (y + panel / panels) * width_ + panel % panels * kernel_.columns;
      };
      work.column_begin = pixel(call.first_of(rows * panels));
      work.column_end = pixel(call.end_of(rows * panels));
      if (work.column_begin < work.column_end) kernel_.run(work);
      y += rows;
    }
  }

  // A rest of few pixels belongs to the last panel: alone, it would be summed up in another order.
  int whole_panels(int pixels) const { return std::max(1, pixels / kernel_.columns); }

  int column_panels() const { return divide_up(geometry_->pixels(), kernel_.columns); }

  // Threads share the pixels, so that no pixel is packed twice, unless that would leave some of
  // them with much less to do than others.
  bool splits_pixels(int threads) const {
    if (form_ == GemmForm::kVector) return false;
    return threads == 1 || column_panels() >= 4 * threads || column_panels() >= blocks_;
  }

  bool suits_lines() const {
    if (!kernel_.takes_lines || form_ != GemmForm::kTiles || geometry_->taps() == 1 ||
        geometry_->dilation_y != 1 || geometry_->dilation_x != 1 || depth_ > depth_step_ ||
        geometry_->out_width < kernel_.columns) {
      return false;
    }
    const std::size_t weights = group_weights() * weight_size(kernel_.weights);
    if (depth_ <= kLineTerms && weights <= kLineWeightBytes) return true;
    return geometry_->stride_x > 1 && weights <= kStridedWeightBytes &&
           depth_ * kernel_.columns * kernel_.panel_bytes <= kLinePanelBytes;
  }

  void choose_steps(int panel_bytes) {
    if (form_ == GemmForm::kVector) {
      depth_step_ = depth_;
      return;
    }
    depth_step_ = std::min(depth_, kernel_.depth_step);
    const int panel = depth_step_ * kernel_.columns * kernel_.panel_bytes;
    const int panels = std::clamp(panel_bytes / panel, 1, column_panels());
    column_step_ = panels * kernel_.columns;
  }

  std::size_t constants_bytes() const { return round_up(constants_.scratch_bytes(), kCacheLine); }

  std::size_t panels_bytes() const {
    const auto depth = static_cast<std::size_t>(depth_step_);
    if (form_ == GemmForm::kVector) {
      return round_up(depth * (input_size_ + static_cast<std::size_t>(kernel_.panel_bytes)),
                      kCacheLine);
    }
    return round_up(depth * static_cast<std::size_t>(column_step_) *
                        static_cast<std::size_t>(kernel_.panel_bytes),
                    kCacheLine);
  }

  std::size_t multipliers_bytes() const {
    if (form_ == GemmForm::kVector) return 0;
    return round_up(static_cast<std::size_t>(depth_step_) *
                        static_cast<std::size_t>(block_rows_ * kernel_.multiplier_bytes),
                    kCacheLine);
  }

  // Sums that wait for the next step of depth; a thread that shares the rows has only its own.
  std::size_t sums_bytes(int threads) const {
    if (depth_step_ == depth_) return 0;
    const int blocks =
        splits_pixels(threads) || groups_ > 1 ? blocks_ : divide_up(blocks_, threads);
    return round_up(static_cast<std::size_t>(blocks) * static_cast<std::size_t>(block_rows_) *
                        static_cast<std::size_t>(column_step_) * sizeof(float),
                    kCacheLine);
  }

  std::size_t lines_bytes() const {
    const std::int64_t lines =
        std::int64_t{geometry_->channels} * geometry_->kernel_y * geometry_->stride_x;
    return round_up(static_cast<std::size_t>(lines * line_width_) * input_size_, kCacheLine);
  }

  std::size_t narrowed_bytes() const {
    if (!reads_floats_) return 0;
    return round_up(static_cast<std::size_t>(geometry_->in_width) * sizeof(Half), kCacheLine);
  }

  std::size_t thread_bytes(int threads) const {
    return panels_bytes() + multipliers_bytes() + sums_bytes(threads) + lines_bytes() +
           narrowed_bytes();
  }

  OutputStage stage_for(const ScaleAndZero* dynamic_input, std::byte* scratch) const {
    OutputStage stage = constants_.stage_for(dynamic_input, scratch);
    stage.repeated_bias = repeated_bias_.as<std::uint16_t>();
    return stage;
  }

  GemmWork work_for(const ConvolutionCall& call, const OutputStage& stage, int thread,
                    int threads) const {
    GemmWork work;
    work.geometry = &*geometry_;
    work.stage = &stage;
    work.rows = rows_;
    work.depth = depth_;
    work.block_end = blocks_;
    work.column_end = geometry_->pixels();
    work.column_step = column_step_;
    work.depth_step = depth_step_;
    work.panels =
        call.scratch + constants_bytes() + static_cast<std::size_t>(thread) * thread_bytes(threads);
    work.multipliers = work.panels + panels_bytes();
    work.sums = work.multipliers + multipliers_bytes();
    if (has_lines()) work.lines = work.sums + sums_bytes(threads);
    work.line_width = line_width_;
    if (reads_floats_) work.narrowed = work.lines + lines_bytes();
    return work;
  }

  void set_group(GemmWork& work, const ConvolutionCall& call, int group) const {
    const auto index = static_cast<std::size_t>(group);
    const auto in_values = static_cast<std::size_t>(geometry_->channels) *
                           static_cast<std::size_t>(geometry_->in_height) *
                           static_cast<std::size_t>(geometry_->in_width);
    const auto out_values =
        static_cast<std::size_t>(rows_) * static_cast<std::size_t>(geometry_->pixels());
    const std::size_t size = reads_floats_ ? sizeof(float) : input_size_;
    work.input = static_cast<const std::byte*>(call.input) + index * in_values * size;
    work.output = static_cast<std::byte*>(call.output) + index * out_values * output_size_;
    work.weights = weights_.data() + index * group_weights() * weight_size(kernel_.weights);
    work.first_channel = group * rows_;
    work.padding_value =
        static_cast<std::int8_t>(constants_.input_zero_point(call.dynamic_input, group));
  }

  std::size_t group_weights() const {
    return static_cast<std::size_t>(blocks_) * static_cast<std::size_t>(block_rows_) *
           static_cast<std::size_t>(depth_);
  }

  // Calls put(position, weight, channel) for every weight, the position counting packed weights.
  template <typename Put>
  void for_weights(const ConvolutionRequest& request, Put&& put) const {
    const std::int64_t unit = kernel_.depth_unit;
    const int taps = geometry_->taps();
    for (int channel = 0; channel < request.shape.out.channels; ++channel) {
      const float* weight = request.filter(channel).data();
      const int group = channel / rows_;
      const int block = channel % rows_ / block_rows_;
      const int row = channel % rows_ % block_rows_;
      const std::size_t start = static_cast<std::size_t>(group) * group_weights() +
                                static_cast<std::size_t>(block) *
                                    static_cast<std::size_t>(block_rows_) *
                                    static_cast<std::size_t>(depth_);
      for (int c = 0; c < geometry_->channels; ++c) {
        for (int tap = 0; tap < taps; ++tap) {
          const std::int64_t k = std::int64_t{tap} * geometry_->channels + c;
          const std::int64_t within = (k / unit * block_rows_ + row) * unit + k % unit;
          put(start + static_cast<std::size_t>(within), *weight++, channel);
        }
      }
    }
  }

  void pack_weights(const ConvolutionRequest& request) {
    weights_ = AlignedBuffer(static_cast<std::size_t>(groups_) * group_weights() *
                             weight_size(kernel_.weights));
    if (kernel_.weights == WeightFormat::kFloat) {
      auto* packed = weights_.as<float>();
      for_weights(request, [&](std::size_t i, float weight, int) { packed[i] = weight; });
    } else if (kernel_.weights == WeightFormat::kHalf) {
      auto* packed = weights_.as<Half>();
      for_weights(request,
                  [&](std::size_t i, float weight, int) { packed[i] = half_from_float(weight); });
    } else {
      auto* packed = weights_.as<std::int8_t>();
      std::vector<std::int32_t> totals(static_cast<std::size_t>(request.shape.out.channels));
      for_weights(request, [&](std::size_t i, float weight, int channel) {
        packed[i] = quantize_weight(weight, constants_.weight_scale(channel));
        totals[static_cast<std::size_t>(channel)] += packed[i];
      });
      for (int channel = 0; channel < request.shape.out.channels; ++channel) {
        constants_.set_weight_total(channel, totals[static_cast<std::size_t>(channel)]);
      }
    }
    constants_.finish(kernel_.input_offset);
  }

  // A last block may have more rows than there are channels.
  void repeat_bias(std::span<const float> bias) {
    const auto lanes = static_cast<std::size_t>(kernel_.lanes);
    const std::size_t channels = bias.size() + static_cast<std::size_t>(block_rows_);
    repeated_bias_ = AlignedBuffer(channels * lanes * sizeof(Half));
    auto* halves = repeated_bias_.as<Half>();
    for (const float value : bias) halves = std::fill_n(halves, lanes, half_from_float(value));
  }

  const GemmKernel& kernel_;
  const std::string_view isa_;
  const GemmForm form_;
  const std::size_t input_size_;
  const std::size_t output_size_;
  const int groups_;
  const int rows_;   // output channels of a group
  const int width_;  // of the output
  const bool pointwise_;
  GroupGeometry geometry_;
  OutputConstants constants_;
  AlignedBuffer weights_;        // [group][block][depth / unit][rows of a block][unit]
  AlignedBuffer repeated_bias_;  // [channel][lanes] halves, for kernels that load them so
  int block_rows_ = 0;
  int blocks_ = 0;
  int depth_ = 0;
  int depth_step_ = 0;
  int column_step_ = 0;
  int line_width_ = 0;  // 0: no lines
  bool reads_floats_ = false;
};

}  // namespace

std::unique_ptr<Convolution> make_gemm_convolution(const ConvolutionRequest& request,
                                                   const GemmKernel& kernel, std::string_view isa,
                                                   GemmForm form, bool small_scratch) {
  return std::make_unique<GemmConvolution>(request, kernel, isa, form, small_scratch);
}

}  // namespace mpe
