// Layers that pass their input on, in the precision that the output asks for.
#pragma once

#include "layers/operation.h"
#include "layers/rules.h"

namespace mpe {

class Copy final : public Operation {
 public:
  void run(const LayerCall& call, const Workers& workers) const override;
  void run_reference(const LayerCall& call) const override;
  bool runs_vectors(const LayerCall& call) const override;
};

// Of layers that do something only in training.
inline constexpr LayerRules kPassingRules{.precision = PrecisionRule::kKeeps,
                                          .memory = MemoryRule::kView,
                                          .head = HeadRule::kPasses,
                                          .algorithm = "copy"};

// Of layers whose input is decoded to boxes outside of the engine.
inline constexpr LayerRules kDetectionRules{.precision = PrecisionRule::kFloat,
                                            .memory = MemoryRule::kViewOfFloat,
                                            .head = HeadRule::kReplacesHead,
                                            .algorithm = "copy"};

void reference_copy(const LayerCall& call);

}  // namespace mpe
