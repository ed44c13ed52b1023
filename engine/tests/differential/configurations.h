// One network in many configurations, compared with the plain loops layer by layer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convolution_bounds.h"
#include "exec/options.h"
#include "model/network.h"
#include "random_network.h"

struct NetworkFiles {
  std::string cfg;
  std::string weights;
  std::string calibration;  // "": none
};

struct Configuration {
  std::string isa;
  std::string algorithm;  // "": chosen by the engine
  int threads = 1;
  mpe::Preference prefer = mpe::Preference::kSpeed;
};
std::string name_of(const Configuration& configuration);

// The engine's own choice and the reference loops on every instruction set of this machine, and
// every algorithm on one of them in turn.
std::vector<Configuration> random_configurations(Random& random);

using Tensors = std::vector<std::vector<float>>;

struct Outcome {
  std::string refusal;  // the engine's error; "": it ran
  Tensors layers;       // of the first image
  Tensors heads;        // of every image, one after another
  std::vector<Kernel> kernels;
};

class Comparison {
 public:
  Comparison(NetworkFiles files, const std::vector<std::vector<float>>& images);

  // Runs a configuration and compares it with the plain loops. Adds errors to findings(). Returns
  // whether it ended like the plain loops: both ran, or both refused.
  bool run(const Configuration& configuration);
  // Runs configurations that have run before, all at the same time.
  void run_at_once(const std::vector<Configuration>& configurations);
  // The same by the C interface.
  void run_by_c(const Configuration& configuration);

  const std::vector<std::string>& findings() const { return findings_; }
  const Outcome& reference() const { return reference_; }
  // Is every sum formed in int8, so that all configurations give the same bits?
  bool only_int8() const;
  // As `mpe forward --digest` prints them, one an image; none unless only_int8().
  std::vector<std::string> digests() const;
  int runs() const { return runs_; }
  // Compared layers by precision, instruction set and algorithm.
  const std::map<std::string, int>& kernels() const { return kernels_; }

 private:
  mpe::Options options_of(const Configuration& configuration) const;
  Outcome outcome_of(const Configuration& configuration);
  Tensors heads_of(const Configuration& configuration, bool keep_layers) const;
  void compare(const Configuration& configuration, const Outcome& outcome);
  std::string compare_layer(const mpe::Layer& layer, const Outcome& outcome);
  const Sums& sums_for(const mpe::Layer& layer, const Kernel& kernel, const Outcome& outcome,
                       bool same_input);
  const std::vector<float>& tensor(const Outcome& outcome, int layer) const;
  void find(const std::string& where, const std::string& what);

  const NetworkFiles files_;
  const std::vector<std::vector<float>>& images_;
  mpe::Network network_;  // only where it is not refused
  LoadedWeights weights_;
  std::vector<float> picture_;  // the first image's values of [net]
  Outcome reference_;
  std::map<int, Sums> reference_sums_;  // of layers whose input is the reference's
  Sums other_sums_;
  std::map<std::string, Tensors> heads_;  // by configuration
  std::vector<std::string> findings_;
  std::map<std::string, int> kernels_;
  int runs_ = 0;
};
