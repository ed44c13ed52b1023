// What an algorithm costs for a shape: operations on vectors, and the bytes that do not stay in the
// second-level cache in the same unit. The numbers are the same on every machine with the same
// instruction set, so that a network runs the same algorithms and needs the same memory on a board,
// under emulation and wherever it is predicted.
#pragma once

#include <cstdint>

#include "kernels/convolution.h"
#include "kernels/kernel_set.h"

namespace mpe {

double gemm_cost(const ConvolutionShape& shape, const GemmKernel& kernel);
// That of a layer of its own that pools the outputs, which Winograd's algorithm does by the way.
double pooling_cost(const ConvolutionShape& shape, const GemmKernel& kernel);

// The form of Winograd's algorithm with tiles of m x m outputs that can compute this shape; null:
// there is none.
const WinogradForm* winograd_form(const ConvolutionShape& shape, int tile);
bool suits_winograd(const ConvolutionShape& shape);

// Of eight floats or more, as x86-64 has them.
bool has_wide_vectors(const WinogradKernel& kernel);

struct WinogradPlan {
  const WinogradForm* form = nullptr;
  int tiles = 0;         // tiles of a block
  int chunk_blocks = 0;  // blocks of output channels whose sums are kept at once
  int depth_step = 0;    // terms of the sums that are multiplied before the next ones
  // Where weights are transformed on the fly: blocks of output channels whose weights are at once.
  int transformed_blocks = 0;
  // On the fly, too: of the transformed input, only depth_step channels are kept, and those that
  // come next. Every chunk of output channels transforms the input again.
  bool by_slices = false;
  bool of_image = false;          // by convolve_image: there are no sums in memory
  std::size_t scratch_bytes = 0;  // of all threads
  double cost = 0.0;              // as above
  double bytes = 0.0;             // of the cost, those that do not stay in the second-level cache
};

// Blocks of tiles that threads work on at one time. Every thread has blocks of its own, unless
// there are too few of them: then all threads work on one block after the other.
int winograd_blocks_at_once(int blocks, int threads);

// The cheapest block size with at most `scratch_bytes` of scratch for all `threads` together; the
// smallest block if none fits.
WinogradPlan plan_winograd(const ConvolutionShape& shape, const WinogradKernel& kernel,
                           const WinogradForm& form, std::size_t scratch_bytes, int threads);

// The same with weights that are transformed on the fly. All threads work on a block of tiles, each
// on its share of every chunk of output channels. Of plans that cost less than `about_equal` times
// the cheapest, the one with the least scratch.
WinogradPlan plan_winograd_on_the_fly(const ConvolutionShape& shape, const WinogradKernel& kernel,
                                      const WinogradForm& form, std::size_t scratch_bytes,
                                      int threads, double about_equal = 1.0);
// The cost of all threads' work on this core: they divide the operations between them, and share
// the memory.
double cost_of_threads(const WinogradPlan& plan, int threads);

// The scratch of a block of tiles: transformed input and sums. On the fly the sums are those of a
// thread's share of a chunk.
struct WinogradBlock {
  int panel_stride = 0;  // values of a row of the transformed input
  int sum_stride = 0;    // sums of a row
  // An odd number of cache lines, so that the positions of a tile do not meet in a few sets of the
  // first-level cache: for each value of a position's transformed input, and of its sums.
  std::int64_t value_stride = 0;
  std::int64_t sum_position = 0;
  std::size_t panel_bytes = 0;
  std::size_t slice_bytes = 0;  // of these, the ones of a slice; all, if there are no slices
  std::size_t sum_bytes = 0;
  // Every thread's own: the lines of a segment of tiles, and one of zeros.
  int line_width = 0;
  std::size_t line_bytes = 0;
};
WinogradBlock winograd_block(const ConvolutionShape& shape, const WinogradKernel& kernel,
                             const WinogradPlan& plan, int threads);
// Also every thread's own: so many terms of the weights of a block of rows, widened, or of some
// blocks, transformed.
std::size_t winograd_multiplier_bytes(const WinogradKernel& kernel, const WinogradPlan& plan);
// Transformed weights from position to position: an odd number of cache lines, as above.
std::size_t winograd_transformed_stride(const WinogradKernel& kernel, const WinogradPlan& plan);

}  // namespace mpe
