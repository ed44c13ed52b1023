#include "layers/deconvolutional.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

constexpr int kFilters = 4;  // for which an input value is loaded once

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a > 0 ? (a + b - 1) / b : a / b;
}

class Deconvolution final : public OperationWith<DeconvolutionParameters> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override {
    const auto& [y, x] = parameters_.window;
    return {parameters_.groups, y.size, x.size, y.stride, x.stride};
  }

  void run(const LayerCall& call, const Workers& workers) const override {
    const Shape& out = call.layer.out;
    const int of_group = out.channels / parameters_.groups;
    const int blocks = (of_group + kFilters - 1) / kFilters;
    workers.pool.parallel_for(out.height * parameters_.groups, [&](int, int begin, int end) {
      for (int i = begin; i < end; ++i) {
        const int group = i % parameters_.groups;
        for (int block = 0; block < blocks; ++block) {
          const int first = block * kFilters;
          add_windows(call, {group, first, std::min(kFilters, of_group - first)},
                      i / parameters_.groups, workers);
        }
      }
    });
  }

  void run_reference(const LayerCall& call) const override {
    reference_deconvolution(parameters_, call);
  }

  bool runs_vectors(const LayerCall& call) const override {
    return converts_int8_or_activates(call);
  }

 private:
  struct Filters {
    int group;
    int first;  // of the group
    int count;
  };

  // One row of some filters. Each sum is in float, in the order of the plain loops.
  void add_windows(const LayerCall& call, const Filters& filters, int row,
                   const Workers& workers) const {
    const Layer& layer = call.layer;
    const WindowAxis& y_axis = parameters_.window.y;
    const LayerInput& input = call.inputs[0];
    const int depth = input.shape.channels / parameters_.groups;
    const int channel = filters.group * (layer.out.channels / parameters_.groups) + filters.first;
    for (int x = 0; x < layer.out.width; x += kValueBlock) {
      const int count = std::min(kValueBlock, layer.out.width - x);
      float sums[kFilters][kValueBlock];
      for (int f = 0; f < filters.count; ++f) {
        std::fill_n(sums[f], count, call.values[static_cast<std::size_t>(channel + f)]);
      }
      for (int c = filters.group * depth; c < (filters.group + 1) * depth; ++c) {
        for (int ky = 0; ky < y_axis.size; ++ky) {
          const std::int64_t y =
              std::int64_t{row} + y_axis.before - std::int64_t{ky} * y_axis.dilation;
          if (y < 0 || y % y_axis.stride != 0 || y / y_axis.stride >= input.shape.height) continue;
          add_line(call, filters, {c, static_cast<int>(y / y_axis.stride), ky, x, count}, sums,
                   workers);
        }
      }
      for (int f = 0; f < filters.count; ++f) {
        activate_values(layer.activation, sums[f], count, *workers.vectors);
        store_values(sums[f], call.output, channel + f,
                     (std::int64_t{channel + f} * layer.out.height + row) * layer.out.width + x,
                     count, workers.vectors);
      }
    }
  }

  struct Line {
    int channel;  // of the input
    int y;
    int ky;
    int x;  // of the output
    int count;
  };

  void add_line(const LayerCall& call, const Filters& filters, const Line& line,
                float (*sums)[kValueBlock], const Workers& workers) const {
    const auto& [y_axis, x_axis] = parameters_.window;
    const LayerInput& input = call.inputs[0];
    const int of_group = call.layer.out.channels / parameters_.groups;
    const std::int64_t start =
        (std::int64_t{line.channel} * input.shape.height + line.y) * input.shape.width;
    for (int kx = 0; kx < x_axis.size; ++kx) {
      // Input value i is added at i * stride + shift.
      const std::int64_t shift = std::int64_t{kx} * x_axis.dilation - x_axis.before - line.x;
      const std::int64_t first = std::max<std::int64_t>(ceil_divide(-shift, x_axis.stride), 0);
      const std::int64_t end =
          std::min<std::int64_t>(ceil_divide(line.count - shift, x_axis.stride), input.shape.width);
      if (first >= end) continue;
      const int count = static_cast<int>(end - first);
      float values[kValueBlock];
      load_values(input.tensor, line.channel, start + first, count, values, workers.vectors);
      for (int f = 0; f < filters.count; ++f) {
        const std::int64_t filter = std::int64_t{line.channel} * of_group + filters.first + f;
        const float weight = call.values[static_cast<std::size_t>(
            call.layer.out.channels + (filter * y_axis.size + line.ky) * x_axis.size + kx)];
        float* to = sums[f] + (first * x_axis.stride + shift);
        for (int i = 0; i < count; ++i) to[std::int64_t{i} * x_axis.stride] += weight * values[i];
      }
    }
  }
};

int output_size(const CfgSection& section, const WindowAxis& axis, int in, std::string_view key,
                std::string_view direction) {
  const int more = section.integer(key, 0, 0, Limits::kKernel);
  const std::int64_t size =
      std::int64_t{in - 1} * axis.stride + axis.extent() - axis.before - axis.after + more;
  if (size >= 1 && size <= Limits::kDimension) return static_cast<int>(size);
  section.fail("an output " + std::to_string(size) + " pixels " + std::string(direction) +
               " is not between 1 and " + std::to_string(Limits::kDimension));
}

void read(const CfgSection& section, const Network&, Layer& layer) {
  DeconvolutionParameters p;
  p.window = read_window(section, layer.in);
  p.groups = section.integer("groups", 1, 1, Limits::kDimension);
  const int filters = section.integer("filters", 1, 1, Limits::kDimension);
  layer.activation = read_activation(section, "logistic");
  if (layer.in.channels % p.groups != 0 || filters % p.groups != 0) {
    section.fail(section.line_of("groups"),
                 "groups=" + std::to_string(p.groups) + " divides not both the " +
                     std::to_string(layer.in.channels) + " input channels and the " +
                     std::to_string(filters) + " filters");
  }
  layer.out = {filters, output_size(section, p.window.y, layer.in.height, "output_pad_y", "high"),
               output_size(section, p.window.x, layer.in.width, "output_pad_x", "wide")};
  const std::int64_t of_value =
      std::int64_t{filters / p.groups} * p.window.y.size * p.window.x.size;
  layer.parameters = filters + layer.in.channels * of_value;
  layer.macs = layer.in.elements() * of_value;
  layer.rules.weights = WeightsRule::kValues;
  layer.operation = std::make_shared<Deconvolution>(p);
}

}  // namespace

const LayerType kDeconvolutionalLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
