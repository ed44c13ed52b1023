#include "kernels/winograd_convolution.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <numeric>

#include "kernels/aligned_buffer.h"
#include "kernels/geometry.h"
#include "kernels/output_constants.h"
#include "kernels/shares.h"
#include "kernels/sizes.h"
#include "kernels/winograd_tiles.h"
#include "kernels/winograd_weights.h"

namespace mpe {
namespace {

constexpr std::size_t kSmallBlockBytes = 256U << 10U;
constexpr double kAboutEqual = 1.1;  // costs of two plans, where scratch should be small

// Whether an operation between floating-point numbers of this thread has exceeded its type's range:
// the processor keeps this flag, so that watching costs nothing. The operations have to be behind a
// call that the compiler cannot see through, as kernels are.
class OverflowWatch {
 public:
  OverflowWatch() : before_(std::fetestexcept(FE_OVERFLOW)) { std::feclearexcept(FE_OVERFLOW); }
  ~OverflowWatch() {
    if (before_ != 0) std::feraiseexcept(FE_OVERFLOW);
  }
  OverflowWatch(const OverflowWatch&) = delete;
  OverflowWatch& operator=(const OverflowWatch&) = delete;
  bool overflowed() const { return std::fetestexcept(FE_OVERFLOW) != 0; }

 private:
  const int before_;
};

// Of blocks so small that the rows which come and go stay in the cache beside them.
WinogradPlan plan_of_rows(const ConvolutionShape& shape, const WinogradKernel& kernel,
                          WinogradPlan plan, int threads) {
  if (plan.of_image) return plan;
  const std::size_t most = usable_second_bytes(threads) / 3;
  const int step = kernel.lanes * kernel.vectors;
  if (plan.tiles > step) plan.tiles = plan.tiles / step * step;
  for (; plan.tiles > step; plan.tiles -= step) {
    const WinogradBlock block = winograd_block(shape, kernel, plan, 1);
    if (block.panel_bytes + block.sum_bytes <= most) break;
  }
  return plan;
}

class WinogradConvolution final : public Convolution {
 public:
  WinogradConvolution(const ConvolutionRequest& request, const WinogradKernel& kernel,
                      std::string_view isa, const WinogradPlan& plan, int threads)
      : kernel_(kernel),
        isa_(isa),
        form_(*plan.form),
        pool_(request.may_pool && form_.pools()),
        reads_floats_(request.may_read_floats && plan.of_image &&
                      kernel.transform_float_image != nullptr),
        shape_(request.shape),
        output_size_(value_size(request.output_precision)),
        rows_(request.shape.out.channels),
        blocks_(divide_up(rows_, kernel.rows)),
        tiles_x_(divide_up(request.shape.out.width, form_.tile)),
        tiles_(tiles_x_ * divide_up(request.shape.out.height, form_.tile)),
        plan_(plan),
        row_plan_(plan_of_rows(request.shape, kernel, plan, threads)),
        block_(winograd_block(request.shape, kernel, plan, 1)),
        row_block_(winograd_block(request.shape, kernel, row_plan_, 1)),
        transformed_stride_(static_cast<std::int64_t>(winograd_transformed_stride(kernel, plan))),
        multiplier_bytes_(winograd_multiplier_bytes(kernel, plan)),
        geometry_(request.shape),
        constants_(request),
        weights_(pack_winograd_weights(request, kernel, plan)) {
    constants_.finish(0);
  }

  bool holds_weights() const { return weights_.in_range; }

  std::string_view isa() const override { return isa_; }
  std::string_view algorithm() const override {
    if (form_.tile == 2) return on_the_fly() ? "winograd2-on-the-fly" : "winograd2";
    if (form_.tile == 4) return on_the_fly() ? "winograd4-on-the-fly" : "winograd4";
    return on_the_fly() ? "winograd5-on-the-fly" : "winograd5";
  }
  bool pools() const override { return pool_; }
  bool reads_floats() const override { return reads_floats_; }
  std::size_t weight_bytes() const override { return weights_.bytes() + constants_.bytes(); }

  std::size_t scratch_bytes(int threads) const override {
    const auto count = static_cast<std::size_t>(threads);
    const std::size_t own = count * thread_bytes(block_for(threads));
    if (on_the_fly()) return own + block_.panel_bytes;
    const auto blocks = static_cast<std::size_t>(
        plan_.of_image ? threads : winograd_blocks_at_once(block_count(), threads));
    return blocks * (block_.panel_bytes + block_.sum_bytes) + own;
  }

  // A single tile that is left over is summed up in another order: blocks are whole vectors or
  // whole rows of tiles, whose numbers should have a common divisor.
  bool computes_rows() const override {
    const bool may_leave_single =
        kernel_.takes_single && !plan_.of_image && std::gcd(tiles_x_, kernel_.lanes) == 1;
    return !on_the_fly() && !may_leave_single && constants_.scratch_bytes() == 0;
  }
  int row_step() const override { return pool_ ? form_.tile / 2 : form_.tile; }
  std::size_t row_scratch_bytes() const override {
    return thread_bytes(row_block_) + row_block_.panel_bytes + row_block_.sum_bytes;
  }

  void run_rows(const RowsCall& call) const override {
    const OutputStage stage = constants_.stage_for(nullptr, call.scratch);
    const ConvolutionCall whole{call.input.data, call.output.data, call.scratch, nullptr};
    ConvolutionGeometry geometry = *geometry_;
    geometry.in_plane = call.input.plane;
    geometry.out_plane = call.output.plane * (pool_ ? 4 : 1);
    const int width = geometry.out_width / (pool_ ? 2 : 1);
    WinogradWork work = work_of(whole, stage, row_block_, 0, 1);
    work.geometry = &geometry;
    work.in_rows = call.input.rows;
    for (int y = call.begin; y < call.end;) {
      const int rows = std::min(call.end - y, call.output.rows.together(y));
      work.output = call.output.origin(y, width, output_size_);
      run_tiles(work, call, tiles_x_ * (y / row_step()),
                tiles_x_ * divide_up(y + rows, row_step()));
      y += rows;
    }
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const OutputStage stage = constants_.stage_for(call.dynamic_input, call.scratch);
    const int threads = pool.threads();
    const auto work_for = [&](int thread, int block, bool smaller) {
      WinogradWork work = work_of(call, stage, block_for(threads), thread, threads);
      work.tile_begin = block * plan_.tiles;
      work.tile_count = std::min(plan_.tiles, tiles_ - work.tile_begin);
      if (smaller) work.unscales = weights_.unscales_of_smaller.data();
      return work;
    };
    if (splits_blocks(threads)) {
      pool.parallel_for(block_count(), [&](int thread, int begin, int end) {
        for (int block = begin; block < end; ++block) {
          run_block_watched(work_for(thread, block, false));
        }
      });
      return;
    }
    for (int block = 0; block < block_count(); ++block) {
      const auto of_thread = [&](bool smaller) {
        return [&, smaller](int thread) { return work_for(thread, block, smaller); };
      };
      if (share_block(of_thread(false), false, pool)) share_block(of_thread(true), true, pool);
    }
  }

 private:
  // The call's part of some tiles, by blocks of about the same size.
  void run_tiles(WinogradWork& work, const RowsCall& call, int begin, int end) const {
    const int all = divide_up(end - begin, kernel_.lanes);
    const int vectors = call.end_of(all) - call.first_of(all);
    const int blocks = divide_up(vectors, row_block_.panel_stride / kernel_.lanes);
    for (int block = 0; block < blocks; ++block) {
      const int first = call.first_of(all) + vectors * block / blocks;
      const int last = call.first_of(all) + vectors * (block + 1) / blocks;
      work.tile_begin = begin + first * kernel_.lanes;
      work.tile_count = std::min(begin + last * kernel_.lanes, end) - work.tile_begin;
      run_block_watched(work);
    }
  }

  // Again with a smaller input where it has overflowed.
  void run_block_watched(WinogradWork work) const {
    if (!may_overflow()) return run_block(work, false);
    const OverflowWatch watch;
    run_block(work, false);
    if (!watch.overflowed()) return;
    work.unscales = weights_.unscales_of_smaller.data();
    run_block(work, true);
  }

  // `smaller`: with an input times kSmallerInput.
  void run_block(const WinogradWork& work, bool smaller) const {
    transform_input(work, smaller);
    if (plan_.of_image) return kernel_.convolve_image(chunk_of(work, 0));
    for (int first = 0; first < blocks_; first += plan_.chunk_blocks) {
      const WinogradWork chunk = chunk_of(work, first);
      kernel_.multiply(chunk);
      kernel_.transform_output[form_.index](chunk);
    }
  }

  // The same by all threads together; whether anything has overflowed.
  template <typename WorkOf>
  bool share_block(const WorkOf& work_of_thread, bool smaller, ThreadPool& pool) const {
    std::atomic<bool> overflowed = false;
    const auto share = [&](int count, const auto& body) {
      pool.parallel_for(count, [&](int thread, int begin, int end) {
        if (!may_overflow()) return body(thread, begin, end);
        const OverflowWatch watch;
        body(thread, begin, end);
        if (watch.overflowed()) overflowed = true;
      });
    };
    if (plan_.by_slices) {
      share_slices(work_of_thread, smaller, pool.threads(), share);
      return overflowed;
    }
    share(geometry_->channels, [&](int thread, int begin, int end) {
      WinogradWork work = work_of_thread(thread);
      work.channel_begin = begin;
      work.channel_end = end;
      transform_input(work, smaller);
    });
    if (on_the_fly()) {
      const int threads = pool.threads();
      share(threads,
            [&](int thread, int, int) { run_part(work_of_thread(thread), thread, threads); });
      return overflowed;
    }
    for (int first = 0; first < blocks_; first += plan_.chunk_blocks) {
      const WinogradWork chunk = chunk_of(work_of_thread(0), first);
      share(chunk.unit_end, [&](int thread, int begin, int end) {
        WinogradWork work = chunk_of(work_of_thread(thread), first);
        work.unit_begin = begin;
        work.unit_end = end;
        kernel_.multiply(work);
      });
      share(chunk.row_end - first * kernel_.rows, [&](int thread, int begin, int end) {
        WinogradWork work = chunk_of(work_of_thread(thread), first);
        work.row_end = work.row_begin + end;
        work.row_begin += begin;
        kernel_.transform_output[form_.index](work);
      });
    }
    return overflowed;
  }

  // On the fly, by slices of the input's channels: while some are multiplied, the next ones are
  // transformed.
  template <typename WorkOf, typename Share>
  void share_slices(const WorkOf& work_of_thread, bool smaller, int threads,
                    const Share& share) const {
    const int steps = divide_up(geometry_->channels, plan_.depth_step);
    const int all = divide_up(blocks_, plan_.chunk_blocks) * steps;
    // Of the slices of all chunks, one after the other.
    const auto slice_of = [&](int thread, int slice) {
      WinogradWork work = work_of_thread(thread);
      work.panels += slice % 2 == 0 ? 0 : block_.slice_bytes;
      work.panel_channel = slice % steps * plan_.depth_step;
      work.channel_begin = work.panel_channel;
      work.channel_end = std::min(work.channel_begin + plan_.depth_step, geometry_->channels);
      return work;
    };
    const auto transform = [&](int thread, int slice) {
      WinogradWork work = slice_of(thread, slice);
      const int begin = work.channel_begin;
      const int count = work.channel_end - begin;
      work.channel_begin = begin + count * thread / threads;
      work.channel_end = begin + count * (thread + 1) / threads;
      transform_input(work, smaller);
    };
    share(threads, [&](int thread, int, int) { transform(thread, 0); });
    for (int slice = 0; slice < all; ++slice) {
      share(threads, [&](int thread, int, int) {
        if (slice + 1 < all) transform(thread, slice + 1);
        multiply_slice(slice_of(thread, slice), slice / steps * plan_.chunk_blocks, thread,
                       threads);
      });
    }
  }

  // A part of the chunk that begins with a block, with sums of its own until the last slice.
  void multiply_slice(const WinogradWork& work, int first, int part, int parts) const {
    const int count = std::min(plan_.chunk_blocks, blocks_ - first);
    const int vectors = divide_up(work.tile_count, kernel_.lanes);
    std::int64_t row = 0;  // of the sums
    for_share(count, vectors, part, parts, [&](int begin, int end, int vector, int last) {
      WinogradWork share =
          vectors_of(blocks_of(work, first + begin, end - begin), vector, last - vector);
      share.sums += row * work.sum_stride * kernel_.sum_bytes;
      kernel_.multiply_on_the_fly[form_.index](share);
      if (work.channel_end == geometry_->channels) kernel_.transform_output[form_.index](share);
      row += (end - begin) * kernel_.rows;
    });
  }

  // On the fly: one of so many parts of every chunk, of its blocks of output channels, and of the
  // tiles of those that are left.
  void run_part(const WinogradWork& work, int part, int parts) const {
    const int vectors = divide_up(work.tile_count, kernel_.lanes);
    for (int first = 0; first < blocks_; first += plan_.chunk_blocks) {
      const int count = std::min(plan_.chunk_blocks, blocks_ - first);
      for_share(count, vectors, part, parts, [&](int begin, int end, int vector, int last) {
        const WinogradWork blocks = blocks_of(work, first + begin, end - begin);
        run_on_the_fly(vectors_of(blocks, vector, last - vector));
      });
    }
  }

  void run_on_the_fly(const WinogradWork& work) const {
    kernel_.multiply_on_the_fly[form_.index](work);
    kernel_.transform_output[form_.index](work);
  }

  void transform_input(const WinogradWork& work, bool smaller) const {
    if (reads_floats_) {
      return smaller ? kernel_.transform_smaller_float_image(work)
                     : kernel_.transform_float_image(work);
    }
    const auto& transforms = smaller ? kernel_.transform_smaller_input : kernel_.transform_input;
    transforms[form_.index](work);
  }

  bool on_the_fly() const { return plan_.transformed_blocks > 0; }
  bool may_overflow() const { return !weights_.unscales.empty(); }
  int block_count() const { return divide_up(tiles_, plan_.tiles); }

  bool splits_blocks(int threads) const {
    if (on_the_fly()) return false;
    if (plan_.of_image) return true;
    return threads == 1 || winograd_blocks_at_once(block_count(), threads) > 1;
  }

  // On the fly every thread has sums of its own.
  std::size_t thread_bytes(const WinogradBlock& block) const {
    return multiplier_bytes_ + block.line_bytes + (on_the_fly() ? block.sum_bytes : 0);
  }

  WinogradBlock block_for(int threads) const {
    return on_the_fly() ? winograd_block(shape_, kernel_, plan_, threads) : block_;
  }

  WinogradWork work_of(const ConvolutionCall& call, const OutputStage& stage,
                       const WinogradBlock& block, int thread, int threads) const {
    const auto index = static_cast<std::size_t>(thread);
    const bool shared = !splits_blocks(threads);
    WinogradWork work;
    work.geometry = &*geometry_;
    work.stage = &stage;
    work.input = call.input;
    work.in_rows.count = geometry_->in_height;
    work.weights = weights_.values.data();
    work.output = call.output;
    work.unscales = weights_.unscales.data();
    work.pool = pool_;
    work.depth = geometry_->channels;
    work.blocks = blocks_;
    work.depth_step = plan_.depth_step;
    work.tiles_x = tiles_x_;
    work.channel_end = geometry_->channels;
    work.form = &form_;
    work.panel_stride = block.panel_stride;
    work.value_stride = block.value_stride;
    work.sum_stride = block.sum_stride;
    work.sum_position = block.sum_position;
    work.line_width = block.line_width;
    work.transformed_blocks = plan_.transformed_blocks;
    work.transformed_stride = transformed_stride_;
    const std::size_t own = thread_bytes(block);
    work.multipliers = call.scratch + index * own;
    work.lines = work.multipliers + multiplier_bytes_;
    work.panels = call.scratch + static_cast<std::size_t>(threads) * own +
                  (shared ? 0 : index) * (block.panel_bytes + block.sum_bytes);
    work.sums = on_the_fly() ? work.lines + block.line_bytes : work.panels + block.panel_bytes;
    return work;
  }

  WinogradWork chunk_of(const WinogradWork& work, int first) const {
    return blocks_of(work, first, std::min(plan_.chunk_blocks, blocks_ - first));
  }

  // The products and outputs of some blocks of output channels.
  WinogradWork blocks_of(WinogradWork work, int first, int count) const {
    work.chunk_blocks = count;
    work.first_row = first * kernel_.rows;
    work.unit_end = form_.all_values() * count;
    work.row_begin = work.first_row;
    work.row_end = std::min(rows_, (first + count) * kernel_.rows);
    return work;
  }

  // Some vectors of tiles of the block.
  WinogradWork vectors_of(WinogradWork work, int first, int count) const {
    const int tile = first * kernel_.lanes;
    work.panels += tile * kernel_.panel_bytes;
    work.tile_begin += tile;
    work.tile_count = std::min(count * kernel_.lanes, work.tile_count - tile);
    return work;
  }

  const WinogradKernel& kernel_;
  const std::string_view isa_;
  const WinogradForm& form_;
  const bool pool_;
  const bool reads_floats_;
  const ConvolutionShape shape_;
  const std::size_t output_size_;
  const int rows_;
  const int blocks_;  // of rows
  const int tiles_x_;
  const int tiles_;
  const WinogradPlan plan_;
  const WinogradPlan row_plan_;
  const WinogradBlock block_;
  const WinogradBlock row_block_;
  const std::int64_t transformed_stride_;
  const std::size_t multiplier_bytes_;
  GroupGeometry geometry_;
  OutputConstants constants_;
  const WinogradWeights weights_;
};

}  // namespace

WinogradPlan choose_winograd(const ConvolutionShape& shape, const WinogradKernel& kernel,
                             const WinogradForm& form, bool on_the_fly,
                             const ConvolutionChoice& choice) {
  if (on_the_fly) {
    return plan_winograd_on_the_fly(shape, kernel, form, choice.scratch_bytes, choice.threads,
                                    choice.small_scratch ? kAboutEqual : 1.0);
  }
  const std::size_t bytes = choice.small_scratch ? kSmallBlockBytes : choice.scratch_bytes;
  return plan_winograd(shape, kernel, form, bytes, choice.threads);
}

std::unique_ptr<Convolution> make_winograd_convolution(const ConvolutionRequest& request,
                                                       const WinogradKernel& kernel,
                                                       std::string_view isa,
                                                       const WinogradPlan& plan, int threads) {
  auto convolution = std::make_unique<WinogradConvolution>(request, kernel, isa, plan, threads);
  if (!convolution->holds_weights()) return nullptr;
  return convolution;
}

}  // namespace mpe
