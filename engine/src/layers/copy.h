// Layers that pass their input on, in the precision that the output asks for.
#pragma once

#include "layers/operation.h"

namespace mpe {

class Copy final : public Operation {
 public:
  void run(const LayerCall& call, const Workers& workers) const override;
  void run_reference(const LayerCall& call) const override;
  bool runs_vectors(const LayerCall& call) const override;
};

}  // namespace mpe
