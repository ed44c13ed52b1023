// Products of matrices, one for each channel: (M, K) times (K, N). The second input may have one
// channel for all.
#include "layers/matmul.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

constexpr int kRows = 4;  // of the first matrix, which one pass over the second multiplies

class Matmul final : public Operation {
 public:
  void run(const LayerCall& call, const Workers& workers) const override {
    const Shape& out = call.layer.out;
    const int blocks = (out.height + kRows - 1) / kRows;
    workers.pool.parallel_for(out.channels * blocks, [&](int, int begin, int end) {
      for (int i = begin; i < end; ++i) {
        const int first = i % blocks * kRows;
        multiply_rows(call, i / blocks, first, std::min(kRows, out.height - first), workers);
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_matmul(call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }

 private:
  // Sums in float, in the order of the plain loops.
  static void multiply_rows(const LayerCall& call, int c, int first, int rows,
                            const Workers& workers) {
    const LayerInput& left = call.inputs[0];
    const LayerInput& right = call.inputs[1];
    const Shape& out = call.layer.out;
    const int depth = left.shape.width;
    const int right_c = right.shape.channels == 1 ? 0 : c;
    for (int x = 0; x < out.width; x += kValueBlock) {
      const int count = std::min(kValueBlock, out.width - x);
      float sums[kRows][kValueBlock] = {};
      float values[kValueBlock];
      for (int k = 0; k < depth; ++k) {
        load_values(right.tensor, right_c,
                    (static_cast<std::int64_t>(right_c) * depth + k) * out.width + x, count, values,
                    workers.vectors);
        for (int r = 0; r < rows; ++r) {
          float factor = 0.0F;
          load_values(left.tensor, c,
                      (static_cast<std::int64_t>(c) * out.height + first + r) * depth + k, 1,
                      &factor, workers.vectors);
          for (int i = 0; i < count; ++i) sums[r][i] += factor * values[i];
        }
      }
      for (int r = 0; r < rows; ++r) {
        store_values(sums[r], call.output, c,
                     (static_cast<std::int64_t>(c) * out.height + first + r) * out.width + x, count,
                     workers.vectors);
      }
    }
  }
};

void read(const CfgSection& section, const Network& network, Layer& layer) {
  if (layer.inputs.size() != 2) {
    section.fail(section.line_of("from"), "needs two inputs; name them with from=");
  }
  const Shape& right = network.output_shape(layer.inputs[1]);
  if (right.height != layer.in.width ||
      (right.channels != 1 && right.channels != layer.in.channels)) {
    section.fail(section.line_of("from"), text_of(layer.in) + " does not multiply " +
                                              text_of(right) + ": (C, M, K) takes (C or 1, K, N)");
  }
  layer.out.width = right.width;
  layer.macs = layer.out.elements() * layer.in.width;
  layer.operation = std::make_shared<Matmul>();
}

}  // namespace

const LayerType kMatmulLayer{.read = read, .loops = Loops::kPlain, .inputs = InputsRule::kMany};

}  // namespace mpe
