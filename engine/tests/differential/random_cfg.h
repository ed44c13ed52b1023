// Random cfgs of every layer kind, from usual to absurd, as the seed decides.
#pragma once

#include <string>

#include "random_network.h"

// What a cfg asks of its layers.
enum class Policy { kFp32, kFp16, kInt8, kDynamicInt8, kInt8OfBothKinds, kMixed };

struct RandomCfg {
  std::string text;
  Policy policy = Policy::kFp32;
};

// A cfg of at most 14 layers with at most 60,000 activations, 300,000 weights and 1.5 million
// multiply-adds, so that the plain loops are fast; sizes, paddings, strides and dilations go up to
// the parser's limits. About one in twenty ends with a layer that the parser refuses.
RandomCfg random_differential_cfg(Random& random);

// The same cfg with every layer in fp32.
std::string without_precisions(const std::string& cfg);
