// A convolution with one output pixel, and so every connected layer: weights times a vector. Every
// weight is used once, so output channels lie along the vectors and the weights are only streamed.
//
// A kernel K describes one arithmetic on one instruction set:
//   Input, Value, Weight, Sum   tensor's values, the same prepared for broadcast, stored weights
//   kLanes, kVectors            output channels of a vector, vectors of a block
//   kUnit                       terms of a sum that lie together
//   prepare(from, to, count)    Input to Value; unused where they are the same
//   Accumulator, load_weights, broadcast, multiply_add, store_sums
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/generic/output.h"
#include "kernels/generic/patches.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

template <typename K>
class VectorProduct {
 public:
  using Input = typename K::Input;
  using Value = typename K::Value;
  using Weight = typename K::Weight;
  using Sum = typename K::Sum;

  static constexpr int kRows = K::kLanes * K::kVectors;

  // `panels` holds depth_step prepared inputs and, behind them, as many gathered ones.
  static void run(const GemmWork& work) {
    constexpr bool kPrepares = !std::is_same_v<Input, Value>;
    auto* prepared = reinterpret_cast<Value*>(work.panels);
    auto* gathered = reinterpret_cast<Input*>(prepared + (kPrepares ? work.depth_step : 0));
    Input padding{};
    if constexpr (std::is_same_v<Input, std::int8_t>) padding = work.padding_value;
    const Segment segment = {0, 1, 0, 0};
    gather_patches<1>(*work.geometry, &segment, 1, 0, work.depth,
                      static_cast<const Input*>(work.input), padding, gathered);
    if constexpr (kPrepares) K::prepare(gathered, prepared, work.depth);
    const Value* values = prepared;
    for (int block = work.block_begin; block < work.block_end; ++block) {
      multiply(work, block, values);
    }
  }

 private:
  static void multiply(const GemmWork& work, int block, const Value* values) {
    const auto* weights = static_cast<const Weight*>(work.weights) +
                          static_cast<std::int64_t>(block) * work.depth * kRows;
    typename K::Accumulator sums[K::kVectors];
    unroll<K::kVectors>([&](auto v) MPE_UNROLLED { sums[v.value] = typename K::Accumulator(0); });
    for (int k = 0; k < work.depth; k += K::kUnit) {
      const auto value = K::broadcast(values + k);
      unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
        sums[v.value] = K::multiply_add(
            sums[v.value], K::load_weights(weights + v.value * K::kLanes * K::kUnit), value);
      });
      weights += kRows * K::kUnit;
    }
    alignas(64) Sum results[kRows];
    unroll<K::kVectors>(
        [&](auto v) MPE_UNROLLED { K::store_sums(results + v.value * K::kLanes, sums[v.value]); });
    const int first = block * kRows;
    const int rows = work.rows - first < kRows ? work.rows - first : kRows;
    auto* output = static_cast<std::byte*>(work.output);
    write_outputs<Channels::kSuccessive>(*work.stage, work.first_channel + first, results, rows,
                                         output + first * output_bytes(work.stage->kind));
  }
};

template <typename K>
constexpr GemmKernel with_vector_product(GemmKernel kernel) {
  kernel.vector_rows = VectorProduct<K>::kRows;
  kernel.run_vector = VectorProduct<K>::run;
  return kernel;
}

}  // namespace
}  // namespace mpe
