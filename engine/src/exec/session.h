// A network ready to run: weights packed, memory planned, threads started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/options.h"
#include "exec/row_chain.h"
#include "exec/tuning.h"
#include "kernels/convolution.h"
#include "layers/operation.h"
#include "model/network.h"
#include "plan/memory.h"
#include "plan/precision.h"
#include "quant/quantizer.h"
#include "threads/thread_pool.h"

namespace mpe {

// What one layer does when the session runs.
struct LayerReport {
  Precision executed = Precision::kFp32;  // of sums, or of what a layer without weights stores
  std::string_view isa;
  std::string_view algorithm;
  // Read and written in one inference, weights and conversions included, in a cache or in memory.
  std::int64_t bytes = 0;
  bool by_rows = false;  // together with neighbours, a few rows at a time: exec/row_chain.h
  // Of the last run, with Options::profile.
  std::int64_t nanoseconds = 0;             // conversions included
  std::int64_t conversion_nanoseconds = 0;  // of the input, between precisions
};

class Session {
 public:
  // Throws mpe::Error if a file is bad or the options cannot be met.
  Session(const std::string& cfg, const std::string& weights, const Options& options);
  ~Session();

  const Network& network() const { return network_; }
  // Of the cfg, and of layers that cannot run as asked.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Runs one image of [channels][height][width] floats. Allocates nothing. The input must stay
  // where it is for as long as heads are read.
  void run(std::span<const float> input);

  // The same, calling `after` with each layer's index as soon as its output is there: the only
  // moment at which every layer's output can be read; and `converted`, if any, as soon as its input
  // has been converted between precisions. With one thread, `after` is also called whenever some
  // rows of a layer have been computed that is computed by rows.
  void run(std::span<const float> input, const std::function<void(int)>& after,
           const std::function<void(int)>& converted = nullptr);

  // Layers whose output outlives the run; see find_heads().
  const std::vector<int>& heads() const { return heads_; }

  // The output of a layer as float, whatever it is stored in. `values` has the output's size.
  void read(int layer, std::span<float> values);

  const std::vector<LayerReport>& reports() const { return reports_; }
  int threads() const { return pool_.threads(); }
  std::string_view isa() const { return isa_; }
  std::int64_t arena_bytes() const { return memory_.arena_bytes; }
  std::int64_t live_bytes() const { return memory_.live_bytes; }
  std::int64_t weight_bytes() const { return weight_bytes_; }

 private:
  struct Step;
  // In bytes: ConvolutionChoice's scratch_bytes and uniform_scratch_bytes.
  struct ScratchLimit {
    std::int64_t allowed = 0;
    std::int64_t uniform = 0;
  };
  void prepare_convolution(const Layer& layer, const Filters& weights, std::span<const float> bias,
                           const Options& options, const ScratchLimit& limit, Tuning* tuning);
  std::vector<ScratchLimit> scratch_limits(const Options& options);
  std::size_t bytes_of_layers() const;
  bool only_pooled(const Layer& layer) const;
  bool is_only_reader(const Layer& layer, int input) const;
  void chain_rows();
  void add_chain(std::vector<RowLink>& links);
  void prepare_steps();
  void report(const Layer& layer);
  void execute(Step& step, const std::function<void(int)>& after,
               const std::function<void(int)>& converted);
  void execute_chain(Step& step, const std::function<void(int)>& after);
  void execute_convolution(Step& step, const std::function<void(int)>& converted);
  void convert_input(Step& step, ConvolutionCall& call, ScaleAndZero& measured);
  TensorView view(int tensor) const;

  Network network_;
  PrecisionPlan precisions_;
  ElementwiseChoice elementwise_;
  ThreadPool pool_;
  const int planned_threads_;
  Workers workers_;
  std::unique_ptr<Quantizer> quantizer_;
  std::vector<std::unique_ptr<Convolution>> convolutions_;  // null for layers without filters
  std::vector<std::unique_ptr<RowChain>> chains_;           // at the last layer of each
  std::vector<std::vector<float>> values_;                  // of layers with WeightsRule::kValues
  std::vector<LayerScratch> scratch_;
  MemoryPlan memory_;
  std::vector<int> heads_;
  std::vector<LayerReport> reports_;
  std::vector<Step> steps_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> arena_;
  std::vector<std::string> warnings_;
  std::string isa_;
  const float* input_ = nullptr;
  std::int64_t weight_bytes_ = 0;
  bool profile_ = false;
};

}  // namespace mpe
