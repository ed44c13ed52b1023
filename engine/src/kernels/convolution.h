// A convolution (or connected layer: 1x1 over a 1x1 map) prepared for one instruction set and one
// algorithm: its weights packed, its scratch known, ready to run without allocating.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/row_ring.h"
#include "model/activation.h"
#include "model/filters.h"
#include "model/precision.h"
#include "model/shape.h"
#include "quant/quantization.h"
#include "threads/thread_pool.h"

namespace mpe {

struct ConvolutionShape {
  Shape in;
  Shape out;
  int kernel_y = 1;
  int kernel_x = 1;
  int stride_y = 1;
  int stride_x = 1;
  int padding_y = 0;  // rows above; those below follow from `out`
  int padding_x = 0;  // columns to the left; those to the right follow from `out`
  int dilation_y = 1;
  int dilation_x = 1;
  int groups = 1;

  bool depthwise() const {
    return groups > 1 && groups == in.channels && in.channels == out.channels;
  }
  // Does every output read one pixel, that of its own place?
  bool pointwise() const {
    return kernel_y == 1 && kernel_x == 1 && stride_y == 1 && stride_x == 1 && padding_y == 0 &&
           padding_x == 0 && in.height == out.height && in.width == out.width;
  }
  int depth() const { return in.channels / groups * kernel_y * kernel_x; }  // terms of one sum
  // Pixels from the kernel's first tap to its last.
  std::int64_t extent_y() const { return std::int64_t{kernel_y - 1} * dilation_y + 1; }
  std::int64_t extent_x() const { return std::int64_t{kernel_x - 1} * dilation_x + 1; }
};

struct ConvolutionRequest {
  ConvolutionShape shape;
  Activation activation = Activation::kLinear;
  // The precision of the sums and of the input: fp32 reads float, fp16 half, int8 int8.
  Precision precision = Precision::kFp32;
  // The precision of the output. fp32 and fp16 convolutions write their own precision; an int8
  // convolution writes int8 (with `output`) or, straight from its sums, float.
  Precision output_precision = Precision::kFp32;
  Filters weights;              // batch norm folded
  std::span<const float> bias;  // [out channels]
  // int8: the steps of the weights, [out channels]. Empty: they follow from the weights.
  std::span<const float> weight_scales;
  // int8 only. Null input: the range is measured at every run and handed to run().
  const Quantization* input = nullptr;
  const Quantization* output = nullptr;

  // Of one output channel; valid until the next call.
  std::span<const float> filter(int channel) const {
    return weights.filter(channel, shape.depth());
  }
  // int8: the step of an output channel's weights.
  float weight_scale(int channel) const;
  // The largest of each 2x2 outputs is all that is wanted: see Convolution::pools().
  bool may_pool = false;
  // fp16: the input is there in float: see Convolution::reads_floats().
  bool may_read_floats = false;
};

// An input's quantisation where it changes from run to run (quantize=1): always per tensor.
struct ConvolutionCall {
  const void* input = nullptr;  // CHW in the request's precision, or float: reads_floats()
  void* output = nullptr;       // CHW in the request's output precision
  std::byte* scratch = nullptr;
  const ScaleAndZero* dynamic_input = nullptr;  // set exactly when the request had no `input`
};

// A tensor of which some rows are there: CHW, `plane` values from one channel to the next.
struct TensorRows {
  std::byte* data = nullptr;
  std::int64_t plane = 0;
  RowRing rows;

  // Where row y of the first channel begins.
  std::byte* row(int y, int width, std::size_t value_bytes) const {
    return data + static_cast<std::size_t>(rows.place_of(y)) * static_cast<std::size_t>(width) *
                      value_bytes;
  }
  // Where row 0 would begin, for code that counts rows from there: those that lie together with
  // row y are where it finds them.
  std::byte* origin(int y, int width, std::size_t value_bytes) const {
    return row(y, width, value_bytes) - std::int64_t{y} * width * static_cast<int>(value_bytes);
  }
};

// Output rows [begin, end) of a convolution, pooled ones where it pools, or one of several parts of
// their work.
struct RowsCall {
  TensorRows input;  // is not written; float where reads_floats()
  TensorRows output;
  int begin = 0;
  int end = 0;
  std::byte* scratch = nullptr;
  int part = 0;
  int parts = 1;

  // Where this part of `count` equal pieces of work begins.
  int first_of(int count) const { return border(count, part); }
  int end_of(int count) const { return border(count, part + 1); }

 private:
  int border(int count, int i) const { return static_cast<int>(std::int64_t{count} * i / parts); }
};

// Calls run(y, rows) for runs of rows that lie together in the input and the output of a pointwise
// convolution.
template <typename Run>
void for_joined_rows(const RowsCall& call, Run&& run) {
  for (int y = call.begin; y < call.end;) {
    const int rows =
        std::min({call.end - y, call.input.rows.together(y), call.output.rows.together(y)});
    run(y, rows);
    y += rows;
  }
}

class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual void run(const ConvolutionCall& call, ThreadPool& pool) const = 0;
  virtual std::size_t scratch_bytes(int threads) const = 0;
  // Can it compute some rows of the output, with row_scratch_bytes() for each thread? Threads may
  // execute parts of a call at the same time.
  virtual bool computes_rows() const { return false; }
  // May some rows of the input be all that is there? If not, a chain of rows begins here.
  virtual bool reads_ring() const { return true; }
  // A call begins at a multiple of so many rows: tiles have as many, or the float sums of a block
  // of rows have an order.
  virtual int row_step() const { return 1; }
  // May an output row lie where the input row lies that is padding_y before it? The outputs of a
  // call then overwrite what no later call reads.
  virtual bool rows_in_place() const { return false; }
  virtual void run_rows(const RowsCall& /*call*/) const {}
  virtual std::size_t row_scratch_bytes() const { return scratch_bytes(1); }
  // Whether the output may lie where an input of the same size and precision lies.
  virtual bool works_in_place() const { return false; }
  virtual std::size_t weight_bytes() const = 0;    // packed weights, biases and multipliers
  virtual std::string_view isa() const = 0;        // "reference", "neon", "avx2", ...
  virtual std::string_view algorithm() const = 0;  // "reference", "gemm", "depthwise", ...
  // Does run() write the largest of each 2x2 outputs only? The request allowed it.
  virtual bool pools() const { return false; }
  // Does run() read floats and round each to half by itself? The request allowed it.
  virtual bool reads_floats() const { return false; }
};

struct ConvolutionChoice {
  std::string_view isa;  // empty: the best this machine has
  // Empty: chosen by the engine; "reference": the loops that all others are compared with; a
  // classical technique (kernels/classical/technique.h): that one and all before it.
  std::string_view algorithm;
  bool small_scratch = false;  // less memory for scratch and weights, at the price of time
  bool in_place = true;        // where the algorithm can
  // What scratch may take with so many threads, where an algorithm has a choice. Small scratch may
  // take as much only to transform weights on the fly.
  std::size_t scratch_bytes = 6U << 20U;
  // The same if all layers ran in this layer's precision; empty: scratch_bytes. It decides which
  // algorithm is chosen, scratch_bytes only how large its blocks are. So the weights that a layer
  // keeps do not depend on the precisions of others, and `harness search` can add them up.
  std::optional<std::size_t> uniform_scratch_bytes = std::nullopt;
  int threads = 1;

  ConvolutionChoice with_uniform_scratch() const {
    ConvolutionChoice other = *this;
    other.scratch_bytes = uniform_scratch_bytes.value_or(scratch_bytes);
    return other;
  }
};

// Prepares the convolution with the best kernel that the choice allows; a set without a kernel for
// it falls back to the next one down. Throws mpe::Error on a name that does not exist or that this
// machine cannot run. (Defined in kernels/select.cpp.)
std::unique_ptr<Convolution> make_convolution(const ConvolutionRequest& request,
                                              const ConvolutionChoice& choice);

// The limit of a convolution's scratch for this shape and number of threads. It is proportional to
// the input, output and weights, which the model's files ask for anyway. The code that allocates
// scratch checks it. No algorithm that the engine chooses by itself comes near.
std::size_t scratch_limit(const ConvolutionShape& shape, int threads);

// Whether an int8 convolution may pool its sums in place of its outputs: may_pool, and an
// activation that keeps the order of values.
bool pools_by_sums(const ConvolutionRequest& request);

// The plain loops. (Defined in reference/.)
std::unique_ptr<Convolution> make_reference_convolution(const ConvolutionRequest& request);

}  // namespace mpe
