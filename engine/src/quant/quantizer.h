// Who converts the inputs of layers with quantize=1 between float and int8, in every inference.
// All quantizers give the same bits (see quantization.h and requantize.h for the rule).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "quant/convert.h"

namespace mpe {

class Quantizer {
 public:
  virtual ~Quantizer() = default;

  // Called once for every tensor that will be converted, before the first inference.
  virtual void prepare(const TensorView& from, std::int64_t elements) = 0;

  // fp32 or fp16 to int8, with a quantisation that was measured a moment ago.
  virtual void quantize(const TensorView& from, std::int8_t* to, ScaleAndZero quantization,
                        int channels, std::int64_t plane, const Workers& workers) = 0;

  // int8 with one quantisation for the whole tensor to fp32 or fp16. Returns where the values are:
  // at `to`, or in memory of the quantizer's own that holds them until its next call.
  virtual const void* dequantize(const TensorView& from, const MutableTensorView& to, int channels,
                                 std::int64_t plane, const Workers& workers) = 0;
};

// By name: "builtin" (this engine's own loops) or "tensorflow" (QuantizeV2 and Dequantize of
// libtensorflow, which is loaded now). `threads` is how many TensorFlow may use. Throws mpe::Error
// for another name, or where libtensorflow cannot be loaded.
std::unique_ptr<Quantizer> make_quantizer(std::string_view name, int threads);

}  // namespace mpe
