// Conversions of whole tensors between the precisions in which they are stored. Tensors are planar:
// `channels` planes of `plane` values. Work is shared over the pool's threads by channel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "half.h"
#include "kernels/elementwise.h"
#include "model/precision.h"
#include "quant/quantization.h"

namespace mpe {

inline constexpr std::size_t bytes_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 4;
    case Precision::kFp16:
    case Precision::kInt16:
      return 2;
    default:
      return 1;
  }
}

// A tensor as it lies in memory. `quantization` describes int8 and int16 data and is null for the
// others.
struct TensorView {
  const void* data = nullptr;
  Precision precision = Precision::kFp32;
  const Quantization* quantization = nullptr;
};

struct MutableTensorView {
  void* data = nullptr;
  Precision precision = Precision::kFp32;
  const Quantization* quantization = nullptr;
};

// Part of one channel as float, and back: what layers that compute in float on any storage use.
// `offset` counts values from the tensor's start.
void load_values(const TensorView& from, int channel, std::int64_t offset, int count, float* values,
                 const ElementwiseKernels* vectors);
void store_values(const float* values, const MutableTensorView& to, int channel,
                  std::int64_t offset, int count, const ElementwiseKernels* vectors);

// Copies, widens, narrows, quantises, dequantises or requantises, as the two views ask. int8 to
// int8 with different quantisations goes through float: q' = clamp(rne((q - z) * float(s / s')) +
// z'). `from` and `to` may not overlap.
void convert_tensor(const TensorView& from, const MutableTensorView& to, int channels,
                    std::int64_t plane, const Workers& workers);

// Is there vector code for what convert_tensor() would do?
bool converts_by_vectors(const TensorView& from, const MutableTensorView& to);

// The smallest and largest value of a tensor; NaN is passed over. {0, 0} for one of only NaN.
Range measure_range(const TensorView& tensor, int channels, std::int64_t plane,
                    const Workers& workers);

// One pass over a tensor with a quantisation that was measured a moment ago.
void quantize_tensor(const TensorView& from, std::int8_t* to, ScaleAndZero quantization,
                     int channels, std::int64_t plane, const Workers& workers);

}  // namespace mpe
