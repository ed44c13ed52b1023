// The fastest algorithm of every convolution, measured once on a machine and kept in a file.
//
// The file is JSON: {"format": "mpe-tuning", "version": 1, "machines": [{"machine": "...",
// "choices": [{"layer": "...", "algorithm": "...", "ns": {"gemm": 1200, ...}}]}]}. One file serves
// several machines; a layer's name says everything that its time depends on. A layer is timed with
// caches as in its network: they hold its input, but not its weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "kernels/aligned_buffer.h"
#include "kernels/convolution.h"
#include "threads/thread_pool.h"

namespace mpe {

// Cores and instruction sets: what times that were measured here hold for. `cpuinfo` is a file like
// /proc/cpuinfo; where that does not name its processors, as in some virtual machines and
// containers, the machine's own name stands for them.
std::string machine_name(const std::string& cpuinfo = "/proc/cpuinfo");

class Tuning {
 public:
  // Reads `path` if it is there. Between two runs of a layer its network reads and writes about
  // `network_bytes`. `measuring` is told of each layer that is measured, which may take a second.
  // Throws mpe::Error where the file is none that save() wrote.
  Tuning(std::string path, std::size_t network_bytes,
         std::function<void(const std::string&)> measuring = nullptr);

  // The algorithm kept for the request on this machine; it is measured if none is. Every algorithm
  // that competes for the request is prepared and run on `pool`.
  std::string algorithm_for(const ConvolutionRequest& request, const ConvolutionChoice& choice,
                            ThreadPool& pool);

  // Writes the file if anything was measured, whole or not at all. Throws mpe::Error.
  void save();

 private:
  struct Choice {
    std::string algorithm;
    std::map<std::string, std::int64_t> nanoseconds;  // by algorithm
  };
  using Choices = std::map<std::string, Choice>;  // by layer

  void read();
  Choice measure(const ConvolutionRequest& request, ConvolutionChoice choice, ThreadPool& pool);

  std::string path_;
  int other_mebibytes_;         // of the network's other layers, a power of two
  AlignedBuffer other_layers_;  // stands for them; made when a layer is measured
  std::function<void(const std::string&)> measuring_;
  std::string machine_;
  std::map<std::string, Choices> machines_;
  bool changed_ = false;
};

}  // namespace mpe
