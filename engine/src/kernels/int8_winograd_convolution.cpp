#include "kernels/int8_winograd_convolution.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/aligned_buffer.h"
#include "kernels/cpu.h"
#include "kernels/geometry.h"
#include "kernels/int8_winograd_weights.h"
#include "kernels/output_constants.h"
#include "kernels/sizes.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// A block of tiles, transformed, and the sums made from it: what a second-level cache keeps of it.
constexpr std::int64_t kBlockBytes = 384 * 1024;
constexpr int kChunkBlocks = 8;  // row blocks whose sums wait for their output transform
// Positions' panels begin this many values apart from a power of two: they would all be kept in
// the same few lines of a cache otherwise.
constexpr std::int64_t kStagger = 32;
// Of the magnitudes of an output channel's weights, so that 576 times its sums of inputs up to 128
// fit into 32 bits.
constexpr std::int32_t kLargestSmallTotal = ((1U << 31U) - 1) / (576 * 128);
// The kernel reads one step beyond its weights.
constexpr std::size_t kWeightSlack = kCacheLine;
constexpr int kTaps = 9;
// Channels whose weights are transformed on the fly at once: they and a row of their transform stay
// in a first-level cache of 32 KiB.
constexpr int kDepthStep = 64;
// In multiply-adds of vectors: to load and store the sums of a panel at a position.
constexpr std::int64_t kOperationsPerSums = 45;
// In the same unit, by what the kernels of a processor take.
struct Costs {
  std::int64_t transform;  // of a vector of weights
  std::int64_t line;       // to bring it to the first-level cache
  double product;          // of a panel, for an input and an output channel
};
constexpr Costs kArmCosts = {150, 6, 72.0};
constexpr Costs kX86Costs = {90, 2, 45.0};
const Costs& costs_of(const Int8WinogradKernel& kernel) {
  return kernel.pairs ? kX86Costs : kArmCosts;
}

int tiles_across(int size) { return divide_up(size, 4); }

// Whether Int8WinogradKernel::convolve_image computes the layer.
bool is_of_image(const ConvolutionShape& shape, const Int8WinogradKernel& kernel) {
  return shape.in.channels == kImageChannels && kernel.convolve_image != nullptr;
}

// Vector operations that it takes less than multiplying as it stands; a byte of weights counts as
// one.
double operations_saved(const ConvolutionShape& shape, const Int8WinogradKernel& kernel) {
  const double in = shape.in.channels;
  const double out = shape.out.channels;
  const double pixels = static_cast<double>(shape.out.height) * shape.out.width;
  const int tiles = tiles_across(shape.out.width) * tiles_across(shape.out.height);
  if (is_of_image(shape, kernel)) {
    // The product pads a pixel's channels to four.
    const double vectors = divide_up(tiles, kernel.tiles / 2);
    return pixels * out * 36 * (3.0 / 16.0) - vectors * (270 * out + 400 * in);
  }
  const int left = tiles % kernel.tiles;
  const double panels = left <= kernel.few_tiles ? static_cast<double>(tiles) / kernel.tiles
                                                 : divide_up(tiles, kernel.tiles);
  const double multiply = pixels * in * out * 9 * (3.0 / 16.0) + in * out * 9;
  const double product = costs_of(kernel).product;
  const double winograd = panels * (product * in * out + 400 * in + 400 * out) + in * out * 72;
  return multiply - winograd;
}

// Whether the allowed scratch decides: where an algorithm is asked for, it is used.
bool has_to_be_small(const ConvolutionChoice& choice) {
  return choice.small_scratch && choice.algorithm.empty();
}

// A weight in the transforms.
struct Weight {
  std::int32_t value = 0;
};
Weight operator+(Weight a, Weight b) { return {a.value + b.value}; }
Weight operator-(Weight a, Weight b) { return {a.value - b.value}; }
template <int kFactor>
Weight times(Weight a) {
  return {kFactor * a.value};
}
template <int kFactor>
Weight add_multiple(Weight sum, Weight a) {
  return {sum.value + kFactor * a.value};
}

class Int8WinogradConvolution final : public Convolution {
 public:
  Int8WinogradConvolution(const ConvolutionRequest& request, const Int8WinogradKernel& kernel,
                          std::string_view isa, const ConvolutionChoice& choice)
      : kernel_(kernel),
        isa_(isa),
        pool_(pools_by_sums(request)),
        of_image_(is_of_image(request.shape, kernel)),
        channels_(request.shape.in.channels),
        rows_(request.shape.out.channels),
        depth_(of_image_ ? channels_ : divide_up(channels_, 2) * 2),
        blocks_(divide_up(rows_, kernel_.rows)),
        tiles_x_(tiles_across(request.shape.out.width)),
        tiles_(tiles_x_ * tiles_across(request.shape.out.height)),
        geometry_(request.shape),
        constants_(request) {
    if (of_image_) {
      plan_.panels = kInt8ImagePanels;
    } else if (has_to_be_small(choice)) {
      choose_small_plan(choice);
    } else {
      ConvolutionChoice chosen = choice;
      if (choice.algorithm.empty()) {
        choose_plan(choice.with_uniform_scratch());
        chosen.algorithm = algorithm();
      }
      choose_plan(chosen);
    }
  }

  void pack_weights(const ConvolutionRequest& request) {
    weights_ =
        AlignedBuffer(plan_.on_the_fly ? plain_weights()
                                       : packed_weights() * sizeof(std::int16_t) + kWeightSlack);
    for (int row = 0; row < rows_; ++row) {
      const float* filter = request.filter(row).data();
      std::int32_t total = 0;
      std::int32_t positive = 0;
      for (int channel = 0; channel < channels_; ++channel, filter += 9) {
        std::int32_t w[kTaps];
        for (int i = 0; i < kTaps; ++i) {
          w[i] = quantize_weight(filter[i], constants_.weight_scale(row));
          total += w[i];
          positive += std::max(w[i], 0);
        }
        if (plan_.on_the_fly) {
          put_plain(w, static_cast<std::size_t>(row), static_cast<std::size_t>(channel));
        } else {
          put_transformed(w, static_cast<std::size_t>(row), static_cast<std::size_t>(channel));
        }
      }
      small_sums_ &= 2 * positive - total <= kLargestSmallTotal;
      constants_.set_weight_total(row, total);
      constants_.set_positive_total(row, positive);
    }
    constants_.finish(0);
  }

  // Whether the plan keeps to the scratch that is allowed, and still saves time.
  bool suits(const ConvolutionShape& shape, const ConvolutionChoice& choice) const {
    if (scratch_bytes(choice.threads) > choice.scratch_bytes) return false;
    if (!plan_.on_the_fly) return true;
    const int passes = divide_up(divide_up(tiles_, kernel_.tiles), plan_.panels);
    return static_cast<double>(passes * cost_on_the_fly(plan_.panels)) <
           operations_saved(shape, kernel_);
  }

  std::string_view isa() const override { return isa_; }
  std::string_view algorithm() const override {
    return plan_.on_the_fly ? "winograd4-on-the-fly" : "winograd4";
  }
  bool pools() const override { return pool_; }
  std::size_t weight_bytes() const override { return weights_.size() + constants_.bytes(); }

  std::size_t scratch_bytes(int threads) const override {
    const auto count = static_cast<std::size_t>(threads);
    return constants_bytes() + (of_image_ ? count : 1) * panels_bytes() + count * thread_bytes();
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const OutputStage stage = constants_.stage_for(call.dynamic_input, call.scratch);
    Int8WinogradWork work;
    work.geometry = &*geometry_;
    work.stage = &stage;
    work.input = static_cast<const std::int8_t*>(call.input);
    work.weights = weights_.data();
    work.depth_step = kDepthStep;
    work.output = call.output;
    work.pool = pool_;
    work.small_sums = small_sums_;
    work.tiles_x = tiles_x_;
    work.rows = rows_;
    work.depth = depth_;
    work.chunk_blocks = plan_.chunk_blocks;
    work.padded_width = padded_width();
    work.padding_value =
        static_cast<std::int8_t>(constants_.input_zero_point(call.dynamic_input, 0));
    work.position_stride = position_stride();
    std::byte* scratch = call.scratch + constants_bytes();
    if (of_image_) return convolve_image(work, scratch, pool);
    work.panels = reinterpret_cast<std::int16_t*>(scratch);
    scratch += panels_bytes();
    const int step = plan_.panels * kernel_.tiles;
    for (work.tile_begin = 0; work.tile_begin < tiles_; work.tile_begin += step) {
      work.tile_count = std::min(step, tiles_ - work.tile_begin);
      const auto share = [&](auto function, int together = 1) {
        return [&work, scratch, function, together, this](int thread, int begin, int end) {
          Int8WinogradWork mine = work;
          mine.begin = begin * together;
          mine.end = end * together;
          mine.scratch = scratch + static_cast<std::size_t>(thread) * thread_bytes();
          mine.transformed = reinterpret_cast<std::int16_t*>(mine.scratch + work_bytes());
          function(mine);
        };
      };
      const int together = kernel_.pairs ? 2 : 1;
      pool.parallel_for(divide_up(channels_, together), share(kernel_.transform_input, together));
      pool.parallel_for(blocks_,
                        share(plan_.on_the_fly ? kernel_.multiply_on_the_fly : kernel_.multiply));
    }
  }

 private:
  int padded_width() const { return 4 * tiles_x_ + 4; }

  // Every thread has blocks of tiles of its own.
  void convolve_image(const Int8WinogradWork& work, std::byte* scratch, ThreadPool& pool) const {
    const int step = kInt8ImagePanels * kernel_.tiles;
    pool.parallel_for(divide_up(tiles_, step), [&](int thread, int begin, int end) {
      Int8WinogradWork mine = work;
      const std::size_t bytes = panels_bytes() + thread_bytes();
      std::byte* own = scratch + static_cast<std::size_t>(thread) * bytes;
      mine.panels = reinterpret_cast<std::int16_t*>(own);
      mine.scratch = own + panels_bytes();
      mine.end = channels_;
      for (int block = begin; block < end; ++block) {
        mine.tile_begin = block * step;
        mine.tile_count = std::min(step, tiles_ - mine.tile_begin);
        kernel_.transform_input(mine);
        kernel_.convolve_image(mine);
      }
    });
  }

  // As many tiles as fit the cache with their sums; or more, if reading the weights again for every
  // block costs more than the additional cache misses. Where the sums of several threads leave no
  // room for that, those of fewer output channels wait. Weights are transformed on the fly where
  // memory, which the threads share, takes longer to bring transformed ones. Those stream through
  // the second-level cache in eight times the bytes, so they leave less of it to a block.
  void choose_plan(const ConvolutionChoice& choice) {
    const int panels = divide_up(tiles_, kernel_.tiles);
    const std::int64_t tile = kWinogradPositions * kernel_.tiles;
    const std::int64_t values = tile * depth_ * 2;  // bytes of a panel, and of its sums
    const auto allowed = static_cast<std::int64_t>(choice.scratch_bytes);
    const CpuCaches& caches = cpu_caches();
    const auto cache = static_cast<std::int64_t>(caches.second_bytes);
    const double price = caches.byte_price + (choice.threads - 1) * caches.shared_byte_price;
    double least = 0.0;
    const auto consider = [&](int chunk_blocks, bool on_the_fly, bool first) {
      const std::int64_t weights =
          on_the_fly ? static_cast<std::int64_t>(plain_weights())
                     : static_cast<std::int64_t>(packed_weights() * sizeof(std::int16_t));
      const std::int64_t chunks = divide_up(blocks_, chunk_blocks);
      const std::int64_t sums = tile * chunk_blocks * kernel_.rows * 4;
      for (int count = 1; count <= panels; ++count) {
        const std::int64_t block = count * (values + (on_the_fly ? choice.threads : 1) * sums);
        const bool block_stays = block <= (on_the_fly ? cache / 4 * 3 : kBlockBytes);
        const bool fits =
            block <= kBlockBytes || count * (values + choice.threads * sums) <= allowed;
        if (count > 1 && !fits) break;
        const std::int64_t passes = divide_up(panels, count);
        const bool weights_stay = weights + block <= cache / 8 * 7;
        const std::int64_t moved =
            (weights_stay ? 1 : passes) * weights +
            (block_stays ? 0 : passes * chunks * count * (values + 2 * sums));
        const double cost =
            static_cast<double>(moved) * price +
            (on_the_fly ? static_cast<double>(passes * cost_on_the_fly(count)) : 0.0);
        if ((first && count == 1) || cost < least || (first && block_stays && cost <= least)) {
          least = cost;
          // Blocks of about the same size.
          plan_ = {divide_up(panels, static_cast<int>(passes)), chunk_blocks, on_the_fly};
        }
      }
    };
    const bool stored_only = choice.algorithm == "winograd4";
    if (choice.algorithm == "winograd4-on-the-fly") return consider(1, true, true);
    const int most = std::min(blocks_, kChunkBlocks);
    consider(most, false, true);
    if (choice.threads > 1) {
      for (int fewer = most / 2; fewer > 0; fewer /= 2) consider(fewer, false, false);
    }
    if (!stored_only) consider(1, true, false);
  }

  // With weights as they are, the largest blocks that scratch and the second-level cache allow.
  void choose_small_plan(const ConvolutionChoice& choice) {
    const int panels = divide_up(tiles_, kernel_.tiles);
    const auto cache = static_cast<std::size_t>(cpu_caches().second_bytes);
    const std::size_t allowed = std::min(choice.scratch_bytes, cache / 4 * 3);
    for (int passes = 1; passes <= panels; ++passes) {
      plan_ = {divide_up(panels, passes), 1, true};
      if (scratch_bytes(choice.threads) <= allowed) return;
    }
  }

  // What weights on the fly cost more for a block of so many panels. Each block of output channels
  // reads all panels from the second-level cache; by stored weights, those of a chunk share them.
  std::int64_t cost_on_the_fly(int panels) const {
    const std::int64_t more_steps = divide_up(depth_, kDepthStep) - 1;
    const std::int64_t sums = more_steps * kWinogradPositions * panels * kOperationsPerSums;
    const std::int64_t lines = std::int64_t{kWinogradPositions} * panels * depth_ * kernel_.tiles *
                               2 / std::int64_t{kCacheLine};
    const Costs& costs = costs_of(kernel_);
    return blocks_ * (depth_ * costs.transform + sums + lines * costs.line);
  }

  std::size_t block_rows() const { return static_cast<std::size_t>(kernel_.rows); }
  std::int64_t position_stride() const {
    if (of_image_) return std::int64_t{kInt8ImagePanels} * kImageChannels * kernel_.tiles;
    return static_cast<std::int64_t>(plan_.panels) * depth_ * kernel_.tiles + kStagger;
  }
  std::size_t constants_bytes() const { return round_up(constants_.scratch_bytes(), kCacheLine); }
  std::size_t panels_bytes() const {
    return round_up(
        static_cast<std::size_t>(kWinogradPositions * position_stride()) * sizeof(std::int16_t),
        kCacheLine);
  }
  std::size_t thread_bytes() const {
    return work_bytes() + (plan_.on_the_fly ? transformed_bytes() : 0);
  }
  // A row of the transformed weights of kDepthStep channels.
  std::size_t transformed_bytes() const {
    return 6 * kDepthStep * block_rows() * sizeof(std::int16_t) + kWeightSlack;
  }
  // Padded rows, or sums.
  std::size_t work_bytes() const {
    const std::int64_t tiles = std::int64_t{plan_.panels} * kernel_.tiles;
    const std::int64_t tile_rows = (tiles - 1 + tiles_x_ - 1) / tiles_x_ + 1;
    const std::int64_t padded = (4 * tile_rows + 2) * padded_width();
    const std::int64_t sums = plan_.chunk_blocks * tiles * (kWinogradPositions * kernel_.rows) *
                              std::int64_t{sizeof(std::int32_t)};
    return round_up(static_cast<std::size_t>(std::max(padded, sums)), kCacheLine);
  }

  std::size_t packed_weights() const {
    if (of_image_) return static_cast<std::size_t>(rows_) * 6 * kImageColumn;
    return static_cast<std::size_t>(blocks_) * kWinogradPositions *
           static_cast<std::size_t>(depth_) * block_rows();
  }
  std::size_t plain_weights() const {
    return static_cast<std::size_t>(blocks_) * static_cast<std::size_t>(depth_) * kTaps *
           block_rows();
  }

  // Of the weight at a position of the transformed tile.
  std::size_t packed_index(std::size_t row, std::size_t channel, std::size_t position) const {
    if (of_image_) {
      return (row * 6 + position % 6) * kImageColumn + channel * 6 + position / 6;
    }
    const std::size_t block = row / block_rows() * kWinogradPositions + position;
    const std::size_t first = block * static_cast<std::size_t>(depth_);
    const std::size_t place = row % block_rows();
    if (!kernel_.pairs) return (first + channel) * block_rows() + place;
    return (first + channel / 2 * 2) * block_rows() + 2 * place + channel % 2;
  }

  void put_plain(const std::int32_t (&w)[kTaps], std::size_t row, std::size_t channel) {
    const std::size_t block = row / block_rows() * static_cast<std::size_t>(depth_);
    auto* to = weights_.as<std::int8_t>() + (block + channel) * kTaps * block_rows();
    for (int i = 0; i < kTaps; ++i) {
      to[static_cast<std::size_t>(i) * block_rows() + row % block_rows()] =
          static_cast<std::int8_t>(w[i]);
    }
  }

  void put_transformed(const std::int32_t (&w)[kTaps], std::size_t row, std::size_t channel) {
    Weight columns[3][6];
    for (int x = 0; x < 3; ++x) {
      const Weight taps[3] = {{w[x]}, {w[3 + x]}, {w[6 + x]}};
      transform_int8_weights(taps, columns[x]);
    }
    auto* packed = weights_.as<std::int16_t>();
    for (std::size_t a = 0; a < 6; ++a) {
      const Weight taps[3] = {columns[0][a], columns[1][a], columns[2][a]};
      Weight values[6];
      transform_int8_weights(taps, values);
      for (std::size_t b = 0; b < 6; ++b) {
        packed[packed_index(row, channel, 6 * a + b)] = static_cast<std::int16_t>(values[b].value);
      }
    }
  }

  // How the layer is computed.
  struct Plan {
    int panels = 0;        // of a block of tiles
    int chunk_blocks = 1;  // row blocks whose sums are kept at once
    bool on_the_fly = false;
  };

  const Int8WinogradKernel& kernel_;
  const std::string_view isa_;
  const bool pool_;
  const bool of_image_;
  const int channels_;
  const int rows_;
  const int depth_;
  const int blocks_;
  const int tiles_x_;
  const int tiles_;
  GroupGeometry geometry_;
  OutputConstants constants_;
  AlignedBuffer weights_;
  Plan plan_;
  bool small_sums_ = true;
};

}  // namespace

bool int8_winograd_is_exact(const ConvolutionRequest& request) {
  const ConvolutionShape& shape = request.shape;
  if (shape.kernel_y != 3 || shape.kernel_x != 3 || shape.stride_y != 1 || shape.stride_x != 1 ||
      shape.dilation_y != 1 || shape.dilation_x != 1 || shape.groups != 1) {
    return false;
  }
  // Sums below 2^25 in magnitude, of inputs up to 128.
  constexpr std::int32_t kLargestTotal = (1 << 25) / 128 - 1;
  for (int row = 0; row < shape.out.channels; ++row) {
    const float scale = request.weight_scale(row);
    const auto filter = request.filter(row);
    std::int32_t total = 0;
    for (const float weight : filter) total += std::abs(int{quantize_weight(weight, scale)});
    if (total > kLargestTotal) return false;
  }
  return true;
}

bool int8_winograd_pays(const ConvolutionShape& shape, const Int8WinogradKernel& kernel) {
  return operations_saved(shape, kernel) > 0;
}

std::unique_ptr<Convolution> make_int8_winograd_convolution(const ConvolutionRequest& request,
                                                            const Int8WinogradKernel& kernel,
                                                            std::string_view isa,
                                                            const ConvolutionChoice& choice) {
  auto convolution = std::make_unique<Int8WinogradConvolution>(request, kernel, isa, choice);
  if (has_to_be_small(choice) && !convolution->suits(request.shape, choice)) return nullptr;
  convolution->pack_weights(request);
  return convolution;
}

}  // namespace mpe
