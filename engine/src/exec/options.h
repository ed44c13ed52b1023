// Every knob of a session.
#pragma once

#include <string>

namespace mpe {

inline constexpr int kMaxThreads = 256;

enum class Preference {
  kSpeed,   // kernels' scratch as large as caches like it; the arena may grow to save copies
  kMemory,  // small scratch and weights, at the price of time; the smallest arena
};

struct Options {
  int threads = 1;        // 1 to kMaxThreads, the caller's included
  std::string isa;        // instruction set; empty: the best this machine has
  std::string algorithm;  // of convolutions, as algorithms() lists them; empty: chosen per layer
  Preference prefer = Preference::kSpeed;
  std::string calibration;   // path of a calibration file; empty: none
  float bn_epsilon = 1e-5F;  // added to batch normalisation's variance before the square root
  std::string quantizer = "builtin";  // of layers with quantize=1; or "tensorflow"
  bool profile = false;               // measure every layer
};

}  // namespace mpe
