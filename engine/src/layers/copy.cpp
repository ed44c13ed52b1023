#include "layers/copy.h"

namespace mpe {

void Copy::run(const LayerCall& call, const Workers& workers) const {
  const LayerInput& input = call.inputs[0];
  convert_tensor(input.tensor, call.output, input.shape.channels, input.shape.plane(), workers);
}

void Copy::run_reference(const LayerCall& call) const { reference_copy(call); }

bool Copy::runs_vectors(const LayerCall& call) const {
  return converts_by_vectors(call.inputs[0].tensor, call.output);
}

}  // namespace mpe
