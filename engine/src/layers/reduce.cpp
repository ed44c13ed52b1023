#include "layers/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/value_blocks.h"

namespace mpe {
namespace {

constexpr bool is_extreme(Reduction reduction) {
  return reduction == Reduction::kMax || reduction == Reduction::kMin;
}

// Values that are reduced one after another: their sum in double, or the extreme.
template <Reduction kReduction>
struct Reduced {
  std::conditional_t<is_extreme(kReduction), float, double> value = 0;

  void add(float next, bool first) {
    if constexpr (kReduction == Reduction::kMax) {
      value = first || next > value ? next : value;
    } else if constexpr (kReduction == Reduction::kMin) {
      value = first || next < value ? next : value;
    } else if constexpr (kReduction == Reduction::kL2) {
      value += static_cast<double>(next) * static_cast<double>(next);
    } else {
      value += static_cast<double>(next);
    }
  }

  float result(std::int64_t count) const {
    if constexpr (kReduction == Reduction::kMean) {
      return static_cast<float>(value / static_cast<double>(count));
    } else if constexpr (kReduction == Reduction::kL2) {
      return static_cast<float>(std::sqrt(value));
    } else {
      return static_cast<float>(value);
    }
  }
};

// Values are taken in runs of the input that are contiguous.
class Reduce final : public OperationWith<ReduceParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    switch (parameters_.reduction) {
      case Reduction::kMean:
        return run_as<Reduction::kMean>(call, workers);
      case Reduction::kSum:
        return run_as<Reduction::kSum>(call, workers);
      case Reduction::kMax:
        return run_as<Reduction::kMax>(call, workers);
      case Reduction::kMin:
        return run_as<Reduction::kMin>(call, workers);
      case Reduction::kL2:
        return run_as<Reduction::kL2>(call, workers);
    }
  }

  void run_reference(const LayerCall& call) const override { reference_reduce(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }

 private:
  template <Reduction kReduction>
  void run_as(const LayerCall& call, const Workers& workers) const {
    const Shape& in = call.inputs[0].shape;
    const Shape& out = call.layer.out;
    if (parameters_.width) {
      workers.pool.parallel_for(static_cast<int>(out.elements()), [&](int, int begin, int end) {
        for (int i = begin; i < end; ++i) reduce_one<kReduction>(call, i, workers);
      });
      return;
    }
    const std::int64_t length = parameters_.height ? in.width : in.plane();
    const std::int64_t blocks = (length + kValueBlock - 1) / kValueBlock;
    workers.pool.parallel_for(static_cast<int>(out.channels * blocks), [&](int, int begin,
                                                                           int end) {
      for (int i = begin; i < end; ++i) {
        const std::int64_t first = i % blocks * kValueBlock;
        const auto count = static_cast<int>(std::min<std::int64_t>(kValueBlock, length - first));
        reduce_beside<kReduction>(call, static_cast<int>(i / blocks), first, count, workers);
      }
    });
  }

  // Outputs that lie side by side from place `first` of a channel on, at most kValueBlock.
  template <Reduction kReduction>
  void reduce_beside(const LayerCall& call, int channel, std::int64_t first, int count,
                     const Workers& workers) const {
    Reduced<kReduction> outputs[kValueBlock];
    float values[kValueBlock];
    bool begins = true;
    const std::int64_t runs = for_runs(call, channel, 0, [&](int c, std::int64_t start) {
      load_values(call.inputs[0].tensor, c, start + first, count, values, workers.vectors);
      for (int i = 0; i < count; ++i) outputs[i].add(values[i], begins);
      begins = false;
    });
    for (int i = 0; i < count; ++i) values[i] = outputs[i].result(runs);
    store_values(values, call.output, channel, channel * call.layer.out.plane() + first, count,
                 workers.vectors);
  }

  // One output, of whole rows.
  template <Reduction kReduction>
  void reduce_one(const LayerCall& call, int output, const Workers& workers) const {
    const Shape& in = call.inputs[0].shape;
    const int channel = output / call.layer.out.height;
    Reduced<kReduction> reduced;
    bool begins = true;
    const std::int64_t runs =
        for_runs(call, channel, output % call.layer.out.height, [&](int c, std::int64_t start) {
          for (int x = 0; x < in.width; x += kValueBlock) {
            float values[kValueBlock];
            const int count = std::min(kValueBlock, in.width - x);
            load_values(call.inputs[0].tensor, c, start + x, count, values, workers.vectors);
            for (int i = 0; i < count; ++i) {
              reduced.add(values[i], begins);
              begins = false;
            }
          }
        });
    const float result = reduced.result(runs * in.width);
    store_values(&result, call.output, channel, output, 1, workers.vectors);
  }

  // Calls body(channel, start) for each of the rows that are reduced to outputs of row `y` of a
  // channel, in their order, and returns their number.
  template <typename Body>
  std::int64_t for_runs(const LayerCall& call, int channel, int y, Body&& body) const {
    const Shape& in = call.inputs[0].shape;
    const int channels = parameters_.channels ? in.channels : 1;
    const int rows = parameters_.height ? in.height : 1;
    for (int c = channel; c < channel + channels; ++c) {
      for (int row = y; row < y + rows; ++row) {
        body(c, c * in.plane() + static_cast<std::int64_t>(row) * in.width);
      }
    }
    return static_cast<std::int64_t>(channels) * rows;
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  constexpr std::array<std::string_view, 5> kTypes = {"mean", "sum", "max", "min", "l2"};
  ReduceParameters p;
  p.reduction = static_cast<Reduction>(read_choice(section, "type", "mean", kTypes));
  for (const Axis axis : read_axes(section)) {
    layer.out[axis] = 1;
    (axis == Axis::kChannels ? p.channels : axis == Axis::kHeight ? p.height : p.width) = true;
  }
  layer.operation = std::make_shared<Reduce>(p);
}

}  // namespace

const LayerType kReduceLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
