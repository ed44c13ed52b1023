// Weights, calibrations and inputs for random networks, from usual to adversarial.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/network.h"
#include "random_network.h"

// How far values may go.
enum class Nature {
  kUsual,        // as trained networks have them
  kHalfLimits,   // weights, biases or pixels near the largest and the smallest halves
  kAdversarial,  // anything finite: 1e30, denormals, variances of 0
};

Nature random_nature(Random& random);

// The bytes of a weights file.
std::string random_weights(const mpe::Network& network, Nature nature, Random& random);

// One image. Not always finite if the nature is adversarial.
std::vector<float> random_image(const mpe::Network& network, Nature nature, Random& random);

struct MeasuredRange {
  std::vector<float> channel_min;
  std::vector<float> channel_max;
};

// A calibration file of ranges that were measured, made wider, narrower, degenerate or arbitrary.
// `measured` holds the network's input, then every layer's output; an empty entry is unknown.
std::string random_calibration(const mpe::Network& network,
                               const std::vector<MeasuredRange>& measured, Nature nature,
                               Random& random);
