#include "kernels/convolution_cost.h"

#include <algorithm>
#include <cstdint>

#include "kernels/aligned_buffer.h"
#include "kernels/sizes.h"

namespace mpe {
namespace {

// The second-level cache of the smallest board, shared by four cores.
constexpr double kCacheBytes = 512 * 1024;
// A byte from memory takes as long as a third of a vector multiply-add: between 0.32 (Cortex-A53 at
// 1.4 GHz, A72) and 0.15 (A57, A76) by the boards' bandwidths.
constexpr double kOperationsPerByte = 1.0 / 3.0;

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
TransformCost transform_cost(int tile) {
  return tile == 2 ? TransformCost{80, 60} : TransformCost{270, 240};
}

}  // namespace

double gemm_cost(const ConvolutionShape& shape, const GemmKernel& kernel) {
  const double pixels = static_cast<double>(shape.out.height) * shape.out.width;
  const int group_rows = shape.out.channels / shape.groups;
  const double blocks = divide_up(group_rows, kernel.rows) * static_cast<double>(shape.groups);
  const int lanes = 16 / kernel.panel_bytes;
  const int vectors = std::max(1, kernel.columns / lanes);
  const double panels = pixels / kernel.columns;
  const double products =
      shape.depth() * blocks * std::max(1.0, panels) * term_cost(kernel.rows, vectors, lanes);
  const double copies = 3.0 * pixels / lanes * (shape.depth() * shape.groups + shape.out.channels);
  const double weights = static_cast<double>(shape.out.channels) * shape.depth() *
                         static_cast<double>(weight_size(kernel.weights));
  return products + copies + weights * kOperationsPerByte;
}

bool suits_winograd(const ConvolutionShape& shape) {
  return shape.kernel_y == 3 && shape.kernel_x == 3 && shape.stride_y == 1 && shape.stride_x == 1 &&
         shape.dilation == 1 && shape.groups == 1;
}

WinogradBlock winograd_block(const ConvolutionShape& shape, const WinogradKernel& kernel, int tile,
                             int tiles) {
  const auto positions = static_cast<std::size_t>((tile + 2) * (tile + 2));
  const int lanes = kernel.lanes;
  const auto slack = static_cast<std::size_t>(std::max(lanes, kernel.sum_lanes));
  WinogradBlock block;
  block.sum_stride = divide_up(tiles, lanes) * lanes;
  // The transforms write up to a vector too much.
  block.panel_stride = block.sum_stride + lanes;
  const auto rows = static_cast<std::size_t>(divide_up(shape.out.channels, kernel.rows)) *
                    static_cast<std::size_t>(kernel.rows);
  block.panel_bytes = round_up((positions * static_cast<std::size_t>(shape.in.channels) *
                                    static_cast<std::size_t>(block.panel_stride) +
                                slack) *
                                   static_cast<std::size_t>(kernel.panel_bytes),
                               kCacheLine);
  block.sum_bytes = round_up(
      (positions * rows * static_cast<std::size_t>(block.sum_stride) + slack) * sizeof(float),
      kCacheLine);
  return block;
}

WinogradPlan plan_winograd(const ConvolutionShape& shape, const WinogradKernel& kernel, int tile,
                           std::size_t scratch_bytes) {
  const int positions = (tile + 2) * (tile + 2);
  const int tiles_x = divide_up(shape.out.width, tile);
  const int tiles_y = divide_up(shape.out.height, tile);
  const int tiles = tiles_x * tiles_y;
  const int blocks = divide_up(shape.out.channels, kernel.rows);
  const double terms = static_cast<double>(positions) * shape.in.channels * blocks;
  const double weights = static_cast<double>(positions) * shape.in.channels * blocks * kernel.rows *
                         static_cast<double>(weight_size(kernel.weights));
  const TransformCost transform = transform_cost(tile);
  const double rows_of_tiles = tiles_y;
  const double transforms =
      rows_of_tiles * divide_up(tiles_x, kernel.lanes) * transform.input * shape.in.channels +
      rows_of_tiles * divide_up(tiles_x, kernel.sum_lanes) * transform.output * shape.out.channels;

  WinogradPlan best;
  const int step = kernel.lanes * kernel.vectors;
  for (int size = std::min(step, tiles);; size = std::min(size + step, tiles)) {
    const int full = tiles / size;
    const int rest = tiles % size;
    const auto products = [&](int count) {
      return count == 0 ? 0.0
                        : row_cost(kernel.rows, divide_up(count, kernel.lanes), kernel.vectors,
                                   kernel.lanes);
    };
    const WinogradBlock block = winograd_block(shape, kernel, tile, size);
    const double scratch = static_cast<double>(block.panel_bytes + block.sum_bytes);
    const double passes = full + (rest > 0 ? 1 : 0);
    double bytes = weights;
    if (scratch + weights > kCacheBytes) bytes *= passes;
    if (scratch > kCacheBytes) bytes += 2.0 * scratch * passes;
    const double cost =
        terms * (full * products(size) + products(rest)) + transforms + bytes * kOperationsPerByte;
    const bool fits = block.panel_bytes + block.sum_bytes <= scratch_bytes;
    if (best.tiles == 0 || (fits && cost < best.cost)) best = {tile, size, cost};
    if (size == tiles || !fits) return best;
  }
}

}  // namespace mpe
