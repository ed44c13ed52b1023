#include "kernels/convolution_cost.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/aligned_buffer.h"
#include "kernels/cpu.h"
#include "kernels/sizes.h"

namespace mpe {
namespace {

// A byte from memory takes as long as a third of a vector multiply-add: between 0.32 (Cortex-A53 at
// 1.4 GHz, A72) and 0.15 (A57, A76) by the boards' bandwidths.
constexpr double kOperationsPerByte = 1.0 / 3.0;
// A line that the first-level cache takes in: between 8 (Cortex-A57, A72) and 2 (A76).
constexpr double kOperationsPerLine = 6.0;
// Of a cache, as kUsableShare, where weights are transformed on the fly, which stream through as
// well.
constexpr double kOwnShare = 0.8;
// Shares of a layer that Winograd's plans try, of its output channels and of its tiles.
constexpr int kMostChunks = 8;
constexpr int kMostShares = 4;
// Of Winograd's kernels beside their vectors: for a position and a block of output channels (fewer
// with wide vectors), and for a channel of a row of tiles.
constexpr double kOperationsPerProduct = 80.0;
constexpr double kOperationsPerWideProduct = 25.0;
constexpr double kOperationsPerSegment = 150.0;
// Of an image's products, for a vector of tiles and an output channel: three multiply-adds at each
// of 36 positions, and a load for every second one.
constexpr double kOperationsPerImageVector = 162.0;
// Channels, and blocks of output channels, whose weights are transformed on the fly at once.
constexpr int kTransformedDepths[] = {16, 24, 32, 48, 64, 128, 256};
// To transform a vector of weights at all positions, with stride 1: in float, in wide vectors, and
// in half.
constexpr double kOperationsPerTransform = 160.0;
constexpr double kOperationsPerWideTransform = 100.0;
constexpr double kOperationsPerHalfTransform = 200.0;
// With stride 2, where 16 of 25 are weights as they are.
constexpr double kOperationsPerStridedTransform = 60.0;
// A thread's, to wait for the others: a microsecond.
constexpr double kOperationsPerBarrier = 2000.0;
constexpr double kTaps = 9.0;
constexpr int kMostTransformedBlocks = 8;
constexpr int kMostChunksOnTheFly = 32;
constexpr int kMostChunksOfSlices = 16;
constexpr int kLeastSlices = 4;  // two are there at a time: fewer would save little

// One term of a register tile: its multiply-adds, and its loads, which few cores hide completely.
double term_cost(int rows, int vectors, int lanes) {
  return rows * vectors + vectors + static_cast<double>(rows) / lanes;
}

// Terms for a run of vectors, split as evenly as the kernels split it.
double row_cost(int rows, int vectors, int most, int lanes) {
  const int panels = divide_up(vectors, most);
  return rows * vectors + vectors + panels * static_cast<double>(rows) / lanes;
}

// Operations of one vector of tiles: loads, arithmetic and stores of the two directions.
struct TransformCost {
  double input;
  double output;
};
TransformCost transform_cost(const WinogradForm& form) {
  if (form.stride == 2) return {110, 50};
  if (form.tile == 5) return {560, 450};
  return form.tile == 2 ? TransformCost{80, 60} : TransformCost{270, 240};
}

// x86-64, whose vectors of floats are wider, takes lines in faster.
double line_cost(const WinogradKernel& kernel) {
  return has_wide_vectors(kernel) ? kOperationsPerLine / 3.0 : kOperationsPerLine;
}

double weight_transform_cost(const WinogradKernel& kernel, const WinogradForm& form) {
  if (form.stride == 2) return kOperationsPerStridedTransform;
  if (has_wide_vectors(kernel)) return kOperationsPerWideTransform;
  return kernel.sum_bytes == 2 ? kOperationsPerHalfTransform : kOperationsPerTransform;
}

// All threads', to wait for each other once.
double cost_of_barrier(int threads) { return threads * kOperationsPerBarrier; }

// How often threads transform each weight on the fly in a pass, on average: of each chunk they
// share the tiles of the blocks of output channels that do not go into the number of threads.
double times_transformed(int blocks, int chunk_blocks, int threads) {
  const int last = (blocks - 1) % chunk_blocks + 1;
  const auto again = [threads](int count) {
    return count % threads == 0 ? 0 : threads - std::gcd(count, threads);
  };
  const int chunks = divide_up(blocks, chunk_blocks);
  const int more = (chunks - 1) * again(chunk_blocks) + again(last);
  return 1.0 + static_cast<double>(more) / blocks;
}

// Counts bytes that blocks of tiles read again after others. They come from memory, or from a
// third-level cache, which all threads share, if it holds all that they use.
void read_again(WinogradPlan& plan, double bytes, double used) {
  if (used <= kUsableShare * static_cast<double>(cpu_caches().third_bytes)) {
    plan.cost += bytes * cpu_caches().third_byte_price;
  } else {
    plan.bytes += bytes;
  }
}

// `count` values of a size, and as many more as make an odd number of cache lines.
std::size_t odd_lines(std::size_t count, std::size_t size) {
  return (divide_up(count * size, kCacheLine) | 1U) * kCacheLine / size;
}

// The same, where some lines from every stride on are used together: strides of a power of two and
// one line would bring those of half of the positions to the same few sets of the second-level
// cache.
std::size_t spread_lines(std::size_t count, std::size_t size) {
  constexpr std::size_t kEvery = 64;
  constexpr std::size_t kApart = 29;
  const std::size_t lines = divide_up(count * size, kCacheLine);
  return (round_up(lines + kEvery - kApart, kEvery) - kEvery + kApart) * kCacheLine / size;
}

// How the products of a block of tiles go over the channels, and what that costs beside the
// multiply-adds, at one position of so many terms.
struct DepthPlan {
  int step = 0;
  double cost = 0.0;
};

// All row blocks pass over some channels of the transformed input before the next ones, so that
// these stay in the first-level cache: a shorter step keeps more of them there, and has the sums
// loaded and stored more often.
DepthPlan plan_depth(const ConvolutionShape& shape, const WinogradKernel& kernel,
                     const WinogradBlock& block, int depth, int chunks) {
  const double blocks = divide_up(shape.out.channels, kernel.rows);
  const double panel = static_cast<double>(block.panel_stride) * kernel.panel_bytes;
  const double sums = blocks * kernel.rows * block.sum_stride * kernel.sum_bytes;
  DepthPlan best;
  for (int steps = 1;; ++steps) {
    const int step = divide_up(depth, steps);
    const bool stays = step * panel <= static_cast<double>(cpu_caches().resident_bytes);
    const double lines = (depth * panel * (stays ? chunks : blocks) + steps * sums) / kCacheLine;
    const double cost = lines * line_cost(kernel) +
                        2.0 * (steps - 1) * sums / (kernel.sum_lanes * kernel.sum_bytes);
    if (best.step == 0 || cost < best.cost) best = {step, cost};
    if (stays || step == 1) return best;
  }
}

// The cheapest plan that fits into the memory; if none fits, the smallest one. Of plans that cost
// less than `about_equal` times the cheapest, the one with the least scratch.
class CheapestPlan {
 public:
  explicit CheapestPlan(std::size_t most_bytes, double about_equal = 1.0)
      : most_bytes_(most_bytes), about_equal_(about_equal) {}

  void consider(const WinogradPlan& plan, double cost) { plans_.push_back({plan, cost}); }

  const WinogradPlan& best() const {
    const auto better = [this](const Considered& a, const Considered& b) {
      if (fits(a) != fits(b)) return fits(a);
      return fits(a) ? a.cost < b.cost : a.plan.scratch_bytes < b.plan.scratch_bytes;
    };
    const Considered& cheapest = *std::ranges::min_element(plans_, better);
    const Considered* best = &cheapest;
    for (const Considered& other : plans_) {
      if (fits(other) && other.cost < about_equal_ * cheapest.cost &&
          other.plan.scratch_bytes < best->plan.scratch_bytes) {
        best = &other;
      }
    }
    return best->plan;
  }

 private:
  struct Considered {
    WinogradPlan plan;
    double cost = 0.0;
  };
  bool fits(const Considered& considered) const {
    return considered.plan.scratch_bytes <= most_bytes_;
  }

  const std::size_t most_bytes_;
  const double about_equal_;
  std::vector<Considered> plans_;
};

// Blocks of output channels whose sums a thread keeps on the fly: its share of a chunk. By slices
// these are all that it works on, where blocks that are left over are shared by their tiles, so
// that it may have a part of two of them.
int share_of_chunk(const ConvolutionShape& shape, const WinogradKernel& kernel,
                   const WinogradPlan& plan, int threads) {
  const int share = std::max(1, plan.chunk_blocks / threads);
  if (!plan.by_slices) return share;
  const int last = (divide_up(shape.out.channels, kernel.rows) - 1) % plan.chunk_blocks + 1;
  const auto blocks_of = [threads](int chunk) {
    return chunk / threads + (chunk % threads == 0 ? 0 : 2);
  };
  return std::max(blocks_of(plan.chunk_blocks), blocks_of(last));
}

// What all plans of a layer have in common.
class WinogradLayer {
 public:
  WinogradLayer(const ConvolutionShape& shape, const WinogradKernel& kernel,
                const WinogradForm& form)
      : tiles(divide_up(shape.out.width, form.tile) * divide_up(shape.out.height, form.tile)),
        blocks(divide_up(shape.out.channels, kernel.rows)),
        terms(static_cast<double>(form.all_values()) * shape.in.channels * blocks),
        kernel_(kernel),
        channels_(shape.in.channels),
        tiles_x_(divide_up(shape.out.width, form.tile)),
        positions_(form.all_positions()),
        transform_(transform_cost(form)),
        output_(divide_up(tiles, kernel.sum_lanes) * transform_.output * shape.out.channels) {}

  // By blocks of so many tiles.
  double product_cost(int size) const {
    return terms * (tiles / size * row_of(size) + row_of(tiles % size));
  }
  // Of calls with so many blocks of tiles.
  double call_cost(double passes) const {
    const double product =
        has_wide_vectors(kernel_) ? kOperationsPerWideProduct : kOperationsPerProduct;
    return passes * positions_ * blocks * product;
  }
  // Of the input's transform, by blocks of so many tiles: a row of tiles that goes over the end of
  // a block has a segment in each, with vectors of its own.
  double input_cost(int size) const {
    double segments = 0.0;
    double vectors = 0.0;
    for (int first = 0; first < tiles;) {
      const int end =
          std::min({tiles, (first / size + 1) * size, (first / tiles_x_ + 1) * tiles_x_});
      segments += 1.0;
      vectors += divide_up(end - first, kernel_.lanes);
      first = end;
    }
    return channels_ * (segments * kOperationsPerSegment + vectors * transform_.input);
  }
  double output_cost() const { return output_; }

  const int tiles;
  const int blocks;    // of output channels
  const double terms;  // of all positions and blocks

 private:
  double row_of(int count) const {
    if (count == 0) return 0.0;
    if (kernel_.takes_single && count > 1 && count % kernel_.lanes == 1) {
      const double whole =
          row_cost(kernel_.rows, divide_up(count, kernel_.lanes), kernel_.vectors, kernel_.lanes);
      return whole - kernel_.rows + static_cast<double>(kernel_.rows) / kernel_.lanes;
    }
    return row_cost(kernel_.rows, divide_up(count, kernel_.lanes), kernel_.vectors, kernel_.lanes);
  }

  const WinogradKernel& kernel_;
  const double channels_;
  const int tiles_x_;
  const double positions_;
  const TransformCost transform_;
  const double output_;
};

}  // namespace

bool has_wide_vectors(const WinogradKernel& kernel) {
  return kernel.lanes > 4 && kernel.sum_bytes == 4;
}

double gemm_cost(const ConvolutionShape& shape, const GemmKernel& kernel) {
  const double pixels = static_cast<double>(shape.out.height) * shape.out.width;
  const int group_rows = shape.out.channels / shape.groups;
  const double blocks = divide_up(group_rows, kernel.rows) * static_cast<double>(shape.groups);
  const int lanes = kernel.lanes;
  const int vectors = std::max(1, kernel.columns / lanes);
  const double panels = pixels / kernel.columns;
  const double products =
      shape.depth() * blocks * std::max(1.0, panels) * term_cost(kernel.rows, vectors, lanes);
  const double copies = 3.0 * pixels / lanes * (shape.depth() * shape.groups + shape.out.channels);
  const double weights = static_cast<double>(shape.out.channels) * shape.depth() *
                         static_cast<double>(weight_size(kernel.weights));
  return products + copies + weights * kOperationsPerByte;
}

double pooling_cost(const ConvolutionShape& shape, const GemmKernel& kernel) {
  const auto outputs = static_cast<double>(shape.out.elements());
  const double bytes = outputs * static_cast<double>(weight_size(kernel.weights));
  return 2.0 * outputs / kernel.lanes + bytes * kOperationsPerByte;
}

const WinogradForm* winograd_form(const ConvolutionShape& shape, int tile) {
  if (shape.kernel_y != 3 || shape.kernel_x != 3 || shape.dilation_y != 1 ||
      shape.dilation_x != 1 || shape.groups != 1) {
    return nullptr;
  }
  for (const WinogradForm& form : kWinogradForms) {
    if (form.tile == tile && form.stride == shape.stride_y && form.stride == shape.stride_x) {
      return &form;
    }
  }
  return nullptr;
}

bool suits_winograd(const ConvolutionShape& shape) {
  return std::ranges::any_of(kWinogradForms, [&](const WinogradForm& form) {
    return winograd_form(shape, form.tile) == &form;
  });
}

WinogradBlock winograd_block(const ConvolutionShape& shape, const WinogradKernel& kernel,
                             const WinogradPlan& plan, int threads) {
  const WinogradForm& form = *plan.form;
  const int tiles = plan.tiles;
  const bool on_the_fly = plan.transformed_blocks > 0;
  const auto values = static_cast<std::size_t>(form.all_values());
  const auto positions = static_cast<std::size_t>(form.all_positions());
  const int lanes = kernel.lanes;
  const auto slack = static_cast<std::size_t>(std::max(lanes, kernel.sum_lanes));
  WinogradBlock block;
  block.sum_stride = plan.of_image ? 0 : divide_up(tiles, lanes) * lanes;
  block.panel_stride = plan.of_image ? kernel.image_tiles : block.sum_stride;
  const int rows =
      kernel.rows * (on_the_fly ? share_of_chunk(shape, kernel, plan, threads) : plan.chunk_blocks);
  const auto panel_size = static_cast<std::size_t>(kernel.panel_bytes);
  const int channels =
      plan.by_slices ? std::min(plan.depth_step, shape.in.channels) : shape.in.channels;
  const std::size_t panel =
      static_cast<std::size_t>(channels) * static_cast<std::size_t>(block.panel_stride);
  // Of a slice, all lines are used together: they lie without gaps.
  const std::size_t value_stride = plan.of_image                   ? panel
                                   : on_the_fly && !plan.by_slices ? spread_lines(panel, panel_size)
                                                                   : odd_lines(panel, panel_size);
  const auto sum_size = static_cast<std::size_t>(kernel.sum_bytes);
  const auto sum_position = odd_lines(
      static_cast<std::size_t>(rows) * static_cast<std::size_t>(block.sum_stride), sum_size);
  block.value_stride = static_cast<std::int64_t>(value_stride);
  block.sum_position = static_cast<std::int64_t>(sum_position);
  block.slice_bytes = round_up((values * value_stride + slack) * panel_size, kCacheLine);
  block.panel_bytes = plan.by_slices ? 2 * block.slice_bytes : block.slice_bytes;
  if (!plan.of_image) {
    block.sum_bytes = round_up((positions * sum_position + slack) * sum_size, kCacheLine);
  }
  const int tiles_x = divide_up(shape.out.width, form.tile);
  const int longest = divide_up(std::min(tiles, tiles_x), lanes) * lanes;
  block.line_width = form.step * (longest + 1) + lanes;
  block.line_bytes = round_up(static_cast<std::size_t>(form.input + 1) *
                                  static_cast<std::size_t>(block.line_width) * sizeof(float),
                              kCacheLine);
  return block;
}

std::size_t winograd_multiplier_bytes(const WinogradKernel& kernel, const WinogradPlan& plan) {
  const auto terms = static_cast<std::size_t>(plan.depth_step * kernel.rows);
  if (plan.transformed_blocks == 0) {
    return round_up(terms * static_cast<std::size_t>(kernel.multiplier_bytes), kCacheLine);
  }
  return static_cast<std::size_t>(plan.form->positions) *
         winograd_transformed_stride(kernel, plan) *
         static_cast<std::size_t>(kernel.transformed_bytes);
}

std::size_t winograd_transformed_stride(const WinogradKernel& kernel, const WinogradPlan& plan) {
  const std::size_t terms = round_up(static_cast<std::size_t>(plan.depth_step * kernel.rows),
                                     static_cast<std::size_t>(kernel.weight_lanes));
  const auto blocks = static_cast<std::size_t>(plan.form->most_values() * plan.transformed_blocks);
  return odd_lines(blocks * terms, static_cast<std::size_t>(kernel.transformed_bytes));
}

int winograd_blocks_at_once(int blocks, int threads) { return blocks >= 4 * threads ? threads : 1; }

namespace {

// Whether convolve_image computes the layer.
bool is_of_image(const ConvolutionShape& shape, const WinogradKernel& kernel,
                 const WinogradForm& form) {
  return shape.in.channels == kImageChannels && form.tile == 4 && form.stride == 1 &&
         kernel.convolve_image != nullptr;
}

WinogradPlan plan_image(const ConvolutionShape& shape, const WinogradKernel& kernel,
                        const WinogradForm& form, int threads) {
  const WinogradLayer layer(shape, kernel, form);
  WinogradPlan plan = {.form = &form,
                       .tiles = std::min(kernel.image_tiles, layer.tiles),
                       .chunk_blocks = layer.blocks,
                       .of_image = true};
  const WinogradBlock block = winograd_block(shape, kernel, plan, threads);
  plan.scratch_bytes = static_cast<std::size_t>(threads) * (block.panel_bytes + block.line_bytes);
  const double vectors = divide_up(layer.tiles, kernel.sum_lanes);
  plan.cost = vectors * shape.out.channels * kOperationsPerImageVector +
              layer.input_cost(plan.tiles) + layer.output_cost();
  return plan;
}

}  // namespace

WinogradPlan plan_winograd(const ConvolutionShape& shape, const WinogradKernel& kernel,
                           const WinogradForm& form, std::size_t scratch_bytes, int threads) {
  if (is_of_image(shape, kernel, form)) return plan_image(shape, kernel, form, threads);
  const WinogradLayer layer(shape, kernel, form);
  const int positions = form.all_positions();
  const int tiles = layer.tiles;
  const int blocks = layer.blocks;
  const double weights =
      layer.terms * kernel.rows * static_cast<double>(weight_size(kernel.weights));
  const double streamed =
      static_cast<double>(shape.in.elements() + shape.out.elements()) * kernel.panel_bytes;
  const int mean_depth = divide_up(form.all_values() * shape.in.channels, positions);
  const auto cache = static_cast<double>(cpu_caches().second_bytes);
  CheapestPlan cheapest(scratch_bytes);
  const auto consider = [&](int size, int chunk_blocks) {
    const int chunks = divide_up(blocks, chunk_blocks);
    WinogradPlan plan = {.form = &form, .tiles = size, .chunk_blocks = chunk_blocks};
    const WinogradBlock block = winograd_block(shape, kernel, plan, threads);
    const double passes = divide_up(tiles, size);
    const auto at_once =
        static_cast<std::size_t>(winograd_blocks_at_once(divide_up(tiles, size), threads));
    const std::size_t block_bytes = block.panel_bytes + block.sum_bytes;
    // Of the threads that share the cache.
    const double scratch =
        static_cast<double>((cpu_caches().second_is_shared ? at_once : 1) * block_bytes);
    const double of_all =
        static_cast<double>(at_once) * (static_cast<double>(block_bytes) + streamed / passes);
    const bool shared = threads > 1 && at_once == 1;
    const double barriers = shared ? (1.0 + 2.0 * chunks) * passes * cost_of_barrier(threads) : 0.0;
    plan.bytes = weights;
    if (scratch + weights > kUsableShare * cache) {
      read_again(plan, (passes - 1.0) * weights, of_all + weights);
    }
    // By the time that a panel or a sum is read, the weights of a chunk have come in. In a cache
    // that cores share, one block leaves half to the layer's input and output; where every thread
    // has a block in it, that would be too strict.
    const bool stays = cpu_caches().second_is_shared
                           ? scratch <= (at_once > 1 ? kUsableShare : 0.5) * cache
                           : scratch + weights / chunks <= kUsableShare * cache;
    if (!stays) {
      const double again =
          2.0 * passes * static_cast<double>(block.panel_bytes + chunks * block.sum_bytes) +
          passes * (chunks - 1) * static_cast<double>(block.panel_bytes);
      read_again(plan, again, of_all + weights / chunks);
    }
    const DepthPlan depth = plan_depth(shape, kernel, block, mean_depth, chunks);
    plan.depth_step = depth.step;
    plan.cost += layer.product_cost(size) + layer.call_cost(passes) + layer.input_cost(size) +
                 layer.output_cost() + barriers + passes * positions * depth.cost +
                 plan.bytes * kOperationsPerByte;
    plan.scratch_bytes =
        at_once * block_bytes + static_cast<std::size_t>(threads) *
                                    (block.line_bytes + winograd_multiplier_bytes(kernel, plan));
    cheapest.consider(plan, cost_of_threads(plan, threads));
    return block_bytes <= scratch_bytes;
  };
  const int step = kernel.lanes * kernel.vectors;
  const int tiles_x = divide_up(shape.out.width, form.tile);
  for (int chunks = 1; chunks <= kMostChunks && chunks <= blocks; chunks *= 2) {
    const int chunk_blocks = divide_up(blocks, chunks);
    for (int size = std::min(step, tiles); consider(size, chunk_blocks) && size < tiles;) {
      size = std::min(size + step, tiles);
    }
    // Few tiles, in equal shares.
    for (int shares = 2; shares <= kMostShares; ++shares) {
      const int size = divide_up(divide_up(tiles, shares), kernel.lanes) * kernel.lanes;
      consider(std::min(size, tiles), chunk_blocks);
    }
    // Whole rows of tiles.
    for (int size = tiles_x; size < tiles && consider(size, chunk_blocks);) size += tiles_x;
  }
  return cheapest.best();
}

WinogradPlan plan_winograd_on_the_fly(const ConvolutionShape& shape, const WinogradKernel& kernel,
                                      const WinogradForm& form, std::size_t scratch_bytes,
                                      int threads, double about_equal) {
  const WinogradLayer layer(shape, kernel, form);
  const double positions = form.all_positions();
  const auto cache = static_cast<double>(cpu_caches().second_bytes);
  const double stored = static_cast<double>(shape.in.channels) * layer.blocks * kernel.rows;
  const auto weight_bytes = static_cast<double>(weight_size(kernel.weights));
  CheapestPlan cheapest(scratch_bytes, about_equal);
  const auto consider = [&](WinogradPlan plan, double input_cost) {
    const WinogradBlock block = winograd_block(shape, kernel, plan, threads);
    const double passes = divide_up(layer.tiles, plan.tiles);
    const double chunks = divide_up(layer.blocks, plan.chunk_blocks);
    const double steps = divide_up(shape.in.channels, plan.depth_step);
    const std::size_t thread_bytes =
        block.line_bytes + block.sum_bytes + winograd_multiplier_bytes(kernel, plan);
    plan.scratch_bytes = block.panel_bytes + static_cast<std::size_t>(threads) * thread_bytes;
    const double panels = (plan.by_slices ? steps : 1.0) * static_cast<double>(block.slice_bytes);
    const auto of_thread =
        static_cast<double>(block.sum_bytes + winograd_multiplier_bytes(kernel, plan));
    const double of_all = threads * of_thread;
    // Of the threads that share the cache.
    const double own = cpu_caches().second_is_shared ? of_all : of_thread;
    const double sums =
        positions * layer.blocks * kernel.rows * block.sum_stride * kernel.sum_bytes;
    const double taps = stored * kTaps * weight_bytes;
    plan.bytes = taps;
    read_again(plan, (passes - 1.0) * taps, of_all + panels + taps);
    const double transformed = form.all_values() * stored * kernel.transformed_bytes;
    const double input = static_cast<double>(shape.in.elements()) / passes * weight_bytes;
    // Two slices of the channels: the next one comes in while one is multiplied. By slices, the
    // weights alone stream, and only one of theirs is in the way.
    const double slices = (2.0 * panels + (plan.by_slices ? 1.0 : 2.0) * taps / chunks) / steps;
    const bool stays = own + slices <= kOwnShare * cache;
    if (!stays) {
      read_again(plan, 2.0 * passes * (steps * sums + transformed),
                 of_all + panels + taps / chunks);
    }
    if (plan.by_slices) {
      // The next chunk reads the input again, behind the weights of this one.
      read_again(plan, passes * (chunks - 1.0) * input, of_all + slices + input + taps / chunks);
      if (!stays) read_again(plan, 2.0 * passes * chunks * panels, of_all + slices);
    } else {
      // The next chunk reads the panels again, behind the weights of this one; the first one behind
      // the input that they are made of.
      const auto used = [&](double sums_of) {
        return panels + std::max(sums_of + taps / chunks, input);
      };
      if (used(own) > kUsableShare * cache) {
        read_again(plan, passes * (chunks + 2.0) * panels, used(of_all));
      }
    }
    // The share of the layer's weights that are transformed at once.
    const double at_once = 1.0 / (steps * divide_up(layer.blocks, plan.transformed_blocks));
    const double row = at_once * transformed / form.positions;
    const bool row_stays = row <= static_cast<double>(cpu_caches().resident_bytes);
    // Beside the row's weights those that it is made of, while its panels stream through. A cache
    // of two ways that is half too small holds nothing until it comes again.
    const double of_row = at_once * taps + row + panels / (steps * positions);
    const double beyond = of_row / static_cast<double>(cpu_caches().first_bytes) - 1.0;
    const double missed = std::clamp(2.0 * beyond, 0.0, 1.0);
    const double lines = (panels * divide_up(layer.blocks, plan.transformed_blocks) +
                          taps * (1.0 + missed * (form.positions - 1)) +
                          (row_stays ? 0.0 : 2.0 * transformed) + steps * sums) /
                         kCacheLine;
    const double transform = weight_transform_cost(kernel, form);
    const double times = times_transformed(layer.blocks, plan.chunk_blocks, threads);
    const double regions = passes * (plan.by_slices ? chunks * steps + 1.0 : 2.0);
    const double barriers = threads > 1 ? regions * cost_of_barrier(threads) : 0.0;
    plan.cost +=
        layer.product_cost(plan.tiles) + (plan.by_slices ? chunks : 1.0) * input_cost +
        layer.output_cost() + layer.call_cost(passes) * steps + barriers +
        passes * (times * stored / kernel.weight_lanes * transform + lines * line_cost(kernel) +
                  2.0 * (steps - 1.0) * sums / (kernel.sum_lanes * kernel.sum_bytes)) +
        plan.bytes * kOperationsPerByte;
    cheapest.consider(plan, cost_of_threads(plan, threads));
  };
  const auto consider_chunks = [&](int tiles, int chunk_blocks, bool by_slices, double input_cost) {
    const int share = std::max(1, chunk_blocks / threads);
    for (const int depth : kTransformedDepths) {
      if (by_slices && depth * kLeastSlices > shape.in.channels) break;
      for (int blocks = 1; blocks <= std::min(share, kMostTransformedBlocks); blocks *= 2) {
        consider({.form = &form,
                  .tiles = tiles,
                  .chunk_blocks = std::min(chunk_blocks, layer.blocks),
                  .depth_step = depth,
                  .transformed_blocks = blocks,
                  .by_slices = by_slices},
                 input_cost);
      }
      if (depth >= shape.in.channels) break;
    }
  };
  // Chunks whose blocks the threads divide evenly.
  const auto blocks_of_chunk = [&](int chunks) {
    return divide_up(divide_up(layer.blocks, chunks), threads) * threads;
  };
  const auto consider_size = [&](int size) {
    const int tiles = std::min(size, layer.tiles);
    const double input_cost = layer.input_cost(tiles);
    for (int chunks = 1; chunks <= std::min(kMostChunksOnTheFly, layer.blocks); chunks *= 2) {
      consider_chunks(tiles, blocks_of_chunk(chunks), false, input_cost);
    }
    if (threads == 1) return;
    const int most = std::min(kMostChunksOfSlices, layer.blocks);
    for (int chunks = 1, before = 0; chunks <= most; chunks += divide_up(chunks, 4)) {
      const int chunk_blocks = blocks_of_chunk(chunks);
      if (chunk_blocks != before) consider_chunks(tiles, chunk_blocks, true, input_cost);
      before = chunk_blocks;
    }
  };
  const int step = kernel.lanes * kernel.vectors;
  for (int size = step; size < layer.tiles; size *= 2) consider_size(size);
  for (int shares = 1; shares <= kMostShares; ++shares) {
    consider_size(divide_up(divide_up(layer.tiles, shares), kernel.lanes) * kernel.lanes);
  }
  return cheapest.best();
}

double cost_of_threads(const WinogradPlan& plan, int threads) {
  const CpuCaches& caches = cpu_caches();
  const double price = caches.byte_price + (threads - 1) * caches.shared_byte_price;
  return plan.cost + (price - kOperationsPerByte) * plan.bytes;
}

}  // namespace mpe
