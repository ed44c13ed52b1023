#include "layers/avgpool.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

// Channels whose sums are formed side by side, so that none waits for its own additions.
constexpr int kTogether = 4;

// Global: one value per channel, the sum of its values in double, in order, over their number.
class Avgpool final : public Operation {
 public:
  void run(const LayerCall& call, const Workers& workers) const override {
    workers.pool.parallel_for(call.inputs[0].shape.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; c += kTogether) {
        run_channels(call, c, std::min(kTogether, end - c), workers);
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_avgpool(call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }

 private:
  static void run_channels(const LayerCall& call, int first, int channels, const Workers& workers) {
    const LayerInput& input = call.inputs[0];
    const std::int64_t plane = input.shape.plane();
    float values[kTogether][kValueBlock];
    double sums[kTogether] = {};
    for (std::int64_t i = 0; i < plane; i += kValueBlock) {
      const int count = static_cast<int>(std::min<std::int64_t>(kValueBlock, plane - i));
      for (int c = 0; c < channels; ++c) {
        load_values(input.tensor, first + c, (first + c) * plane + i, count, values[c],
                    workers.vectors);
      }
      const auto add = [&](auto together) {
        for (int k = 0; k < count; ++k) {
          for (int c = 0; c < together; ++c) sums[c] += static_cast<double>(values[c][k]);
        }
      };
      if (channels == kTogether) {
        add(std::integral_constant<int, kTogether>{});
      } else {
        add(channels);
      }
    }
    for (int c = 0; c < channels; ++c) {
      const auto mean = static_cast<float>(sums[c] / static_cast<double>(plane));
      store_values(&mean, call.output, first + c, first + c, 1, workers.vectors);
    }
  }
};

void read(const CfgSection&, const Network&, Layer& layer) {
  layer.out = {layer.in.channels, 1, 1};
  layer.operation = std::make_shared<Avgpool>();
}

}  // namespace

const LayerType kAvgpoolLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
