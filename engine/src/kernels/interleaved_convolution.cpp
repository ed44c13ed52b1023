#include "kernels/interleaved_convolution.h"

#include <algorithm>
#include <vector>

#include "kernels/aligned_buffer.h"
#include "kernels/geometry.h"
#include "kernels/output_constants.h"
#include "kernels/shares.h"
#include "kernels/sizes.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// Packed panels that a thread works on: they should stay in the second-level cache, of which the
// smallest board has 512 KiB for four cores.
constexpr int kPanelBytes = 192 * 1024;
constexpr int kSmallPanelBytes = 32 * 1024;
constexpr int kWordBytes = 4;
// With fewer for each thread, those that are left over are shared by blocks of output channels.
// They need another copy of their rows, which takes longer than what is gained where there are
// many.
constexpr int kFewPanels = 20;
// Of rows that are copied at once, where there is a choice.
constexpr std::size_t kMostStripBytes = 64 << 20;

ConvolutionGeometry geometry_of(const ConvolutionShape& shape) {
  ConvolutionGeometry geometry;
  geometry.channels = shape.in.channels;
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

class InterleavedConvolution final : public Convolution {
 public:
  InterleavedConvolution(const ConvolutionRequest& request, const InterleavedKernel& kernel,
                         std::string_view isa, const ConvolutionChoice& choice)
      : kernel_(kernel),
        isa_(isa),
        pool_(pools_by_sums(request)),
        rows_(request.shape.out.channels),
        output_size_(value_size(request.output_precision)),
        pointwise_(request.shape.pointwise()),
        blocks_(divide_up(rows_, kernel.rows)),
        geometry_(geometry_of(request.shape)),
        channel_words_(divide_up(geometry_.channels, kernel.unit)),
        depth_(channel_words_ * geometry_.taps()),
        panels_(divide_up(geometry_.pixels() / halves(), kernel.columns)),
        constants_(request) {
    for (int ky = 0; ky < geometry_.kernel_y; ++ky) {
      for (int kx = 0; kx < geometry_.kernel_x; ++kx) {
        const std::int64_t row = std::int64_t{ky} * geometry_.dilation_y;
        const int column = kx * geometry_.dilation_x;
        tap_offsets_.push_back(to_int(row * row_words() +
                                      column % geometry_.stride_x * phase_words() +
                                      column / geometry_.stride_x));
      }
    }
    int panel_bytes = choice.small_scratch ? kSmallPanelBytes : kPanelBytes;
    choose_steps(panel_bytes);
    while (panel_bytes > kSmallPanelBytes && scratch_bytes(choice.threads) > choice.scratch_bytes) {
      panel_bytes /= 2;
      choose_steps(panel_bytes);
    }
    pack_weights(request);
  }

  std::string_view isa() const override { return isa_; }
  std::string_view algorithm() const override { return "interleaved"; }
  std::size_t weight_bytes() const override { return weights_.size() + constants_.bytes(); }
  bool pools() const override { return pool_; }

  std::size_t scratch_bytes(int threads) const override {
    return constants_bytes() + static_cast<std::size_t>(threads) * thread_bytes(threads);
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const OutputStage stage = constants_.stage_for(call.dynamic_input, call.scratch);
    InterleavedWork work = work_for(stage, call.dynamic_input);
    work.geometry = &geometry_;
    work.input = static_cast<const std::int8_t*>(call.input);
    work.output = call.output;
    const int threads = pool.threads();
    const auto work_of = [&](int thread) {
      InterleavedWork mine = work;
      set_scratch(mine, call.scratch + constants_bytes() +
                            static_cast<std::size_t>(thread) * thread_bytes(threads));
      return mine;
    };
    const bool by_pixels = splits_pixels(threads);
    if (by_pixels && panels_ < kFewPanels * threads) {
      pool.parallel_for(threads, [&](int thread, int, int) {
        InterleavedWork mine = work_of(thread);
        for_share(panels_, blocks_, thread, threads,
                  [&](int first, int last, int block_begin, int block_end) {
                    mine.panel_begin = first;
                    mine.panel_end = last;
                    mine.block_begin = block_begin;
                    mine.block_end = block_end;
                    kernel_.run(mine);
                  });
      });
      return;
    }
    pool.parallel_for(by_pixels ? panels_ : blocks_, [&](int thread, int begin, int end) {
      if (begin == end) return;
      InterleavedWork mine = work_of(thread);
      (by_pixels ? mine.panel_begin : mine.block_begin) = begin;
      (by_pixels ? mine.panel_end : mine.block_end) = end;
      kernel_.run(mine);
    });
  }

  bool computes_rows() const override {
    return pointwise_ && !pool_ && constants_.scratch_bytes() == 0;
  }

  void run_rows(const RowsCall& call) const override {
    const OutputStage stage = constants_.stage_for(nullptr, call.scratch);
    InterleavedWork work = work_for(stage, nullptr);
    ConvolutionGeometry geometry = geometry_;
    geometry.in_plane = call.input.plane;
    geometry.out_plane = call.output.plane;
    work.geometry = &geometry;
    set_scratch(work, call.scratch);
    for_joined_rows(call, [&](int y, int rows) {
      work.input = reinterpret_cast<const std::int8_t*>(call.input.row(y, geometry.in_width, 1));
      work.output = call.output.row(y, geometry.out_width, output_size_);
      geometry.in_height = geometry.out_height = rows;
      const int panels = divide_up(geometry.pixels(), kernel_.columns);
      work.panel_begin = call.first_of(panels);
      work.panel_end = call.end_of(panels);
      if (work.panel_begin < work.panel_end) kernel_.run(work);
    });
  }

 private:
  InterleavedWork work_for(const OutputStage& stage, const ScaleAndZero* dynamic_input) const {
    InterleavedWork work;
    work.stage = &stage;
    work.weights = weights_.data();
    work.pool = pool_;
    work.packs_pixels = packs_pixels();
    work.rows = rows_;
    work.channel_words = channel_words_;
    work.depth = depth_;
    work.depth_step = depth_step_;
    work.block_end = blocks_;
    work.block_step = block_step_;
    work.panel_end = panels_;
    work.panel_step = panel_step_;
    work.row_words = row_words();
    work.phase_words = phase_words();
    work.tap_offsets = tap_offsets_.data();
    work.padding_value = static_cast<std::int8_t>(constants_.input_zero_point(dynamic_input, 0));
    return work;
  }

  void set_scratch(InterleavedWork& work, std::byte* scratch) const {
    work.strip = scratch;
    work.panels = work.strip + strip_bytes();
    work.multipliers = work.panels + panels_bytes();
    work.sums = work.multipliers + multipliers_bytes();
  }

  int halves() const { return pool_ ? 2 : 1; }
  bool packs_pixels() const { return kernel_.packs_pixels && pointwise_ && !pool_; }

  // Threads share the pixels, so that no pixel is packed twice, unless that would leave some of
  // them with much less to do than others.
  bool splits_pixels(int threads) const {
    return threads == 1 || panels_ >= 4 * threads || panels_ >= blocks_;
  }

  // Steps of about the same size.
  void choose_steps(int panel_bytes) {
    depth_step_ = divide_up(depth_, divide_up(depth_, kernel_.depth_step));
    const int block =
        depth_step_ * kernel_.rows *
        (kernel_.multiplier_bytes > 0 ? kernel_.unit * kernel_.multiplier_bytes : kernel_.unit);
    block_step_ = std::clamp(kernel_.block_bytes / block, 1, blocks_);
    const int panel = depth_step_ * kernel_.columns * kWordBytes * halves();
    panel_step_ = std::clamp(panel_bytes / panel, 1, panels_);
    while (panel_step_ > 1 && strip_bytes() > kMostStripBytes) {
      panel_step_ = divide_up(panel_step_, 2);
    }
    to_int(static_cast<std::int64_t>(strip_bytes() / kWordBytes));
  }

  // From the first to the last column that a tap reads.
  int reach() const { return (geometry_.kernel_x - 1) * geometry_.dilation_x + 1; }
  int phase_words() const {
    return to_int(std::int64_t{geometry_.out_width} + (reach() - 1) / geometry_.stride_x);
  }
  // Columns that no tap reads are left out.
  int row_words() const {
    return to_int(std::int64_t{phase_words()} * std::min(geometry_.stride_x, reach()));
  }

  std::size_t constants_bytes() const { return round_up(constants_.scratch_bytes(), kCacheLine); }
  std::size_t strip_bytes() const {
    if (packs_pixels()) return 0;
    const int columns = std::min(panel_step_ * kernel_.columns, geometry_.pixels() / halves());
    const int rows = interleaved_rows(geometry_, columns, halves());
    const auto words = static_cast<std::size_t>(channel_words_) *
                       static_cast<std::size_t>(interleaved_plane(rows, row_words()));
    // Pieces of panels are read as long as a whole one.
    return words + round_up(static_cast<std::size_t>(kernel_.columns * kWordBytes), kCacheLine);
  }
  // With a row of words to spare, as panels are packed in pieces of whole rows.
  std::size_t panels_bytes() const {
    const int rows = depth_step_ * panel_step_ * halves() + 1;
    return round_up(
        static_cast<std::size_t>(rows) * static_cast<std::size_t>(kernel_.columns) * kWordBytes,
        kCacheLine);
  }
  std::size_t multipliers_bytes() const {
    return round_up(
        static_cast<std::size_t>(depth_step_) * static_cast<std::size_t>(block_step_) *
            static_cast<std::size_t>(kernel_.rows * kernel_.unit * kernel_.multiplier_bytes),
        kCacheLine);
  }
  // Sums that wait for the next step of depth; a thread that shares the rows has only its own.
  std::size_t sums_bytes(int threads) const {
    if (depth_step_ == depth_) return 0;
    const int blocks = splits_pixels(threads) ? blocks_ : divide_up(blocks_, threads);
    return static_cast<std::size_t>(blocks) * static_cast<std::size_t>(kernel_.rows) *
           static_cast<std::size_t>(panel_step_) *
           static_cast<std::size_t>(halves() * kernel_.columns) * sizeof(std::int32_t);
  }
  std::size_t thread_bytes(int threads) const {
    return round_up(strip_bytes() + panels_bytes() + multipliers_bytes() + sums_bytes(threads),
                    kCacheLine);
  }

  void pack_weights(const ConvolutionRequest& request) {
    const auto unit = static_cast<std::size_t>(kernel_.unit);
    const auto block_rows = static_cast<std::size_t>(kernel_.rows);
    const auto words = static_cast<std::size_t>(channel_words_);
    const auto taps = static_cast<std::size_t>(geometry_.taps());
    weights_ = AlignedBuffer(static_cast<std::size_t>(blocks_) * static_cast<std::size_t>(depth_) *
                             block_rows * unit);
    auto* packed = weights_.as<std::int8_t>();
    for (int channel = 0; channel < rows_; ++channel) {
      const float* weight = request.filter(channel).data();
      const auto row = static_cast<std::size_t>(channel);
      const std::size_t start = row / block_rows * static_cast<std::size_t>(depth_);
      std::int32_t total = 0;
      std::int32_t positive = 0;
      for (std::size_t c = 0; c < static_cast<std::size_t>(geometry_.channels); ++c) {
        for (std::size_t tap = 0; tap < taps; ++tap) {
          const std::size_t word = start + tap * words + c / unit;
          const std::int8_t value = quantize_weight(*weight++, constants_.weight_scale(channel));
          packed[(word * block_rows + row % block_rows) * unit + c % unit] = value;
          total += value;
          positive += std::max<std::int32_t>(value, 0);
        }
      }
      constants_.set_weight_total(channel, total);
      constants_.set_positive_total(channel, positive);
    }
    constants_.finish(kernel_.input_offset);
  }

  const InterleavedKernel& kernel_;
  const std::string_view isa_;
  const bool pool_;
  const int rows_;
  const std::size_t output_size_;
  const bool pointwise_;
  const int blocks_;
  const ConvolutionGeometry geometry_;
  const int channel_words_;
  const int depth_;   // words
  const int panels_;  // or pairs of panels
  std::vector<std::int32_t> tap_offsets_;
  OutputConstants constants_;
  AlignedBuffer weights_;  // [block][word][rows of a block][unit]
  int depth_step_ = 0;
  int block_step_ = 0;
  int panel_step_ = 0;
};

}  // namespace

bool suits_interleaved(const ConvolutionShape& shape) {
  return shape.groups == 1 && (shape.out.height > 1 || shape.out.width > 1) &&
         padded_rows_fit(shape, shape.in.channels);
}

std::unique_ptr<Convolution> make_interleaved_convolution(const ConvolutionRequest& request,
                                                          const InterleavedKernel& kernel,
                                                          std::string_view isa,
                                                          const ConvolutionChoice& choice) {
  return std::make_unique<InterleavedConvolution>(request, kernel, isa, choice);
}

}  // namespace mpe
