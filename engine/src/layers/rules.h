// The properties of a layer that planners and reports use: data, which its kind fills in.
#pragma once

#include <cstdint>
#include <string_view>

namespace mpe {

// The precision in which a layer computes, and that of its output.
enum class PrecisionRule : std::uint8_t {
  kAsked,        // both as the cfg asks: layers with weights
  kKeeps,        // moves values only: stores them in its input's format
  kJoins,        // like kRequantizes; inputs that it alone reads take its quantisation
  kRequantizes,  // computes in float; stores int8 if its range is known and its inputs are int8
  kWidens,       // computes in float; stores the widest of its inputs' precisions, never int8
  kFloat,        // computes in float and stores fp32
};

// The place of a layer's output.
enum class MemoryRule : std::uint8_t {
  kOwn,           // in memory of its own
  kView,          // the output is the first input, or a part of it
  kViewOfFloat,   // the same where the input is fp32, otherwise in memory of its own
  kInPlace,       // over an input of its size that nothing else needs any more
  kConcatenates,  // in memory of its own, of which every input's producer may write its part
  kConstant,      // outside of the arena: it is the same in every inference
  kInput,         // outside of the arena: a part of the values that the caller gives
};

// A layer's relation to the network's heads: the tensors that outlive an inference.
enum class HeadRule : std::uint8_t {
  kNone,
  kPasses,       // its output is its input, under the same name
  kReadsHead,    // its input is a head
  kReplacesHead  // its input is a head, and its own output is none
};

// The values that a layer takes from the weights file, in their order.
enum class WeightsRule : std::uint8_t {
  kNone,
  kConvolutional,  // biases, batch normalisation, weights [out][in / groups][y][x]
  kConnected,      // biases, weights [out][in] or, long ago, [in][out], batch normalisation
  kValues,         // as many as Layer::parameters, which its operation reads
};

struct LayerRules {
  PrecisionRule precision = PrecisionRule::kRequantizes;
  MemoryRule memory = MemoryRule::kOwn;
  HeadRule head = HeadRule::kNone;
  WeightsRule weights = WeightsRule::kNone;
  // kAsked: every output channel reads one input channel, which may have an int8 range of its own.
  bool channels_apart = false;
  // kView: values of the input before the output. kInput: the caller's values before the layer's.
  std::int64_t view_begin = 0;
  std::string_view algorithm = "direct";  // in reports
  // The output is the largest of every 2x2 values, which lie side by side: the convolution before
  // may pool its outputs itself.
  bool pools_pairs = false;
};

}  // namespace mpe
