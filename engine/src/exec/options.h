// Every knob of a session.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "threads/thread_pool.h"

namespace mpe {

enum class Preference {
  kSpeed,   // kernels' scratch as large as caches like it; the arena may grow to save copies
  kMemory,  // small scratch and weights, at the price of time; the smallest arena
};

struct Options {
  int threads = 1;  // 1 to kMaxThreads, the caller's included
  // Algorithms are chosen for so many threads; 0: for as many as there are.
  int planned_threads = 0;
  std::vector<int> cores;  // one for each thread to stay on; empty: as the system likes
  std::string isa;         // instruction set; empty: the best this machine has
  std::string algorithm;   // of convolutions, as algorithms() lists them; empty: chosen per layer
  Preference prefer = Preference::kSpeed;
  std::string calibration;   // path of a calibration file; empty: none
  float bn_epsilon = 1e-5F;  // added to batch normalisation's variance before the square root
  std::string quantizer = "builtin";  // of layers with quantize=1; or "tensorflow"
  // Path of a file that keeps the fastest algorithm of each convolution on this machine; what it
  // lacks is measured while the session opens. Empty: chosen by a model of costs.
  std::string tune;
  // Called with a description of each measurement for `tune`.
  std::function<void(const std::string&)> tuning;
  bool profile = false;            // measure every layer
  PartEnded part_ended = nullptr;  // where given, the caller executes all threads' parts
  bool keep_layers = false;        // every layer's output exists: none is computed within another's
};

}  // namespace mpe
