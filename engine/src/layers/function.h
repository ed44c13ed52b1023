// A function of single values, as a layer of its own.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/activation.h"
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

// A function of `kind`, with the rest of the parameters. `slope` of the channel, for kPrelu.
inline float compute(FunctionParameters::Kind kind, const FunctionParameters& p, float x,
                     float slope) {
  using Kind = FunctionParameters::Kind;
  switch (kind) {
    case Kind::kActivation:
      return activate(p.activation, x);
    case Kind::kLeaky:
      return x > 0.0F ? x : p.alpha * x;
    case Kind::kElu:
      return x > 0.0F ? x : p.alpha * elu(x);
    case Kind::kHardSigmoid:
      return smaller(1.0F, larger(0.0F, p.alpha * x + p.beta));
    case Kind::kClip:
      return smaller(p.beta, larger(p.alpha, x));
    case Kind::kExp:
      return exponential(x);
    case Kind::kSqrt:
      return std::sqrt(x);
    case Kind::kAbs:
      return std::fabs(x);
    case Kind::kNeg:
      return -x;
    case Kind::kPrelu:
      return x > 0.0F ? x : slope * x;
  }
  return x;
}

void reference_function(const FunctionParameters& p, const LayerCall& call);

}  // namespace mpe
