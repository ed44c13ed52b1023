// The instruction sets of the engine and of this machine, for `mpe caps` and for choosing.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/precision.h"

namespace mpe {

// What a convolution of one kind and precision would run on.
struct KernelUse {
  std::string_view kind;  // "convolutional", "depthwise", "connected"
  Precision precision = Precision::kFp32;
  std::string_view isa;  // the set, or the one below it that serves instead
  std::string_view algorithm;
};

struct KernelSetInfo {
  std::string_view name;
  bool supported = false;  // by this machine
  std::vector<KernelUse> kernels;
};

// All sets of this architecture, best first; the last is "reference".
std::vector<KernelSetInfo> kernel_sets();

// Algorithms of which the fastest may be chosen by measuring; not all suit every shape.
std::span<const std::string_view> competing_algorithms();

// The names that a convolution's algorithm may be forced to: those that the engine chooses from,
// then, in an engine for the ablation, the classical techniques (kernels/classical/technique.h).
std::vector<std::string_view> algorithms();

// The name of the best set that this machine can run.
std::string_view best_kernel_set();

}  // namespace mpe
