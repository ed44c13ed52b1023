#include "kernels/convolution_cost.h"

#include <algorithm>
#include <cstdint>

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
// Of a cache, beside the layer's input and output, which stream through it. With all of it, a layer
// of 80 to 64 channels read its weights again for every block of tiles on a Cortex-A72.
constexpr double kUsableShare = 0.875;
// Shares of a layer that Winograd's plans try, of its output channels and of its tiles.
constexpr int kMostChunks = 8;
constexpr int kMostShares = 4;
// Of Winograd's kernels beside their vectors: for a position and a block of output channels, and
// for a channel of a row of tiles.
constexpr double kOperationsPerProduct = 80.0;
constexpr double kOperationsPerSegment = 150.0;

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
  return form.tile == 2 ? TransformCost{80, 60} : TransformCost{270, 240};
}

// `count` values of a size, and as many more as make an odd number of cache lines.
std::size_t odd_lines(std::size_t count, std::size_t size) {
  return (divide_up(count * size, kCacheLine) | 1U) * kCacheLine / size;
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
    const double cost = lines * kOperationsPerLine +
                        2.0 * (steps - 1) * sums / (kernel.sum_lanes * kernel.sum_bytes);
    if (best.step == 0 || cost < best.cost) best = {step, cost};
    if (stays || step == 1) return best;
  }
}

}  // namespace

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
                             const WinogradForm& form, int tiles, int chunk_blocks) {
  const auto values = static_cast<std::size_t>(form.all_values());
  const auto positions = static_cast<std::size_t>(form.all_positions());
  const int lanes = kernel.lanes;
  const auto slack = static_cast<std::size_t>(std::max(lanes, kernel.sum_lanes));
  WinogradBlock block;
  block.sum_stride = divide_up(tiles, lanes) * lanes;
  block.panel_stride = block.sum_stride;
  const int rows = chunk_blocks * kernel.rows;
  const auto panel_size = static_cast<std::size_t>(kernel.panel_bytes);
  const auto value_stride = odd_lines(
      static_cast<std::size_t>(shape.in.channels) * static_cast<std::size_t>(block.panel_stride),
      panel_size);
  const auto sum_size = static_cast<std::size_t>(kernel.sum_bytes);
  const auto sum_position = odd_lines(
      static_cast<std::size_t>(rows) * static_cast<std::size_t>(block.sum_stride), sum_size);
  block.value_stride = static_cast<std::int64_t>(value_stride);
  block.sum_position = static_cast<std::int64_t>(sum_position);
  block.panel_bytes = round_up((values * value_stride + slack) * panel_size, kCacheLine);
  block.sum_bytes = round_up((positions * sum_position + slack) * sum_size, kCacheLine);
  const int tiles_x = divide_up(shape.out.width, form.tile);
  const int longest = divide_up(std::min(tiles, tiles_x), lanes) * lanes;
  block.line_width = form.step * (longest + 1) + lanes;
  block.line_bytes = round_up(static_cast<std::size_t>(form.input + 1) *
                                  static_cast<std::size_t>(block.line_width) * sizeof(float),
                              kCacheLine);
  return block;
}

std::size_t winograd_multiplier_bytes(const WinogradKernel& kernel, int depth_step) {
  return round_up(static_cast<std::size_t>(depth_step) *
                      static_cast<std::size_t>(kernel.rows * kernel.multiplier_bytes),
                  kCacheLine);
}

int winograd_blocks_at_once(int blocks, int threads) { return blocks >= 4 * threads ? threads : 1; }

WinogradPlan plan_winograd(const ConvolutionShape& shape, const WinogradKernel& kernel,
                           const WinogradForm& form, std::size_t scratch_bytes, int threads) {
  const int positions = form.all_positions();
  const int values = form.all_values();
  const int tiles_x = divide_up(shape.out.width, form.tile);
  const int tiles_y = divide_up(shape.out.height, form.tile);
  const int tiles = tiles_x * tiles_y;
  const int blocks = divide_up(shape.out.channels, kernel.rows);
  const double terms = static_cast<double>(values) * shape.in.channels * blocks;
  const double weights = terms * kernel.rows * static_cast<double>(weight_size(kernel.weights));
  const int mean_depth = divide_up(values * shape.in.channels, positions);
  const TransformCost transform = transform_cost(form);
  const double rows_of_tiles = tiles_y;
  const double transforms =
      rows_of_tiles * divide_up(tiles_x, kernel.lanes) * transform.input * shape.in.channels +
      divide_up(tiles, kernel.sum_lanes) * transform.output * shape.out.channels;

  const auto products = [&](int count) {
    return count == 0 ? 0.0
                      : row_cost(kernel.rows, divide_up(count, kernel.lanes), kernel.vectors,
                                 kernel.lanes);
  };
  const auto cache = static_cast<double>(cpu_caches().second_bytes);
  WinogradPlan best;
  std::size_t best_bytes = 0;
  const auto consider = [&](int size, int chunk_blocks) {
    const int chunks = divide_up(blocks, chunk_blocks);
    const int full = tiles / size;
    const int rest = tiles % size;
    const WinogradBlock block = winograd_block(shape, kernel, form, size, chunk_blocks);
    const double passes = full + (rest > 0 ? 1 : 0);
    const auto at_once =
        static_cast<std::size_t>(winograd_blocks_at_once(divide_up(tiles, size), threads));
    const std::size_t block_bytes = block.panel_bytes + block.sum_bytes;
    const double scratch = static_cast<double>(block_bytes);
    double bytes = weights;
    if (scratch + weights > kUsableShare * cache) bytes *= passes;
    // The layer's input and output stream through the same cache.
    if (scratch > cache / 2) {
      bytes += 2.0 * passes * static_cast<double>(block.panel_bytes + chunks * block.sum_bytes) +
               passes * (chunks - 1) * static_cast<double>(block.panel_bytes);
    }
    const DepthPlan depth = plan_depth(shape, kernel, block, mean_depth, chunks);
    const double segments = passes + std::max<double>(passes, tiles_y);
    const double calls = passes * positions * blocks * kOperationsPerProduct +
                         segments * shape.in.channels * kOperationsPerSegment;
    const double cost = terms * (full * products(size) + products(rest)) + calls +
                        passes * positions * depth.cost + transforms + bytes * kOperationsPerByte;
    // The cheapest plan that fits; if none fits, the smallest one.
    const std::size_t thread_bytes =
        block.line_bytes + winograd_multiplier_bytes(kernel, depth.step);
    const std::size_t all_bytes =
        at_once * block_bytes + static_cast<std::size_t>(threads) * thread_bytes;
    const bool fits = all_bytes <= scratch_bytes;
    const bool fitted = best_bytes <= scratch_bytes;
    if (best.tiles == 0 || (fits && !fitted) ||
        (fits == fitted && (fits ? cost < best.cost : all_bytes < best_bytes))) {
      best = {&form, size, chunk_blocks, depth.step, cost};
      best_bytes = all_bytes;
    }
    return block_bytes <= scratch_bytes;
  };
  const int step = kernel.lanes * kernel.vectors;
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
  }
  return best;
}

}  // namespace mpe
