// The loops of ElementwiseKernels over the vectors F32 and I32 of the including unit, which also
// has load_int8(from), deinterleave(from, columns) and maximum_of_four(upper, lower, to) for
// kPooledBytes outputs, or kPooledHalves of integers in the order of halves.
#pragma once

#include <cstdint>

#include "kernels/generic/output.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// Vectors side by side, so that none waits for its own results.
constexpr int kAtOnce = 4;

// NaN is never less nor more.
inline void measure_values(const float* values, std::int64_t count, float& low, float& high) {
  std::int64_t i = 0;
  if (count >= kAtOnce * F32::kLanes) {
    F32 lows[kAtOnce];
    F32 highs[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) {
      lows[k] = F32(low);
      highs[k] = F32(high);
    }
    for (; i + kAtOnce * F32::kLanes <= count; i += kAtOnce * F32::kLanes) {
      for (int k = 0; k < kAtOnce; ++k) {
        const F32 value = F32::load(values + i + k * F32::kLanes);
        lows[k] = choose(less(value, lows[k]), value, lows[k]);
        highs[k] = choose(less(highs[k], value), value, highs[k]);
      }
    }
    float all_lows[kAtOnce * F32::kLanes];
    float all_highs[kAtOnce * F32::kLanes];
    for (int k = 0; k < kAtOnce; ++k) {
      store(all_lows + k * F32::kLanes, lows[k]);
      store(all_highs + k * F32::kLanes, highs[k]);
    }
    for (int k = 0; k < kAtOnce * F32::kLanes; ++k) {
      low = all_lows[k] < low ? all_lows[k] : low;
      high = all_highs[k] > high ? all_highs[k] : high;
    }
  }
  for (; i < count; ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
}

inline void quantize_values(const float* from, std::int8_t* to, std::int64_t count, float inverse,
                            std::int32_t zero_point) {
  const F32 factor(inverse);
  const I32 zero(zero_point);
  std::int64_t i = 0;
  for (; i + kAtOnce * F32::kLanes <= count; i += kAtOnce * F32::kLanes) {
    I32 steps[kAtOnce];
    unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
      const F32 value = F32::load(from + i + v.value * F32::kLanes) * factor;
      steps[v.value] = round_to_steps(value, zero);
    });
    store_int8(to + i, steps);
  }
  for (; i + F32::kLanes <= count; i += F32::kLanes) {
    const F32 value = limit_for_rounding(F32::load(from + i) * factor);
    store_int8(to + i, round_to_int(value) + zero, F32::kLanes);
  }
  for (; i < count; ++i) to[i] = saturate_int8(from[i] * inverse, zero_point);
}

inline void dequantize_values(const std::int8_t* from, float* to, std::int64_t count, float scale,
                              std::int32_t zero_point) {
  const F32 factor(scale);
  const I32 zero(-zero_point);
  std::int64_t i = 0;
  for (; i + kAtOnce * F32::kLanes <= count; i += kAtOnce * F32::kLanes) {
    F32 values[kAtOnce];
    unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
      values[v.value] = to_float(load_int8(from + i + v.value * F32::kLanes) + zero) * factor;
    });
    unroll<kAtOnce>([&](auto v)
                        MPE_UNROLLED { store(to + i + v.value * F32::kLanes, values[v.value]); });
  }
  for (; i + F32::kLanes <= count; i += F32::kLanes) {
    store(to + i, to_float(load_int8(from + i) + zero) * factor);
  }
  for (; i < count; ++i) to[i] = static_cast<float>(from[i] - zero_point) * scale;
}

inline void requantize_values(const std::int8_t* from, std::int8_t* to, std::int64_t count,
                              std::int32_t from_zero_point, float ratio, std::int32_t zero_point) {
  const F32 factor(ratio);
  const I32 from_zero(-from_zero_point);
  const I32 zero(zero_point);
  std::int64_t i = 0;
  for (; i + kAtOnce * F32::kLanes <= count; i += kAtOnce * F32::kLanes) {
    I32 steps[kAtOnce];
    unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
      const F32 value = to_float(load_int8(from + i + v.value * F32::kLanes) + from_zero) * factor;
      steps[v.value] = round_to_steps(value, zero);
    });
    store_int8(to + i, steps);
  }
  for (; i + F32::kLanes <= count; i += F32::kLanes) {
    const F32 value = to_float(load_int8(from + i) + from_zero) * factor;
    store_int8(to + i, round_to_int(limit_for_rounding(value)) + zero, F32::kLanes);
  }
  for (; i < count; ++i) {
    to[i] = saturate_int8(static_cast<float>(from[i] - from_zero_point) * ratio, zero_point);
  }
}

inline F32 load_value(const float* from) { return F32::load(from); }
inline F32 load_value(const std::uint16_t* from) { return load_half(from); }
inline void store_value(float* to, F32 value) { store(to, value); }
inline void store_value(std::uint16_t* to, F32 value) { store_half(to, value, F32::kLanes); }

// `to` may be `a` or `b`.
template <typename T>
inline void add_values(const T* a, const T* b, T* to, std::int64_t count, Activation activation) {
  const auto add = [&](const T* left, const T* right, T* sum, auto vectors) MPE_UNROLLED {
    F32 sums[1][vectors.value];
    unroll<vectors.value>([&](auto v) MPE_UNROLLED {
      constexpr int kAt = v.value * F32::kLanes;
      sums[0][v.value] = load_value(left + kAt) + load_value(right + kAt);
    });
    activate_all(activation, sums);
    unroll<vectors.value>(
        [&](auto v) MPE_UNROLLED { store_value(sum + v.value * F32::kLanes, sums[0][v.value]); });
  };
  std::int64_t i = 0;
  for (; i + kAtOnce * F32::kLanes <= count; i += kAtOnce * F32::kLanes) {
    add(a + i, b + i, to + i, Index<kAtOnce>{});
  }
  for (; i < count; i += F32::kLanes) {
    const std::int64_t left = count - i;
    const auto rest = static_cast<int>(left < F32::kLanes ? left : F32::kLanes);
    T values[2][F32::kLanes] = {};
    for (int k = 0; k < rest; ++k) {
      values[0][k] = a[i + k];
      values[1][k] = b[i + k];
    }
    add(values[0], values[1], values[0], Index<1>{});
    for (int k = 0; k < rest; ++k) to[i + k] = values[0][k];
  }
}

// `to` may be `a` or `b`.
inline void add_bytes(const std::int8_t* a, const std::int8_t* b, std::int8_t* to,
                      std::int64_t count, const Int8Addition& addition) {
  constexpr int kStep = kAtOnce * F32::kLanes;
  const F32 scales[] = {F32(addition.scales[0]), F32(addition.scales[1])};
  const I32 zeros[] = {I32(-addition.zero_points[0]), I32(-addition.zero_points[1])};
  const F32 inverse(addition.inverse);
  const I32 sum_zero(addition.sum_zero_point);
  const auto add = [&](const std::int8_t* left, const std::int8_t* right,
                       std::int8_t* sum) MPE_UNROLLED {
    F32 sums[1][kAtOnce];
    unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
      constexpr int kAt = v.value * F32::kLanes;
      sums[0][v.value] = to_float(load_int8(left + kAt) + zeros[0]) * scales[0] +
                         to_float(load_int8(right + kAt) + zeros[1]) * scales[1];
    });
    activate_all(addition.activation, sums);
    I32 steps[kAtOnce];
    unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
      steps[v.value] = round_to_steps(sums[0][v.value] * inverse, sum_zero);
    });
    store_int8(sum, steps);
  };
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep) add(a + i, b + i, to + i);
  if (i == count) return;
  const auto rest = static_cast<int>(count - i);
  std::int8_t values[2][kStep] = {};
  for (int k = 0; k < rest; ++k) {
    values[0][k] = a[i + k];
    values[1][k] = b[i + k];
  }
  add(values[0], values[1], values[0]);
  for (int k = 0; k < rest; ++k) to[i + k] = values[0][k];
}

// In place: function(vectors) for as many vectors side by side as are activated at once.
template <typename Function>
inline void for_vectors(float* values, std::int64_t count, const Function& function) {
  constexpr int kStep = kActivatedAtOnce * F32::kLanes;
  const auto apply = [&](float* to) MPE_UNROLLED {
    F32 vectors[1][kActivatedAtOnce];
    unroll<kActivatedAtOnce>(
        [&](auto v) MPE_UNROLLED { vectors[0][v.value] = F32::load(to + v.value * F32::kLanes); });
    function(vectors);
    unroll<kActivatedAtOnce>(
        [&](auto v) MPE_UNROLLED { store(to + v.value * F32::kLanes, vectors[0][v.value]); });
  };
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep) apply(values + i);
  if (i == count) return;
  float rest[kStep] = {};
  for (std::int64_t k = i; k < count; ++k) rest[k - i] = values[k];
  apply(rest);
  for (std::int64_t k = i; k < count; ++k) values[k] = rest[k - i];
}

inline void activate_values(float* values, std::int64_t count, Activation activation) {
  for_vectors(values, count, [&](F32(&vectors)[1][kActivatedAtOnce]) MPE_UNROLLED {
    activate_all(activation, vectors);
  });
}

inline void exponentiate_values(float* values, std::int64_t count) {
  for_vectors(values, count, [](F32(&vectors)[1][kActivatedAtOnce]) MPE_UNROLLED {
    ActivationGroup<false> group;
    unroll<kActivatedAtOnce>([&](auto v) MPE_UNROLLED { put_into(group, v, vectors[0][v.value]); });
    group = exponential(group);
    unroll<kActivatedAtOnce>([&](auto v)
                                 MPE_UNROLLED { take_from(group, v, vectors[0][v.value]); });
  });
}

inline void pool_floats(const float* upper, const float* lower, float* to, int count) {
  int i = 0;
  for (; i + F32::kLanes <= count; i += F32::kLanes) {
    F32 largest(F32::kLowest);
    for (const float* row : {upper, lower}) {
      F32 values[2];
      deinterleave(row + 2 * i, values);
      for (const F32 value : values) largest = keep_larger(largest, value);
    }
    store(to + i, largest);
  }
  for (; i < count; ++i) {
    float largest = F32::kLowest;
    for (const float* row : {upper, lower}) {
      for (int k = 0; k < 2; ++k) {
        if (row[2 * i + k] > largest) largest = row[2 * i + k];
      }
    }
    to[i] = largest;
  }
}

inline void pool_bytes(const std::int8_t* upper, const std::int8_t* lower, std::int8_t* to,
                       int count) {
  int i = 0;
  for (; i + kPooledBytes <= count; i += kPooledBytes) {
    maximum_of_four(upper + 2 * i, lower + 2 * i, to + i);
  }
  for (; i < count; ++i) {
    std::int8_t largest = -128;
    for (const std::int8_t* row : {upper, lower}) {
      for (int k = 0; k < 2; ++k) {
        if (row[2 * i + k] > largest) largest = row[2 * i + k];
      }
    }
    to[i] = largest;
  }
}

// Halves become integers in the same order, and back, by the same operation.
inline std::int16_t order_of_half(std::uint16_t bits) {
  const auto signed_bits = static_cast<std::int16_t>(bits);
  return static_cast<std::int16_t>(signed_bits ^ ((signed_bits >> 15) & 0x7FFF));
}
constexpr std::int16_t kLowestHalf = -0x7C00;  // the order of -65504

inline void pool_halves(const std::uint16_t* upper, const std::uint16_t* lower, std::uint16_t* to,
                        int count) {
  int i = 0;
  for (; i + kPooledHalves <= count; i += kPooledHalves) {
    maximum_of_four(upper + 2 * i, lower + 2 * i, to + i, kLowestHalf);
  }
  for (; i < count; ++i) {
    std::int16_t largest = kLowestHalf;
    for (const std::uint16_t* row : {upper, lower}) {
      for (int k = 0; k < 2; ++k) {
        const std::int16_t value = order_of_half(row[2 * i + k]);
        if (value > largest) largest = value;
      }
    }
    to[i] = static_cast<std::uint16_t>(order_of_half(static_cast<std::uint16_t>(largest)));
  }
}

constexpr ElementwiseKernels elementwise_kernels_of_set() {
  return {measure_values,    quantize_values,   dequantize_values,
          requantize_values, add_values<float>, add_values<std::uint16_t>,
          add_bytes,         activate_values,   exponentiate_values,
          pool_floats,       pool_bytes,        pool_halves};
}

}  // namespace
}  // namespace mpe
