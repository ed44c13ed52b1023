// The computation of a layer: the parameters that only its kind has, and the functions that run it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/elementwise.h"
#include "model/network.h"
#include "quant/convert.h"

namespace mpe {

struct ConvolutionShape;

struct LayerInput {
  TensorView tensor;
  Shape shape;
};

// A layer with the tensors that one run reads and writes.
struct LayerCall {
  const Layer& layer;
  std::span<const LayerInput> inputs;
  MutableTensorView output;
  std::span<const float> values = {};  // WeightsRule::kValues
};

// Parameters that `mpe info` reports of every layer; 1 where the kind has no such parameter.
struct LayerGeometry {
  int groups = 1;
  int size_y = 1;
  int size_x = 1;
  int stride_y = 1;
  int stride_x = 1;
};

// Both ways to run a layer give the same bits, on every machine and with any number of threads. The
// output may lie where an input of the same shape and precision lies if the layer's MemoryRule says
// so.
class Operation {
 public:
  virtual ~Operation() = default;

  virtual LayerGeometry geometry() const { return {}; }

  // The convolution that computes a layer with weights: the session prepares it and runs it in
  // place of run(). Null for all other layers.
  virtual const ConvolutionShape* convolution() const { return nullptr; }

  // By run(), or by run_reference() where the workers bring no vector code.
  void execute(const LayerCall& call, const Workers& workers) const {
    workers.vectors == nullptr ? run_reference(call) : run(call, workers);
  }

  // Uses the workers' vector code, which they must bring.
  virtual void run(const LayerCall& /*call*/, const Workers& /*workers*/) const {}

  // The same by the plainest loops, one value after another on one thread: those of reference/,
  // which the kind's header declares. They define the right result; `--algorithm reference` runs
  // them, and tests compare with them.
  virtual void run_reference(const LayerCall& /*call*/) const {}

  // Does run() use vector code, that of conversions included?
  virtual bool runs_vectors(const LayerCall& /*call*/) const { return false; }

  // Bytes that run() reads and writes.
  virtual std::int64_t bytes_moved(const LayerCall& call) const;
};

template <typename Parameters>
class OperationWith : public Operation {
 public:
  explicit OperationWith(const Parameters& parameters) : parameters_(parameters) {}
  const Parameters& parameters() const { return parameters_; }

 protected:
  const Parameters parameters_;
};

// The parameters of a layer whose kind has them; throws std::bad_cast for any other.
template <typename Parameters>
const Parameters& parameters_of(const Layer& layer) {
  return dynamic_cast<const OperationWith<Parameters>&>(*layer.operation).parameters();
}

// Does the call read or write int8, which vector code converts to float and back?
bool converts_int8(const LayerCall& call);
// Or does the layer activate what it computes, also by vector code?
bool converts_int8_or_activates(const LayerCall& call);

}  // namespace mpe
