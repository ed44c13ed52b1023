#include "kernels/winograd_convolution.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "half.h"
#include "kernels/aligned_buffer.h"
#include "kernels/geometry.h"
#include "kernels/output_constants.h"
#include "kernels/shares.h"
#include "kernels/sizes.h"
#include "kernels/winograd_tiles.h"

namespace mpe {
namespace {

constexpr std::size_t kSmallBlockBytes = 256U << 10U;
constexpr double kAboutEqual = 1.1;  // costs of two plans, where scratch should be small
constexpr std::size_t kTaps = 9;

// A weight in the transforms: in float, by the same operations as in the kernels that transform on
// the fly, so that both have the same bits.
struct Weight {
  float value = 0.0F;
  Weight() = default;
  explicit Weight(float v) : value(v) {}
};
Weight operator+(Weight a, Weight b) { return Weight(a.value + b.value); }
Weight operator-(Weight a, Weight b) { return Weight(a.value - b.value); }
Weight operator*(Weight a, Weight b) { return Weight(a.value * b.value); }
Weight multiply_add(Weight sum, Weight a, Weight b) {
  return Weight(std::fma(a.value, b.value, sum.value));
}

// G g G^T: a kernel's values at every position of a tile.
template <typename Tiles>
void transform_weights(const float* weights, float* transformed) {
  constexpr int kInput = Tiles::kInput;
  Weight columns[3][kInput];
  for (int x = 0; x < 3; ++x) {
    const Weight taps[3] = {Weight(weights[x]), Weight(weights[3 + x]), Weight(weights[6 + x])};
    Tiles::transform_weights(taps, columns[x]);
  }
  for (int a = 0; a < kInput; ++a) {
    const Weight taps[3] = {columns[0][a], columns[1][a], columns[2][a]};
    Weight values[kInput];
    Tiles::transform_weights(taps, values);
    for (int b = 0; b < kInput; ++b) transformed[a * kInput + b] = values[b].value;
  }
}

// The largest magnitude that a value can have, computed by the transforms themselves.
struct Magnitude {
  double value = 0.0;
  Magnitude() = default;
  explicit Magnitude(double v) : value(std::abs(v)) {}
};
Magnitude operator+(Magnitude a, Magnitude b) { return Magnitude(a.value + b.value); }
Magnitude operator-(Magnitude a, Magnitude b) { return Magnitude(a.value + b.value); }
Magnitude operator*(Magnitude a, Magnitude b) { return Magnitude(a.value * b.value); }
Magnitude multiply_add(Magnitude sum, Magnitude a, Magnitude b) { return sum + a * b; }
void settle(Magnitude&) {}

// How large anything can become while outputs are computed from inputs of magnitude 1, whatever
// their signs: `totals` are the sums over the channels of the magnitudes of the transformed
// weights, of every value of a tile. No intermediate of the output's transform exceeds the largest
// output, as every sum takes part in one of them with a factor of at least 1.
template <typename Tiles>
double largest_output(const std::vector<double>& totals) {
  constexpr int kInput = Tiles::kInput;
  constexpr int kTile = Tiles::kOutput;
  Magnitude ones[kInput];
  for (Magnitude& one : ones) one = Magnitude(1.0);
  Magnitude input[kInput];
  Tiles::transform_input(ones, input);
  Magnitude sums[Tiles::kPositions * Tiles::kPositions];
  for (int a = 0; a < kInput; ++a) {
    for (int b = 0; b < kInput; ++b) {
      const Magnitude total(totals[static_cast<std::size_t>(a * kInput + b)]);
      Magnitude& sum = sums[winograd_value<Tiles>(a, b).position];
      sum = sum + total * input[a] * input[b];
    }
  }
  const auto load = [&](auto column, Magnitude(&values)[Tiles::kPositions]) {
    for (int i = 0; i < Tiles::kPositions; ++i) {
      values[i] = sums[i * Tiles::kPositions + column.value];
    }
  };
  Magnitude output[kTile][kTile];
  Tiles::transform_output(load, output);
  double largest = 0.0;
  for (const auto& row : output) {
    for (const Magnitude& value : row) largest = std::max(largest, value.value);
  }
  return largest;
}

// The bound: with inputs up to this magnitude, whatever their signs, no transformed input, sum or
// output before it is unscaled exceeds a half's range. A larger bound would make small values less
// accurate, because their sums would be subnormal halves: with this one, errors grow where the
// largest input is below 2^-6. Larger inputs can exceed the range; the processor tells when one
// has. The block of tiles is then computed again with an input times kSmallerInput.
constexpr double kLargestInput = 256.0;
static_assert(65504.0 * kSmallerInput <= kLargestInput);
// Of a half's 65,504, as rounding may add to a sum.
constexpr double kLargestHalf = 57344.0;
template <typename Value>
constexpr float kLargestOnTheFly =
    std::is_same_v<Value, Half> ? static_cast<float>(kLargestHalf)
                                : std::numeric_limits<float>::max() / 2;
// A power of two that is a half. Where an output would need a larger one, its sum is below 2, of a
// sum of magnitudes of half of kLargestHalf or more: nothing but rounding errors.
constexpr float kLargestUnscale = 0x1p15F;

// By which power of two an output channel's weights are multiplied.
double scale_of(double largest_output) {
  const double room = kLargestHalf / (kLargestInput * largest_output);
  if (!std::isfinite(room)) return 1.0;
  return std::exp2(std::clamp(std::floor(std::log2(room)), -24.0, 24.0));
}

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
        constants_(request) {
    pack_weights(request);
  }

  // Whether the transformed weights, which may be more than twice as large as the largest weight,
  // and the factors that undo their scale are within the range of their types.
  bool holds_weights() const { return holds_weights_; }

  std::string_view isa() const override { return isa_; }
  std::string_view algorithm() const override {
    if (form_.tile == 2) return on_the_fly() ? "winograd2-on-the-fly" : "winograd2";
    if (form_.tile == 4) return on_the_fly() ? "winograd4-on-the-fly" : "winograd4";
    return on_the_fly() ? "winograd5-on-the-fly" : "winograd5";
  }
  bool pools() const override { return pool_; }
  bool reads_floats() const override { return reads_floats_; }
  std::size_t weight_bytes() const override {
    return weights_.size() + constants_.bytes() +
           (unscales_.size() + unscales_of_smaller_.size()) * sizeof(float);
  }

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
      if (smaller) work.unscales = unscales_of_smaller_.data();
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
    work.unscales = unscales_of_smaller_.data();
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
  bool may_overflow() const { return !unscales_.empty(); }
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
    work.weights = weights_.data();
    work.output = call.output;
    work.unscales = unscales_.data();
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

  // Every filter, scaled where sums are halves.
  template <typename Tiles, typename Value>
  void pack_filters(const ConvolutionRequest& request) {
    const auto values = static_cast<std::size_t>(form_.all_values());
    std::vector<float> transformed(static_cast<std::size_t>(geometry_->channels) * values);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows_); ++row) {
      const std::span<const float> filter = request.filter(static_cast<int>(row));
      for (std::size_t i = 0, from = 0; i < transformed.size(); i += values, from += kTaps) {
        transform_weights<Tiles>(&filter[from], &transformed[i]);
      }
      const float scale = unscales_.empty() ? 1.0F : choose_scale<Tiles>(transformed, row);
      for (float& value : transformed) value *= scale;
      if (on_the_fly()) {
        pack_plain<Value>(filter, scale, row);
        // Rounding may add to these.
        for (const float value : transformed) {
          holds_weights_ &= std::abs(value) <= kLargestOnTheFly<Value>;
        }
      } else if (plan_.of_image) {
        pack_of_image<Value>(transformed, row);
      } else {
        pack_transformed<Tiles, Value>(transformed, row);
      }
    }
  }

  template <typename Value>
  void pack_of_image(const std::vector<float>& transformed, std::size_t row) {
    const auto positions = static_cast<std::size_t>(form_.positions);
    const std::size_t values = positions * positions;
    for (std::size_t i = 0; i < transformed.size(); ++i) {
      const std::size_t column = i % positions;
      const std::size_t place = i / values * positions + i % values / positions;
      put<Value>((row * positions + column) * kImageColumn + place, transformed[i]);
    }
  }

  template <typename Tiles, typename Value>
  void pack_transformed(const std::vector<float>& transformed, std::size_t row) {
    constexpr int kInput = Tiles::kInput;
    const auto depth = static_cast<std::size_t>(geometry_->channels);
    const auto rows = static_cast<std::size_t>(kernel_.rows);
    const auto values = static_cast<std::size_t>(form_.all_values());
    for (int a = 0; a < kInput; ++a) {
      for (int b = 0; b < kInput; ++b) {
        const WinogradValue value = winograd_value<Tiles>(a, b);
        const auto position = static_cast<std::size_t>(value.position);
        const auto first = static_cast<std::size_t>(form_.first_values[position]);
        const auto count = static_cast<std::size_t>(form_.first_values[position + 1]) - first;
        const std::size_t block = first * static_cast<std::size_t>(blocks_) + row / rows * count;
        std::size_t to =
            (block * depth + static_cast<std::size_t>(value.place)) * rows + row % rows;
        auto from = static_cast<std::size_t>(a * kInput + b);
        for (; from < transformed.size(); from += values, to += count * rows) {
          put<Value>(to, transformed[from]);
        }
      }
    }
  }

  template <typename Value>
  void pack_plain(std::span<const float> filter, float scale, std::size_t row) {
    const auto rows = static_cast<std::size_t>(kernel_.rows);
    const auto lanes = static_cast<std::size_t>(kernel_.weight_lanes);
    const std::size_t block = row / rows * plain_block();
    for (std::size_t i = 0; i < filter.size(); ++i) {
      const std::size_t place = i / kTaps * rows + row % rows;
      put<Value>(block + (place / lanes * kTaps + i % kTaps) * lanes + place % lanes,
                 filter[i] * scale);
    }
  }

  // Weights of a block of output channels as they are, in whole vectors.
  std::size_t plain_block() const {
    const auto places = static_cast<std::size_t>(geometry_->channels * kernel_.rows);
    return round_up(places, static_cast<std::size_t>(kernel_.weight_lanes)) * kTaps;
  }

  template <typename Value>
  void put(std::size_t i, float value) {
    if constexpr (std::is_same_v<Value, Half>) {
      const Half half = half_from_float(value);
      holds_weights_ &= std::isfinite(half_to_float(half));
      weights_.as<Half>()[i] = half;
    } else {
      holds_weights_ &= std::isfinite(value);
      weights_.as<float>()[i] = value;
    }
  }

  template <typename Tiles>
  float choose_scale(const std::vector<float>& transformed, std::size_t row) {
    const auto values = static_cast<std::size_t>(form_.all_values());
    std::vector<double> totals(values);
    for (std::size_t i = 0; i < transformed.size(); ++i) {
      totals[i % values] += static_cast<double>(std::abs(transformed[i]));
    }
    const double scale = scale_of(largest_output<Tiles>(totals));
    unscales_[row] = static_cast<float>(1.0 / scale);
    unscales_of_smaller_[row] = std::min(unscales_[row] / kSmallerInput, kLargestUnscale);
    holds_weights_ &= std::isfinite(half_to_float(half_from_float(unscales_[row])));
    return static_cast<float>(scale);
  }

  template <typename Tiles>
  void pack_tiles(const ConvolutionRequest& request) {
    if (weight_format() == WeightFormat::kHalf) {
      pack_filters<Tiles, Half>(request);
    } else {
      pack_filters<Tiles, float>(request);
    }
  }

  // The weights of an image are so few that they are stored widened.
  WeightFormat weight_format() const {
    return plan_.of_image && kernel_.multiplier_bytes > 0 ? WeightFormat::kFloat : kernel_.weights;
  }

  std::size_t block_weights() const {
    const auto rows = static_cast<std::size_t>(kernel_.rows);
    if (on_the_fly()) return plain_block();
    if (plan_.of_image) return rows * static_cast<std::size_t>(form_.positions) * kImageColumn;
    return static_cast<std::size_t>(form_.all_values()) * rows *
           static_cast<std::size_t>(geometry_->channels);
  }

  void pack_weights(const ConvolutionRequest& request) {
    if (kernel_.sum_bytes == sizeof(Half)) {
      unscales_.resize(static_cast<std::size_t>(rows_));
      unscales_of_smaller_.resize(static_cast<std::size_t>(rows_));
    }
    weights_ = AlignedBuffer(block_weights() * static_cast<std::size_t>(blocks_) *
                             weight_size(weight_format()));
    if (form_.stride == 2) {
      pack_tiles<WinogradTiles<2, 2>>(request);
    } else if (form_.tile == 2) {
      pack_tiles<WinogradTiles<2, 1>>(request);
    } else if (form_.tile == 4) {
      pack_tiles<WinogradTiles<4, 1>>(request);
    } else {
      pack_tiles<WinogradTiles<5, 1>>(request);
    }
    constants_.finish(0);
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
  // [position][block][channel][value of the position][row]; of an image [row][column]
  // [kImageColumn]; on the fly as they are: [block][vector of a channel's rows][tap][lane].
  AlignedBuffer weights_;
  bool holds_weights_ = true;
  // Where sums are halves: what undoes the scale of each output channel's weights.
  std::vector<float> unscales_;
  // The same where the input is smaller.
  std::vector<float> unscales_of_smaller_;
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
