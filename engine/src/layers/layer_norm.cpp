#include "layers/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

// Lines that lie side by side along the width are normalised together.
constexpr int kLines = kValueBlock;

class LayerNorm final : public OperationWith<LayerNormParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    const LayerInput& input = call.inputs[0];
    const Shape& in = input.shape;
    convert_tensor(input.tensor, call.output, in.channels, in.plane(), workers);
    auto* const values = static_cast<float*>(call.output.data);
    const int rows = parameters_.height ? 1 : in.height;
    const int blocks = parameters_.width ? 1 : (in.width + kLines - 1) / kLines;
    const int channels = parameters_.channels ? 1 : in.channels;
    workers.pool.parallel_for(channels * rows * blocks, [&](int, int begin, int end) {
      for (int i = begin; i < end; ++i) {
        const int x = i % blocks * kLines;
        const std::int64_t first =
            i / blocks / rows * in.plane() + std::int64_t{i / blocks % rows} * in.width + x;
        normalise(values + first, in, std::min(kLines, in.width - x));
      }
    });
  }

  void run_reference(const LayerCall& call) const override {
    reference_layer_norm(parameters_, call);
  }

  bool runs_vectors(const LayerCall& call) const override {
    return converts_by_vectors(call.inputs[0].tensor, call.output);
  }

 private:
  // Along the width: one line, which begins at `first`. Otherwise `count` lines, which begin there
  // side by side.
  void normalise(float* first, const Shape& in, int count) const {
    const bool along = parameters_.width;
    const int length = along ? in.width : count;
    const int lines = along ? 1 : count;
    const double terms = static_cast<double>(parameters_.channels ? in.channels : 1) *
                         (parameters_.height ? in.height : 1) * (along ? in.width : 1);
    double means[kLines] = {};
    double factors[kLines] = {};
    const auto line_of = [along](int i) { return along ? 0 : i; };
    for_rows(first, in, [&](const float* row) {
      for (int i = 0; i < length; ++i) means[line_of(i)] += static_cast<double>(row[i]);
    });
    for (int i = 0; i < lines; ++i) means[i] /= terms;
    for_rows(first, in, [&](const float* row) {
      for (int i = 0; i < length; ++i) {
        const double from_mean = static_cast<double>(row[i]) - means[line_of(i)];
        factors[line_of(i)] += from_mean * from_mean;
      }
    });
    for (int i = 0; i < lines; ++i) {
      factors[i] = 1.0 / std::sqrt(factors[i] / terms + static_cast<double>(parameters_.epsilon));
    }
    for_rows(first, in, [&](float* row) {
      for (int i = 0; i < length; ++i) {
        const int line = line_of(i);
        row[i] = static_cast<float>((static_cast<double>(row[i]) - means[line]) * factors[line]);
      }
    });
  }

  // Calls body(row) for the rows of the lines that begin at `first`.
  template <typename Body>
  void for_rows(float* first, const Shape& in, Body&& body) const {
    for (int c = 0; c < (parameters_.channels ? in.channels : 1); ++c) {
      for (int y = 0; y < (parameters_.height ? in.height : 1); ++y) {
        body(first + c * in.plane() + std::int64_t{y} * in.width);
      }
    }
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  LayerNormParameters p;
  for (const Axis axis : read_axes(section)) {
    (axis == Axis::kChannels ? p.channels : axis == Axis::kHeight ? p.height : p.width) = true;
  }
  p.epsilon = section.real("epsilon", p.epsilon);
  if (!(p.epsilon >= 0.0F)) section.fail(section.line_of("epsilon"), "epsilon must not be below 0");
  layer.rules.precision = PrecisionRule::kFloat;
  layer.operation = std::make_shared<LayerNorm>(p);
}

}  // namespace

const LayerType kLayerNormLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
