// The options of `mpe bench` and `mpe forward`.
#pragma once

#include <span>
#include <string>

#include "exec/options.h"

namespace mpe {

struct RunArguments {
  std::string cfg;
  std::string weights;
  Options session;
  // forward
  std::string input;
  std::string heads;   // directory for head tensors; empty: none are written
  std::string layers;  // directory for every layer's output; empty: none are written
  bool digest = false;
  // bench
  int warmup = 3;
  int runs = 30;
  double min_seconds = 0.0;
  bool mark = false;
};

enum class Command { kBench, kForward };

// Throws mpe::Error, naming the option and the nearest known one, if anything does not fit.
RunArguments parse_arguments(Command command, std::span<char*> arguments);

}  // namespace mpe
