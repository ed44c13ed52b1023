// Decides in which precision every tensor is stored and where a conversion is needed.
//
// A convolution works in the precision the cfg asks for. Its input is converted if it arrives in
// another. fp32 and fp16 convolutions store their outputs in their own precision. An int8
// convolution stores int8 if the calibration knows its output's range and some layer behind it,
// possibly through layers that work in whatever they receive, works in int8, or stores what a
// published model stores as int8; otherwise it writes float straight from its sums. All other
// layers keep the precision they receive; where several inputs meet in different ones, the widest
// (fp32, fp16, int8).
//
// An int8 tensor has the calibrated range of its layer, with these exceptions:
//   - layers that only move values keep their input's quantisation;
//   - a tensor that ends only in one int8 route takes the route's range, so that the route is a
//   copy
//     (or nothing at all, see arena.h) instead of a requantisation;
//   - a tensor that only int8 depthwise convolutions read has a range per channel.
#pragma once

#include <string>
#include <vector>

#include "model/network.h"
#include "quant/calibration.h"
#include "quant/quantization.h"

namespace mpe {

struct TensorFormat {
  Precision precision = Precision::kFp32;
  Quantization quantization;  // int8 only
};

// What happens to the input of a convolution before it runs.
enum class InputConversion {
  kNone,
  kStatic,   // to `converted`, which is known
  kDynamic,  // to int8 with the range measured at that moment
};

struct LayerFormat {
  Precision executed = Precision::kFp32;
  TensorFormat output;
  Precision received = Precision::kFp32;  // of a convolution's input, as it arrives
  InputConversion conversion = InputConversion::kNone;
  std::vector<float> weight_scales;  // int8: of the output channels, as published; or empty
  TensorFormat converted;  // of the input as the convolution reads it; kDynamic: no quantisation
};

struct PrecisionPlan {
  std::vector<LayerFormat> layers;
  std::vector<std::string> warnings;  // layers that cannot execute as asked, one sentence each
};

// `calibration` may be null. Throws mpe::Error if an int8 layer needs a range that is not there.
PrecisionPlan plan_precisions(const Network& network, const Calibration* calibration);

}  // namespace mpe
