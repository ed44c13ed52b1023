// Conversions by TensorFlow's own QuantizeV2 and Dequantize.
#pragma once

#include <memory>

#include "quant/quantizer.h"

namespace mpe {

// Loads libtensorflow. Throws mpe::Error.
std::unique_ptr<Quantizer> make_tensorflow_quantizer(int threads);

}  // namespace mpe
