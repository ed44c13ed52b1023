#include "layers/avgpool.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

// Global: one value per channel, the sum of its values in double, in order, over their number.
class Avgpool final : public Operation {
 public:
  void run(const LayerCall& call, const Workers& workers) const override {
    const LayerInput& input = call.inputs[0];
    const std::int64_t plane = input.shape.plane();
    workers.pool.parallel_for(input.shape.channels, [&](int, int begin, int end) {
      float values[kValueBlock];
      for (int c = begin; c < end; ++c) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < plane; i += kValueBlock) {
          const int count = static_cast<int>(std::min<std::int64_t>(kValueBlock, plane - i));
          load_values(input.tensor, c, c * plane + i, count, values, workers.vectors);
          for (int k = 0; k < count; ++k) sum += static_cast<double>(values[k]);
        }
        const float mean = static_cast<float>(sum / static_cast<double>(plane));
        store_values(&mean, call.output, c, c, 1, workers.vectors);
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_avgpool(call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }
};

void read(const CfgSection&, const Network&, Layer& layer) {
  layer.out = {layer.in.channels, 1, 1};
  layer.operation = std::make_shared<Avgpool>();
}

}  // namespace

const LayerType kAvgpoolLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
