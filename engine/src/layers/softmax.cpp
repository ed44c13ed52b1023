#include "layers/softmax.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/kernel_set.h"
#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

class Softmax final : public OperationWith<SoftmaxParameters> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override { return {.groups = parameters_.groups}; }

  void run(const LayerCall& call, const Workers& workers) const override {
    const LayerInput& input = call.inputs[0];
    auto* output = static_cast<float*>(call.output.data);
    const auto lines = static_cast<int>(input.shape.elements() / parameters_.length);
    convert_tensor(input.tensor, call.output, input.shape.channels, input.shape.plane(), workers);
    workers.pool.parallel_for(lines, [&](int, int begin, int end) {
      if (parameters_.stride == 1) {
        run_lines(output + parameters_.start_of(begin), end - begin, *workers.vectors);
        return;
      }
      for (int line = begin; line < end;) {
        // Lines that lie beside each other.
        const auto left = static_cast<int>(parameters_.stride - line % parameters_.stride);
        const int count = std::min({end - line, left, kValueBlock});
        run_beside(output + parameters_.start_of(line), count, *workers.vectors);
        line += count;
      }
    });
  }

  void run_reference(const LayerCall& call) const override { reference_softmax(parameters_, call); }

  bool runs_vectors(const LayerCall& /*call*/) const override { return true; }

 private:
  // Lines of contiguous values, one after another.
  void run_lines(float* values, int count, const ElementwiseKernels& vectors) const {
    const std::int64_t length = parameters_.length;
    const int at_once = static_cast<int>(std::max<std::int64_t>(kValueBlock / length, 1));
    for (int first = 0; first < count; first += at_once) {
      const int lines = std::min(at_once, count - first);
      float* block = values + first * length;
      for (float* line = block; line < block + lines * length; line += length) {
        float largest = line[0];
        for (std::int64_t i = 0; i < length; ++i) {
          largest = line[i] > largest ? line[i] : largest;
        }
        for (std::int64_t i = 0; i < length; ++i) line[i] = exponent(line[i], largest);
      }
      vectors.exponentials(block, lines * length);
      for (float* line = block; line < block + lines * length; line += length) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < length; ++i) sum += static_cast<double>(line[i]);
        for (std::int64_t i = 0; i < length; ++i) line[i] = share(line[i], sum);
      }
    }
  }

  // Lines that begin in neighbouring places, at most kValueBlock of them.
  void run_beside(float* values, int count, const ElementwiseKernels& vectors) const {
    const std::int64_t stride = parameters_.stride;
    const std::int64_t end = parameters_.length * stride;
    float largest[kValueBlock];
    double sums[kValueBlock];
    std::copy_n(values, count, largest);
    std::fill_n(sums, count, 0.0);
    for (std::int64_t at = 0; at < end; at += stride) {
      const float* row = values + at;
      for (int i = 0; i < count; ++i) largest[i] = row[i] > largest[i] ? row[i] : largest[i];
    }
    for (std::int64_t at = 0; at < end; at += stride) {
      float* row = values + at;
      for (int i = 0; i < count; ++i) row[i] = exponent(row[i], largest[i]);
      vectors.exponentials(row, count);
      for (int i = 0; i < count; ++i) sums[i] += static_cast<double>(row[i]);
    }
    for (std::int64_t at = 0; at < end; at += stride) {
      float* row = values + at;
      for (int i = 0; i < count; ++i) row[i] = share(row[i], sums[i]);
    }
  }

  float exponent(float value, float largest) const {
    const float temperature = parameters_.temperature;
    return value / temperature - largest / temperature;
  }

  static float share(float value, double sum) {
    return static_cast<float>(static_cast<double>(value) / sum);
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"spatial"});
  if (section.find("tree") != nullptr) {
    section.fail(section.line_of("tree"), "softmax trees are not supported");
  }
  SoftmaxParameters p;
  layer.rules.precision = PrecisionRule::kFloat;
  if (section.find("axis") != nullptr) {
    const Axis axis = read_axis(section, "channels");
    p.length = layer.in[axis];
    p.stride = layer.in.stride(axis);
    layer.operation = std::make_shared<Softmax>(p);
    return;
  }
  p.groups = section.integer("groups", 1, 1, Limits::kDimension);
  p.temperature = section.real("temperature", 1.0F);
  if (!(p.temperature > 0.0F)) {
    section.fail(section.line_of("temperature"), "temperature must be above 0");
  }
  if (layer.in.elements() % p.groups != 0) {
    section.fail(section.line_of("groups"), "groups=" + std::to_string(p.groups) +
                                                " does not divide the " +
                                                std::to_string(layer.in.elements()) + " inputs");
  }
  p.length = layer.in.elements() / p.groups;
  layer.rules.head = HeadRule::kReadsHead;
  layer.operation = std::make_shared<Softmax>(p);
}

}  // namespace

const LayerType kSoftmaxLayer{.read = read, .loops = Loops::kVectors};

}  // namespace mpe
