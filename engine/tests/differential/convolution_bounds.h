// What a convolution must give in fp32 and fp16: sums in double, and how far a result may be off.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/network.h"

// Filters and biases of every layer with weights, batch normalisation folded in.
struct LoadedWeights {
  std::vector<std::vector<float>> filters;  // [layer]
  std::vector<std::vector<float>> biases;
};
LoadedWeights load_weights(const mpe::Network& network, const std::string& path);

struct Sums {
  std::vector<double> sums;        // before the activation
  std::vector<double> magnitudes;  // of each sum: its terms' magnitudes, added
  double magnitude = 0.0;          // the largest of them
  // The same if every weight met the largest value of its input channel: Winograd's transforms mix
  // all of a filter's weights, and all pixels of a tile, before they add.
  double mixed_magnitude = 0.0;
  double weights = 0.0;        // the largest sum of a filter's magnitudes
  double largest_input = 0.0;  // NaN if there is one
  double inputs = 0.0;         // the sum over the channels of their largest values
  int terms = 0;               // of one sum
};

// Sums over `input` for a convolutional or connected layer that works in fp32 or fp16. For fp16,
// input and filters are rounded to half first.
Sums sums_of(const mpe::Layer& layer, mpe::Precision precision, std::span<const float> filters,
             std::span<const float> biases, std::span<const float> input);

struct Kernel {
  mpe::Precision precision;
  std::string_view isa;
  std::string_view algorithm;
};

// Does the kernel sum in half precision, in which terms may overflow?
bool sums_halves(const Kernel& kernel);

// Does a value depend on inputs outside its window, if these are not finite? Winograd's transforms
// spread infinities and NaN over a tile, and the tap that makes the number of a depthwise kernel's
// taps even multiplies them by zero.
bool mixes_windows(const mpe::Layer& layer, const Kernel& kernel);

// One sentence about the first value that is further off than documented (docs/performance.md:
// "What precision costs in accuracy"), or "". The documented bounds are relative to a tensor's
// largest value; terms that cancel make that value small but not their rounding errors, so the
// largest sum of magnitudes takes its place (mixed, for Winograd's algorithm). Where that sum is
// not finite or may overflow, the values whose own sum may not are compared.
std::string outside_bounds(const mpe::Layer& layer, const Kernel& kernel, const Sums& sums,
                           std::span<const float> actual);
