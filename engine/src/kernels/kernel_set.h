// What an instruction set's translation unit offers to the rest of the engine: plain functions over
// plain structs. Such a unit is compiled with flags that other machines lack, so nothing in it may
// have external linkage but its KernelSet: an inline function or template instance of the standard
// library compiled there could be picked by the linker for the whole program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu.h"
#include "kernels/row_ring.h"
#include "kernels/winograd_tiles.h"
#include "model/activation.h"
#include "model/precision.h"
#include "quant/activation_lines.h"

namespace mpe {

// Half-open range of output columns.
struct ColumnRange {
  int begin = 0;
  int end = 0;
};

// One group of a convolution. A pointwise one is described as a single row of pixels.
struct ConvolutionGeometry {
  int channels = 0;  // input channels of the group
  int in_height = 0;
  int in_width = 0;
  int out_height = 0;
  int out_width = 0;
  int kernel_y = 1;
  int kernel_x = 1;
  int stride_y = 1;
  int stride_x = 1;
  int padding_y = 0;
  int padding_x = 0;
  int dilation_y = 1;
  int dilation_x = 1;
  std::int64_t in_plane = 0;            // values from one input channel to the next
  std::int64_t out_plane = 0;           // from one output channel to the next, if none are pooled
  const ColumnRange* inside = nullptr;  // [kernel_x] output columns whose input column exists

  int pixels() const { return out_height * out_width; }
  int taps() const { return kernel_y * kernel_x; }
};

enum class OutputKind : std::uint8_t { kFloat, kHalf, kInt8 };

// What turns sums into outputs, by output channel; the rules are those of quant/requantize.h.
// fp32 and fp16 use `bias`; int8 the rest. Kernels may read up to kOutputStageSlack entries more
// than there are channels.
struct OutputStage {
  OutputKind kind = OutputKind::kFloat;
  Activation activation = Activation::kLinear;
  const float* bias = nullptr;
  const std::uint16_t* repeated_bias = nullptr;  // in half: [channel][GemmKernel::lanes]
  const std::int32_t* offset = nullptr;      // added to the sum: bias and zero point's correction
  const float* multiplier = nullptr;         // sum to real value, or to output steps if foldable
  const float* six = nullptr;                // relu6's limit in output steps
  const float* inverse_scale = nullptr;      // real value to output steps, if not foldable
  const ActivationLine* lines = nullptr;     // for int8 outputs, if not foldable
  const std::int32_t* zero_point = nullptr;  // of the output
  // int8: whatever the input, is no sum further from zero than kBoundedSum, and no output, in steps
  // and without its zero point, than kBoundedSteps? 1 or 0; null if that is not known.
  const std::uint8_t* bounded = nullptr;

  bool is_bounded(int channel) const { return bounded != nullptr && bounded[channel] != 0; }
  // Of eight channels from the given one on, those that there are.
  bool eight_bounded(int channel) const {
    if (bounded == nullptr) return false;
    std::uint64_t flags;
    __builtin_memcpy(&flags, bounded + channel, sizeof(flags));
    return flags == 0x0101010101010101;
  }
};
inline constexpr std::int32_t kBoundedSum = (1 << 22) - 1;
inline constexpr float kBoundedSteps = 32767.0F;
inline constexpr int kOutputStageSlack = 15;  // the lanes of the widest vector, less one

// How a kernel wants its weights stored.
enum class WeightFormat : std::uint8_t { kFloat, kHalf, kInt8, kInt16 };

// A share of one group's product: weights [rows][depth] times the input's patches [depth][pixels].
// `depth` runs over the taps and within a tap over the channels.
struct GemmWork {
  const ConvolutionGeometry* geometry = nullptr;
  const OutputStage* stage = nullptr;
  const void* input = nullptr;    // the group's first channel
  const void* weights = nullptr;  // the group's blocks [block][depth / unit][rows of a block][unit]
  void* output = nullptr;         // the group's first channel
  int first_channel = 0;          // of the group, into the output stage
  int rows = 0;                   // output channels of the group
  int depth = 0;                  // a multiple of the kernel's depth unit
  int block_begin = 0;            // this share's row blocks
  int block_end = 0;
  int column_begin = 0;  // this share's pixels; begins at a multiple of the kernel's columns
  int column_end = 0;
  int column_step = 0;               // pixels packed at once, a multiple of the kernel's columns
  int depth_step = 0;                // depth packed at once, a multiple of the kernel's depth unit
  std::int8_t padding_value = 0;     // int8: the input's zero point
  std::byte* panels = nullptr;       // scratch: [column_step / columns][depth_step][columns]
  std::byte* multipliers = nullptr;  // scratch: one block's weights, widened
  std::byte* sums = nullptr;         // scratch: tiles [block][column panel] if depth > depth_step
  // Scratch: the padded rows of the input under one output row, [channel][row modulo kernel_y]
  // [column modulo stride_x] of line_width values. Null: panels are gathered from the input.
  std::byte* lines = nullptr;
  int line_width = 0;
  // Scratch: a row of a channel in half, if the input is float where the kernel computes with
  // halves; null otherwise.
  std::byte* narrowed = nullptr;
};

struct GemmKernel {
  int rows = 0;              // output channels of a tile
  int lanes = 0;             // output pixels of a vector
  int columns = 0;           // output pixels of a tile
  int depth_unit = 0;        // terms of a sum that lie together
  int panel_bytes = 0;       // size of one packed input value
  int multiplier_bytes = 0;  // size of one widened weight; 0: weights are used as they are stored
  int depth_step = 0;        // depth for which one block's weights stay in the first-level cache
  int input_offset = 0;      // int8: added to every input value (and padding) in packing
  WeightFormat weights = WeightFormat::kFloat;
  bool takes_lines = false;
  bool repeats_bias = false;  // loads OutputStage::repeated_bias
  void (*run)(const GemmWork&) = nullptr;
  // The same for very few pixels: weights are packed in blocks of `vector_rows`.
  int vector_rows = 0;
  void (*run_vector)(const GemmWork&) = nullptr;
};

// A share of a depthwise convolution: output channels [channel_begin, channel_end), of which
// `multiplier` each read one input channel. Padding is zero, or an int8 input's zero point.
struct DepthwiseWork {
  const ConvolutionGeometry* geometry = nullptr;
  const OutputStage* stage = nullptr;
  const void* input = nullptr;
  const void* weights = nullptr;  // [channel][taps, made even by a zero]
  void* output = nullptr;
  const std::int32_t* tap_offsets = nullptr;  // [taps, made even] into the strip
  const std::int32_t* zero_points = nullptr;  // int8: of the input, by input channel
  int channel_begin = 0;
  int channel_end = 0;
  int row_begin = 0;  // output rows, which lie together
  int row_end = 0;
  RowRing in_rows;
  RowRing out_rows;
  int multiplier = 1;

  // Of output rows, those of one strip; and whether there is more than one strip.
  int rows_at_once() const {
    const int rows = row_end - row_begin;
    return rows < strip_rows ? rows : strip_rows;
  }
  bool has_several_strips() const { return strip_rows < row_end - row_begin; }
  // Where the output rows from y on begin, in values.
  std::int64_t output_at(int channel, int y) const {
    return channel * geometry->out_plane +
           static_cast<std::int64_t>(out_rows.place_of(y)) * geometry->out_width;
  }
  // The strip: the padded rows of one channel that strip_rows output rows read, as planes [row
  // modulo stride_y][column modulo stride_x] of plane_size values, plane_width in a row.
  int strip_rows = 0;
  int plane_width = 0;
  std::int64_t plane_size = 0;
  std::byte* strip = nullptr;
  std::byte* sums = nullptr;  // of strip_rows rows of plane_width outputs
};

struct DepthwiseKernel {
  int strip_value_bytes = 0;
  int lanes = 0;  // outputs computed at once: strip and sums are followed by so many values
  WeightFormat weights = WeightFormat::kFloat;
  void (*run)(const DepthwiseWork&) = nullptr;
};

// Winograd's F(4x4, 3x3) for int8, exact in whole numbers (generic/int8_winograd.h).
inline constexpr int kWinogradPositions = 36;              // values of a transformed tile
inline constexpr std::int32_t kInverseOfNine = 954437177;  // modulo 2^32

// Of an image: few products for each transform.
inline constexpr int kImageChannels = 3;
// Weights of an output channel at a column of positions, [channel][position] and room for whole
// vectors.
inline constexpr int kImageColumn = 24;
// Panels of an image's transformed input for int8, half of the first-level cache of the smallest
// cores, less what streams through; and values from position to position.
inline constexpr int kInt8ImagePanels = 7;

// A share of a block of tiles: input channels to transform, or blocks of output channels.
struct Int8WinogradWork {
  const ConvolutionGeometry* geometry = nullptr;
  const OutputStage* stage = nullptr;
  const std::int8_t* input = nullptr;
  // 16 bits, [block][position][depth][rows of a block], channels in pairs if the kernel has them
  // so: [depth / 2][rows of a block][2]; for convolve_image [output channel][column]
  // [kImageColumn]. For multiply_on_the_fly as they are: 8 bits, [block][channel][tap][rows].
  const void* weights = nullptr;
  int depth_step = 0;                   // channels whose weights are transformed at once, even
  std::int16_t* transformed = nullptr;  // scratch: the thread's own, [column], then as weights
  void* output = nullptr;
  bool pool = false;        // write the largest of each 2x2 outputs
  bool small_sums = false;  // that fit into 32 bits 576 times
  int tiles_x = 0;          // tiles in a row of the output
  int tile_begin = 0;       // the block of tiles
  int tile_count = 0;       // no more than fit in `panels`
  int rows = 0;             // output channels
  int depth = 0;            // input channels, made even unless convolve_image follows
  int begin = 0;            // this share
  int end = 0;
  int chunk_blocks = 0;  // row blocks whose sums are kept at once
  int padded_width = 0;  // of the rows that are copied to be transformed
  std::int8_t padding_value = 0;
  std::int16_t* panels = nullptr;    // [position][panel][depth][tile], or channels in pairs
  std::int64_t position_stride = 0;  // values from one position's panels to the next
  std::byte* scratch = nullptr;      // the thread's own: padded rows, or sums
};

struct Int8WinogradKernel {
  int tiles = 0;       // of a panel
  int few_tiles = 0;   // left over, so many take no panel: their sums lie along the rows
  int rows = 0;        // output channels of a block
  bool pairs = false;  // a multiplication adds the products of two channels, which lie together
  void (*transform_input)(const Int8WinogradWork&) = nullptr;
  void (*multiply)(const Int8WinogradWork&) = nullptr;
  // The same by weights that it transforms.
  void (*multiply_on_the_fly)(const Int8WinogradWork&) = nullptr;
  // All outputs of a block of up to kInt8ImagePanels panels, with sums in registers. Null: none.
  void (*convolve_image)(const Int8WinogradWork&) = nullptr;
};

// A share of an int8 convolution. Its panels are packed from a copy of their rows with interleaved
// channels (generic/interleaved.h). A word is `unit` channels of one pixel.
struct InterleavedWork {
  const ConvolutionGeometry* geometry = nullptr;  // rows as they are, also of a pointwise one
  const OutputStage* stage = nullptr;
  const std::int8_t* input = nullptr;
  const void* weights = nullptr;  // [block][word][rows of a block][unit]
  void* output = nullptr;
  bool pool = false;          // write the largest of each 2x2 outputs
  bool packs_pixels = false;  // see InterleavedKernel
  int rows = 0;               // output channels
  int channel_words = 0;      // of one pixel
  int depth = 0;              // words of a sum: [tap][channel word]
  int depth_step = 0;         // words packed at once
  int block_begin = 0;        // this share's row blocks
  int block_end = 0;
  int block_step = 0;   // row blocks that one panel meets before the next one
  int panel_begin = 0;  // this share's panels; where outputs are pooled, pairs of panels
  int panel_end = 0;
  int panel_step = 0;   // panels (or pairs) packed at once
  int row_words = 0;    // of the copy: [column modulo stride_x][column / stride_x], with padding
  int phase_words = 0;  // of one remainder
  const std::int32_t* tap_offsets = nullptr;  // words in the copy from the first tap to each
  std::int8_t padding_value = 0;
  std::byte* strip = nullptr;        // scratch: the copy
  std::byte* panels = nullptr;       // scratch: [panel][depth_step][columns]
  std::byte* multipliers = nullptr;  // scratch: block_step blocks' weights, widened
  std::byte* sums = nullptr;         // scratch: tiles [block][panel] if depth > depth_step
};

struct InterleavedKernel {
  int rows = 0;               // output channels of a tile
  int columns = 0;            // output pixels of a tile
  int unit = 0;               // channels of a word
  int multiplier_bytes = 0;   // size of one widened weight; 0: weights are used as they are stored
  int input_offset = 0;       // added to every input value (and padding) in the copy
  int depth_step = 0;         // words of a panel that stays in the first-level cache
  int block_bytes = 0;        // of weights that stay there beside it
  bool packs_pixels = false;  // makes panels of a pointwise convolution without the copy
  void (*run)(const InterleavedWork&) = nullptr;
};

// Bytes from one channel word's plane of the copy to the next: an odd number of cache lines, so
// that the planes do not share the few places that a cache has for multiples of its size.
constexpr std::int64_t interleaved_plane(int rows, int row_words) {
  const std::int64_t lines = (std::int64_t{4} * rows * row_words + 63) / 64;
  return (lines | 1) * 64;
}

// Input rows that `count` neighbouring output columns read, wherever they begin; `height` output
// rows make one row of columns.
constexpr int interleaved_rows(const ConvolutionGeometry& geometry, int count, int height) {
  const int most = geometry.out_height / height;
  const int spanned = (count - 1 + geometry.out_width - 1) / geometry.out_width + 1;
  const int rows = (spanned < most ? spanned : most) * height;
  return (rows - 1) * geometry.stride_y + (geometry.kernel_y - 1) * geometry.dilation_y + 1;
}

// How two int8 tensors add up: each value is (q - zero_point) * scale, the sum is rounded as
// saturate_int8(sum * inverse, zero_point of the sum).
struct Int8Addition {
  float scales[2] = {};
  std::int32_t zero_points[2] = {};
  float inverse = 1.0F;
  std::int32_t sum_zero_point = 0;
  Activation activation = Activation::kLinear;  // a simple one, of the sum
};

// Runs of values; see generic/elementwise.h.
struct ElementwiseKernels {
  // Widens [low, high] to hold all values but NaN.
  void (*measure)(const float* values, std::int64_t count, float& low, float& high);
  // Rounding and limits as in quant/requantize.h: to = saturate_int8(from * inverse, zero_point),
  // to = (from - zero_point) * scale, and the first of the second.
  void (*quantize)(const float* from, std::int8_t* to, std::int64_t count, float inverse,
                   std::int32_t zero_point);
  void (*dequantize)(const std::int8_t* from, float* to, std::int64_t count, float scale,
                     std::int32_t zero_point);
  void (*requantize)(const std::int8_t* from, std::int8_t* to, std::int64_t count,
                     std::int32_t from_zero_point, float ratio, std::int32_t zero_point);
  // The activation of sums.
  void (*add_floats)(const float* a, const float* b, float* to, std::int64_t count,
                     Activation activation);
  void (*add_halves)(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* to,
                     std::int64_t count, Activation activation);
  void (*add_bytes)(const std::int8_t* a, const std::int8_t* b, std::int8_t* to, std::int64_t count,
                    const Int8Addition& addition);
  // In place; the second computes e^x.
  void (*activate)(float* values, std::int64_t count, Activation activation);
  void (*exponentials)(float* values, std::int64_t count);
  // The largest of two neighbours in each of two rows: pooling of size and stride 2.
  void (*pool_floats)(const float* upper, const float* lower, float* to, int count);
  void (*pool_bytes)(const std::int8_t* upper, const std::int8_t* lower, std::int8_t* to,
                     int count);
  void (*pool_halves)(const std::uint16_t* upper, const std::uint16_t* lower, std::uint16_t* to,
                      int count);
};

// A share of Winograd's convolution: of one block of tiles, the input's channels, the products or
// the output's rows.
struct WinogradWork {
  const ConvolutionGeometry* geometry = nullptr;
  const OutputStage* stage = nullptr;
  const void* input = nullptr;
  RowRing in_rows;
  // Transformed: [position][block][channel][value of the position][rows of a block]. For
  // multiply_on_the_fly: [block][vector of a channel's rows][tap][lane]. For convolve_image:
  // [output channel][column][kImageColumn].
  const void* weights = nullptr;
  void* output = nullptr;
  const float* unscales = nullptr;  // of each output channel; for sums in half only
  bool pool = false;                // write the largest of each 2x2 outputs
  int depth = 0;                    // input channels
  int blocks = 0;                   // of output channels
  int chunk_blocks = 0;  // of these, those whose sums are kept at once, from first_row on
  int first_row = 0;
  int depth_step = 0;  // terms of a sum that all blocks pass over before the next ones
  int tiles_x = 0;     // tiles in a row
  int tile_begin = 0;  // the block's tiles
  int tile_count = 0;
  int channel_begin = 0;  // for transform_input and multiply_on_the_fly
  int channel_end = 0;
  int panel_channel = 0;  // the channel whose transformed input lies first in `panels`
  // For multiply: a thread's share of the units [position][block of the chunk][value of the
  // position]. It computes the blocks whose first unit is in its share.
  int unit_begin = 0;
  int unit_end = 0;
  int row_begin = 0;  // for transform_output
  int row_end = 0;
  const WinogradForm* form = nullptr;
  int panel_stride = 0;           // from row to row: channels, and a channel's values at a position
  std::int64_t value_stride = 0;  // a position's panels begin at its first value times this
  int sum_stride = 0;             // sums from row to row
  std::int64_t sum_position = 0;  // sums from position to position
  int line_width = 0;
  std::byte* panels = nullptr;          // scratch: transformed input [position][row][tile]
  std::byte* sums = nullptr;            // scratch: [position][row of the chunk][tile]
  int transformed_blocks = 0;           // for multiply_on_the_fly: at once
  std::int64_t transformed_stride = 0;  // and from position to position
  // Scratch: depth_step terms of the weights of one block, widened, or at a row of positions of
  // transformed_blocks, transformed.
  std::byte* multipliers = nullptr;
  std::byte* lines = nullptr;  // scratch: line_width values for every row of a tile, and one
};

// A power of two that makes the largest half as small as kLargestInput in winograd_weights.cpp.
inline constexpr float kSmallerInput = 0x1p-8F;

struct WinogradKernel {
  int rows = 0;       // output channels of a register tile
  int lanes = 0;      // tiles of a vector
  int sum_lanes = 0;  // tiles of a vector of sums
  int sum_bytes = 0;  // size of one
  int vectors = 0;    // vectors of a register tile
  int panel_bytes = 0;
  int multiplier_bytes = 0;   // 0: weights are used as they are stored
  bool takes_single = false;  // a tile that is left over does not cost a vector
  WeightFormat weights = WeightFormat::kFloat;
  // For each of kWinogradForms; null: there is none.
  void (*transform_input[kWinogradFormCount])(const WinogradWork&) = {};
  // Where sums are halves, else null: the same of the input times kSmallerInput.
  void (*transform_smaller_input[kWinogradFormCount])(const WinogradWork&) = {};
  void (*multiply)(const WinogradWork&) = nullptr;
  // All blocks of the chunk, by weights that it transforms; null: not for this form.
  void (*multiply_on_the_fly[kWinogradFormCount])(const WinogradWork&) = {};
  int transformed_bytes = 0;  // size of a weight so transformed
  int weight_lanes = 0;       // of a vector that is transformed
  void (*transform_output[kWinogradFormCount])(const WinogradWork&) = {};
  // By tiles of 4x4, from the transformed input of an image to the outputs, with sums in registers.
  void (*convolve_image)(const WinogradWork&) = nullptr;
  int image_tiles = 0;  // that the transformed input has room for
  // In fp16: as transform_input and transform_smaller_input, of an image that is there in float.
  void (*transform_float_image)(const WinogradWork&) = nullptr;
  void (*transform_smaller_float_image)(const WinogradWork&) = nullptr;
};

// A tile of a direct convolution: output channels [channel_begin, channel_end) of a group, output
// rows [row_begin, row_end).
struct DirectWork {
  const ConvolutionGeometry* geometry = nullptr;  // with the map's rows
  const OutputStage* stage = nullptr;
  const void* input = nullptr;    // the group's first channel
  const void* weights = nullptr;  // the group's, [output channel][channel][ky][kx]
  void* output = nullptr;         // the group's first channel
  int first_channel = 0;          // of the group, into the output stage
  int channel_begin = 0;
  int channel_end = 0;
  int row_begin = 0;
  int row_end = 0;
  int depth_step = 0;         // input channels that are worked through at one time
  int zero_point = 0;         // int8: of the input
  int sum_stride = 0;         // sums of a row, and slack for a vector
  std::byte* sums = nullptr;  // scratch: [output channel of the tile][row of the tile]
};
using DirectKernel = void (*)(const DirectWork&);

struct KernelSet {
  const char* name;
  bool (*supported)(const CpuFeatures&);
  // Indexed by Precision; null where a lower set serves as well.
  const GemmKernel* gemm[3];
  const DepthwiseKernel* depthwise[3];
  const WinogradKernel* winograd[3] = {};
  const ElementwiseKernels* elementwise = nullptr;
  const Int8WinogradKernel* int8_winograd = nullptr;
  const InterleavedKernel* interleaved = nullptr;
};

#if defined(__aarch64__)
extern const KernelSet kNeonKernels;
extern const KernelSet kNeonInOrderKernels;  // the same, scheduled for in-order cores
extern const KernelSet kNeonFp16Kernels;
extern const KernelSet kNeonDotprodKernels;
#elif defined(__x86_64__)
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512VnniKernels;
#endif

}  // namespace mpe
