// A function of single values, as a layer of its own.
#pragma once

#include <cstdint>

#include "layers/operation.h"
#include "model/activation.h"

namespace mpe {

struct FunctionParameters {
  enum class Kind : std::uint8_t {
    kActivation,   // of the enumeration, without parameters
    kLeaky,        // x > 0 ? x : alpha x
    kElu,          // x > 0 ? x : alpha (e^x - 1)
    kHardSigmoid,  // alpha x + beta, limited to [0, 1]
    kClip,         // limited to [alpha, beta]
    kExp,
    kSqrt,
    kAbs,
    kNeg,
    kPrelu,  // x > 0 ? x : the channel's slope times x
  };
  Kind kind = Kind::kActivation;
  Activation activation = Activation::kLinear;
  float alpha = 0.0F;
  float beta = 0.0F;
};

// `slope` of the channel, for kPrelu.
float compute(const FunctionParameters& p, float x, float slope);

void reference_function(const FunctionParameters& p, const LayerCall& call);

}  // namespace mpe
