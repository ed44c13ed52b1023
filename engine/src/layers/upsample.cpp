#include "layers/upsample.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/row_loop.h"
#include "layers/scaled_copy.h"
#include "layers/typed.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

template <typename T>
struct Pair {
  T first;
  T second;
};

template <typename T>
void repeat_row(const T* in, int width, int times, T* out) {
  if (times == 2) {
    static_assert(sizeof(Pair<T>) == 2 * sizeof(T));
    return for_row(in, reinterpret_cast<Pair<T>*>(out), width,
                   [](T value, Pair<T>& to) { to = {value, value}; });
  }
  for (int x = 0; x < width; ++x)
    std::fill_n(out + static_cast<std::int64_t>(x) * times, times, in[x]);
}

class Upsample final : public OperationWith<UpsampleParameters> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override {
    return {.stride_y = parameters_.stride, .stride_x = parameters_.stride};
  }

  void run(const LayerCall& call, const Workers& workers) const override {
    if (parameters_.scale != 1.0F) return run_scaled(call, workers);
    const Layer& layer = call.layer;
    const int times = parameters_.stride;
    with_typed(call.inputs[0].tensor, call.output, [&]<typename T>(const T* in, T* out) {
      workers.pool.parallel_for(layer.out.channels, [&](int, int begin, int end) {
        for (int c = begin; c < end; ++c) {
          const T* from = in + c * layer.in.plane();
          T* rows = out + c * layer.out.plane();
          for (int y = 0; y < layer.in.height; ++y, from += layer.in.width) {
            T* first = rows;
            repeat_row(from, layer.in.width, times, first);
            rows += layer.out.width;
            for (int k = 1; k < times; ++k, rows += layer.out.width) {
              for_row(first, rows, layer.out.width, [](T value, T& to) { to = value; });
            }
          }
        }
      });
    });
  }

  void run_reference(const LayerCall& call) const override {
    reference_upsample(parameters_, call);
  }

  bool runs_vectors(const LayerCall& call) const override {
    return parameters_.scale != 1.0F && converts_int8(call);
  }

 private:
  void run_scaled(const LayerCall& call, const Workers& workers) const {
    const Shape& in = call.layer.in;
    const Shape& out = call.layer.out;
    workers.pool.parallel_for(out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        for (std::int64_t i = 0; i < out.plane(); ++i) {
          const std::int64_t y = i / out.width / parameters_.stride;
          const std::int64_t x = i % out.width / parameters_.stride;
          copy_scaled(call, workers, c, c * in.plane() + y * in.width + x, c * out.plane() + i, 1,
                      parameters_.scale, 0.0F);
        }
      }
    });
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  UpsampleParameters p;
  p.stride = section.integer("stride", 2, 1, Limits::kKernel);
  p.scale = section.real("scale", 1.0F);
  layer.out = {layer.in.channels, layer.in.height * p.stride, layer.in.width * p.stride};
  layer.rules.precision = p.scale == 1.0F ? PrecisionRule::kKeeps : PrecisionRule::kWidens;
  layer.operation = std::make_shared<Upsample>(p);
}

}  // namespace

const LayerType kUpsampleLayer{.read = read, .loops = Loops::kPlain};

}  // namespace mpe
