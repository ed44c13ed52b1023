// fp32, and fp16 as storage, with any set's F32.
#pragma once

#include <cstdint>

#include "kernels/generic/depthwise_rows.h"
#include "kernels/generic/gemm.h"
#include "kernels/generic/halves.h"
#include "kernels/generic/vector_product.h"
#include "kernels/generic/winograd.h"

namespace mpe {
namespace {

struct Fp32Depthwise {
  using Input = float;
  using Value = float;
  using Sum = float;
  using Vector = F32;
  static constexpr WeightFormat kWeights = WeightFormat::kFloat;
  static constexpr int kLanes = F32::kLanes;

  template <int kSteps>
  static void accumulate(const float* strip, const float* weights, const std::int32_t* offsets,
                         int taps, float* sums) {
    accumulate_taps<Fp32Depthwise, F32, kSteps>(strip, weights, offsets, taps, sums);
  }

  static constexpr int kMostVectors = 2;
  template <int kTaps>
  using Weights = const float*;
  static void fence_loads() {}
  static void start(F32& sum, const float* bias) { sum = F32::load(bias); }
  template <int kOffset>
  static void load(F32& to, const float* from) {
    to = F32::load(from + kOffset);
  }
  template <int kTap>
  static void multiply_add(F32& sum, F32 value, const float* weights) {
    sum = mpe::multiply_add(sum, value, F32(weights[kTap]));
  }
  static void store(float* to, F32 value, int count) { mpe::store(to, value, count); }
  static void copy(const float* from, float* to) { *to = *from; }
  static void copy_rows(const float* from, std::int64_t from_step, float* to, std::int64_t to_step,
                        int count, int rows) {
    mpe::copy_rows(to, to_step, from, from_step, count, rows);
  }
  static void split_rows(const float* from, std::int64_t from_step, const SplitRows<float>& to,
                         int count, int rows) {
    mpe::split_rows<F32>(from, from_step, to, count, rows);
  }
};

// Stored halves, widened on their way into the strip.
template <typename Kernel>
struct DepthwiseOfHalves : Kernel {
  using Input = std::uint16_t;
  static void convert(const std::uint16_t* from, float* to, int count) {
    widen_halves(from, to, count);
  }
  static void store(std::uint16_t* to, F32 value, int count) { store_half(to, value, count); }
  static void copy(const std::uint16_t* from, float* to) { widen_halves(from, to, 1); }
  static void copy_rows(const std::uint16_t* from, std::int64_t from_step, float* to,
                        std::int64_t to_step, int count, int rows) {
    for (int row = 0; row < rows; ++row, from += from_step, to += to_step) {
      widen_halves(from, to, count);
    }
  }
  static void split_rows(const std::uint16_t* from, std::int64_t from_step, SplitRows<float> to,
                         int count, int rows) {
    constexpr int kChunk = 128;
    float chunk[2 * kChunk];
    for (; rows > 0; --rows, from += from_step, to.advance()) {
      for (int i = 0; i < count; i += kChunk) {
        const int length = count - i < kChunk ? count - i : kChunk;
        widen_halves(from + 2 * i, chunk, 2 * length);
        split_pairs<F32>(chunk, to.even + i, to.even + to.to_odds + i, length);
      }
    }
  }
};

struct Fp32VectorProduct {
  using Input = float;
  using Value = float;
  using Weight = float;
  using Sum = float;
  using Accumulator = F32;
  static constexpr int kLanes = F32::kLanes;
  static constexpr int kVectors = 4;
  static constexpr int kUnit = 1;

  static F32 load_weights(const float* weights) { return F32::load(weights); }
  static F32 broadcast(const float* value) { return F32(*value); }
  static F32 multiply_add(F32 sum, F32 weights, F32 value) {
    return mpe::multiply_add(sum, weights, value);
  }
  static void store_sums(float* to, F32 sums) { store(to, sums); }
};

struct HalfVectorProduct : Fp32VectorProduct {
  using Input = std::uint16_t;
  using Weight = std::uint16_t;
  static void prepare(const std::uint16_t* from, float* to, int count) {
    widen_halves(from, to, count);
  }
  static F32 load_weights(const std::uint16_t* weights) { return load_half(weights); }
};

// A product over stored halves; both sides are widened on their way to the micro-kernel.
template <typename Product>
struct StoredAsHalf : Product {
  using Input = std::uint16_t;
  using Weight = std::uint16_t;
  static constexpr WeightFormat kWeights = WeightFormat::kHalf;

  static void interleave(const std::uint16_t* rows, float* panel) {
    widen_halves(rows, panel, Product::kLanes * Product::kVectors);
  }
  static void widen(const std::uint16_t* from, float* to, int count) {
    widen_halves(from, to, count);
  }
};

// Winograd's weights, transformed in float for every inference.
struct FloatWeights {
  using Vector = F32;
  static F32 load(const float* from) { return F32::load(from); }
  static F32 load(const std::uint16_t* from) { return load_half(from); }
  static void store(float* to, F32 x) { mpe::store(to, x); }
};

// The products of Winograd's convolution: the tensor's values are widened as they are transformed.
template <typename Product>
struct Fp32Tiles : Product {
  using Transform = F32;
  using Sums = F32;
  using WeightTransform = FloatWeights;
  static F32 load_input(const float* from) { return F32::load(from); }
};

template <typename Product>
struct HalfTiles : StoredAsHalf<Product> {
  using Transform = F32;
  using Sums = F32;
  using WeightTransform = FloatWeights;
  static F32 load_input(const std::uint16_t* from) { return load_half(from); }
  static F32 load_input(const float* from) { return rounded_to_half(F32::load(from)); }
};

}  // namespace
}  // namespace mpe
