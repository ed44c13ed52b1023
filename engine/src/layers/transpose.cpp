#include "layers/transpose.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/typed.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

constexpr std::size_t kMostAxes = 8;

class Transpose final : public OperationWith<TransposeParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    const std::vector<std::int64_t>& sizes = parameters_.sizes;
    const std::int64_t row = sizes.back();
    const std::int64_t stride = parameters_.strides.back();
    const std::int64_t rows = call.layer.out.elements() / row;
    with_typed(call.inputs[0].tensor, call.output, [&]<typename T>(const T* in, T* out) {
      workers.pool.parallel_for(static_cast<int>(rows), [&](int, int begin, int end) {
        for (int r = begin; r < end; ++r) {
          const T* from = in + start_of(r);
          T* to = out + r * row;
          if (stride == 1) {
            std::copy_n(from, row, to);
          } else {
            for (std::int64_t i = 0; i < row; ++i) to[i] = from[i * stride];
          }
        }
      });
    });
  }

  void run_reference(const LayerCall& call) const override {
    reference_transpose(parameters_, call);
  }

 private:
  // The place in the input of the first value of a row of the output.
  std::int64_t start_of(std::int64_t row) const {
    std::int64_t place = 0;
    for (std::size_t axis = parameters_.sizes.size() - 1; axis-- > 0;) {
      place += row % parameters_.sizes[axis] * parameters_.strides[axis];
      row /= parameters_.sizes[axis];
    }
    return place;
  }
};

std::vector<int> read_dims(const CfgSection& section, const Shape& in) {
  if (section.find("dims") == nullptr) return {in.channels, in.height, in.width};
  const std::vector<int> dims = section.integers("dims");
  std::int64_t product = 1;
  for (const int size : dims) {
    if (size < 1 || size > in.elements()) product = 0;
    product = std::min(product * size, in.elements() + 1);
  }
  if (dims.size() > kMostAxes || product != in.elements()) {
    section.fail(section.line_of("dims"), "dims= does not divide " + text_of(in) + ", " +
                                              std::to_string(in.elements()) + " values, into " +
                                              std::to_string(dims.size()) + " axes (at most " +
                                              std::to_string(kMostAxes) + ")");
  }
  return dims;
}

void read(const CfgSection& section, const Network&, Layer& layer) {
  const std::vector<int> dims = read_dims(section, layer.in);
  const std::vector<int> axes = section.integers("axes");
  std::vector<int> sorted = axes;
  std::ranges::sort(sorted);
  std::vector<int> all(dims.size());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    section.fail(section.line_of("axes"), "axes= must name each axis from 0 to " +
                                              std::to_string(dims.size() - 1) + " once");
  }
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  TransposeParameters p;
  for (const int axis : axes) {
    p.sizes.push_back(dims[static_cast<std::size_t>(axis)]);
    p.strides.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  if (section.find("channels") != nullptr || dims.size() != 3) {
    layer.out = read_shape(section);
    if (layer.out.elements() != layer.in.elements()) {
      section.fail("makes " + text_of(layer.out) + " of " + text_of(layer.in) +
                   ", which has another number of values");
    }
  } else {
    layer.out = {static_cast<int>(p.sizes[0]), static_cast<int>(p.sizes[1]),
                 static_cast<int>(p.sizes[2])};
  }
  layer.rules = {.precision = PrecisionRule::kKeeps, .algorithm = "copy"};
  layer.operation = std::make_shared<Transpose>(p);
}

}  // namespace

const LayerType kTransposeLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
