// From sums to outputs: bias, activation and (re)quantisation, a vector at a time. The including
// unit has defined the vector types F32 and I32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/activation.h"
#include "kernels/generic/unroll.h"
#include "kernels/generic/vector_group.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

// Where the constants of a run of sums come from: all sums belong to one output channel, or every
// one to the next channel.
enum class Channels { kOne, kSuccessive };

template <Channels kChannels>
inline F32 float_constant(const float* values, int index) {
  if constexpr (kChannels == Channels::kOne) return F32(values[0]);
  return F32::load(values + index);
}

template <Channels kChannels>
inline I32 int_constant(const std::int32_t* values, int index) {
  if constexpr (kChannels == Channels::kOne) return I32(values[0]);
  return I32::load(values + index);
}

// Values that are activated together.
template <bool kForHalf>
using ActivationGroup = Group<F32, kActivatedAtOnce, kForHalf>;

// Vector i of them. Sets with further vector types have their own.
template <bool kForHalf, typename I>
inline void put_into(ActivationGroup<kForHalf>& group, I i, F32 x) {
  group.vectors[i.value] = x;
}
template <bool kForHalf, typename I>
inline void take_from(const ActivationGroup<kForHalf>& group, I i, F32& x) {
  x = group.vectors[i.value];
}

// body(constant) for the activation; kLogistic stands for all costly ones.
template <typename Body>
inline __attribute__((always_inline)) auto with_activation(Activation activation,
                                                           const Body& body) {
  switch (activation) {
    case Activation::kLinear:
      return body(std::integral_constant<Activation, Activation::kLinear>{});
    case Activation::kLeaky:
      return body(std::integral_constant<Activation, Activation::kLeaky>{});
    case Activation::kRelu:
      return body(std::integral_constant<Activation, Activation::kRelu>{});
    case Activation::kRelu6:
      return body(std::integral_constant<Activation, Activation::kRelu6>{});
    default:
      return body(std::integral_constant<Activation, Activation::kLogistic>{});
  }
}

// body(constant) for the costly activation; any that is not one counts as kLogistic.
template <typename Body>
inline __attribute__((always_inline)) void with_costly(Activation activation, const Body& body) {
  switch (activation) {
#define ACTIVATION(kind, word, function) \
  case Activation::k##kind:              \
    return body(std::integral_constant<Activation, Activation::k##kind>{});
#include "model/activations.def"
    default:
      return body(std::integral_constant<Activation, Activation::kLogistic>{});
  }
}

// Out of line, as each takes hundreds of instructions, and one by one, so that none prepares the
// constants of others.
template <Activation kActivation, bool kForHalf, typename Vector>
__attribute__((noinline)) void activate_run(Vector* values, int count) {
  constexpr int kStep = kActivatedAtOnce * F32::kLanes / Vector::kLanes;
  for (; count > 0; count -= kStep, values += kStep) {
    Vector few[kStep];
    Vector* at = values;
    if (count < kStep) {
      at = few;
      for (int i = 0; i < kStep; ++i) few[i] = i < count ? values[i] : Vector(0.0F);
    }
    ActivationGroup<kForHalf> group;
    unroll<kStep>([&](auto i) MPE_UNROLLED { put_into(group, i, at[i.value]); });
    group = activate_costly(kActivation, group);
    unroll<kStep>([&](auto i) MPE_UNROLLED { take_from(group, i, at[i.value]); });
    for (int i = 0; i < count && at == few; ++i) values[i] = few[i];
  }
}
template <typename Vector, bool kForHalf = !std::is_same_v<Vector, F32>>
inline __attribute__((always_inline)) void activate_vectors(Activation activation, Vector* values,
                                                            int count) {
  with_costly(activation,
              [&](auto kind) MPE_UNROLLED { activate_run<kind.value, kForHalf>(values, count); });
}

// From [column][kActivatedAtOnce rows] to rows of the output.
template <Activation kActivation>
__attribute__((noinline)) void activate_into_rows(const F32* values, int columns, float* output,
                                                  std::int64_t pixels) {
  for (int i = 0; i < columns; ++i, values += kActivatedAtOnce, output += F32::kLanes) {
    ActivationGroup<false> group;
    unroll<kActivatedAtOnce>([&](auto r) MPE_UNROLLED { put_into(group, r, values[r.value]); });
    group = activate_costly(kActivation, group);
    unroll<kActivatedAtOnce>(
        [&](auto r) MPE_UNROLLED { store(output + r.value * pixels, group.vectors[r.value]); });
  }
}

// The rule of quant/requantize.h for int8 outputs. Lines are looked up after all places are in
// memory, so that none waits for its own.
template <int kVectors>
inline __attribute__((always_inline)) void activate_few_by_lines(const ActivationLine* lines,
                                                                 F32* values) {
  std::int16_t places[kVectors][F32::kLanes];
  unroll<kVectors>([&](auto v) MPE_UNROLLED { store_places(places[v.value], values[v.value]); });
  asm volatile("" : "+m"(places));
  F32 intercepts[kVectors];
  F32 slopes[kVectors];
  unroll<kVectors>([&](auto v) MPE_UNROLLED {
    load_lines(lines, places[v.value], intercepts[v.value], slopes[v.value]);
  });
  unroll<kVectors>([&](auto v) MPE_UNROLLED {
    values[v.value] = multiply_add(intercepts[v.value], slopes[v.value], values[v.value]);
  });
}
// An address on the stack in a register of its own: two vectors are stored at once only near an
// address in a register, and the stack's is far.
inline F32* in_register(F32* values) {
  asm("" : "+r"(values));
  return values;
}
template <int kVectors>
inline __attribute__((always_inline)) void activate_by_lines(const ActivationLine* lines,
                                                             F32* values, Index<kVectors>) {
  static_assert(kVectors % 4 == 0);
  F32* near = in_register(values);
  for (int i = 0; i < kVectors; i += 4) activate_few_by_lines<4>(lines, near + i);
}
__attribute__((noinline)) void activate_by_lines(const ActivationLine* lines, F32* values,
                                                 int count) {
  for (; count >= 4; count -= 4, values += 4) activate_few_by_lines<4>(lines, values);
  for (; count >= 2; count -= 2, values += 2) activate_few_by_lines<2>(lines, values);
  if (count > 0) activate_few_by_lines<1>(lines, values);
}

// function(values, count) on a tile that stays in registers otherwise: only its copy has an
// address.
template <typename Vector, int kRows, int kVectors, typename Function>
inline __attribute__((always_inline)) void activate_copy(Vector (&tile)[kRows][kVectors],
                                                         const Function& function) {
  Vector values[kRows * kVectors];
  unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
    values[r.value * kVectors + v.value] = tile[r.value][v.value];
  });
  function(values, kRows * kVectors);
  unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
    tile[r.value][v.value] = values[r.value * kVectors + v.value];
  });
}
// Of values in memory.
inline __attribute__((always_inline)) void activate_costly_values(Activation activation,
                                                                  F32* values, int count) {
  activate_vectors(activation, values, count);
}
template <typename Vector, int kRows, int kVectors>
inline __attribute__((always_inline)) void activate_costly_tile(Activation activation,
                                                                Vector (&tile)[kRows][kVectors]) {
  activate_copy(tile, [activation](Vector* values, int count)
                          MPE_UNROLLED { activate_costly_values(activation, values, count); });
}

// kLinear, kLeaky, kRelu and kRelu6, which are known at compile time.
template <Activation kActivation, typename Vector>
inline __attribute__((always_inline)) Vector activate_simple(Vector x) {
  if constexpr (kActivation == Activation::kLinear) {
    return x;
  } else if constexpr (kActivation == Activation::kLeaky) {
    return leaky(x);
  } else if constexpr (kActivation == Activation::kRelu) {
    return relu(x);
  } else {
    static_assert(kActivation == Activation::kRelu6);
    return relu6(x);
  }
}

// The activation of a tile of values in registers; kLogistic stands for all costly ones.
template <Activation kActivation, typename Vector, int kRows, int kVectors>
inline __attribute__((always_inline)) void activate_tile(Activation activation,
                                                         Vector (&tile)[kRows][kVectors]) {
  if constexpr (kActivation == Activation::kLogistic) {
    activate_costly_tile(activation, tile);
  } else {
    unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
      tile[r.value][v.value] = activate_simple<kActivation>(tile[r.value][v.value]);
    });
  }
}

// A set whose cores run in order has leaky_four() for its vectors.
template <typename Vector>
inline __attribute__((always_inline)) void leaky_four(Vector& a, Vector& b, Vector& c, Vector& d) {
  a = leaky(a);
  b = leaky(b);
  c = leaky(c);
  d = leaky(d);
}

template <typename Vector, int kRows, int kVectors>
inline __attribute__((always_inline)) void activate_leaky(Vector (&sums)[kRows][kVectors]) {
  constexpr int kCount = kRows * kVectors;
  const auto at = [&](auto i) MPE_UNROLLED -> Vector& {
    return sums[i.value / kVectors][i.value % kVectors];
  };
  unroll<kCount / 4>([&](auto i) MPE_UNROLLED {
    constexpr int kFirst = 4 * i.value;
    leaky_four(at(Index<kFirst>{}), at(Index<kFirst + 1>{}), at(Index<kFirst + 2>{}),
               at(Index<kFirst + 3>{}));
  });
  unroll<kCount % 4>([&](auto i) MPE_UNROLLED {
    Vector& x = at(Index<kCount / 4 * 4 + i.value>{});
    x = leaky(x);
  });
}

// The activation of a tile of sums in registers, as for activate_tile().
template <Activation kActivation, typename Vector, int kRows, int kVectors>
inline __attribute__((always_inline)) void activate_sums(Activation activation,
                                                         Vector (&sums)[kRows][kVectors]) {
  if constexpr (kActivation == Activation::kLeaky) {
    activate_leaky(sums);
  } else {
    activate_tile<kActivation>(activation, sums);
  }
}
template <typename Vector, int kRows, int kVectors>
inline __attribute__((always_inline)) void activate_all(Activation activation,
                                                        Vector (&sums)[kRows][kVectors]) {
  with_activation(activation,
                  [&](auto kind) MPE_UNROLLED { activate_sums<kind.value>(activation, sums); });
}

// What int8 sums become outputs by, in registers: a store of an output might change them in memory.
template <Channels kChannels>
struct Int8Constants {
  I32 offset;
  F32 multiplier;
  I32 zero_point;
  F32 six;
  F32 inverse_scale;

  // For outputs of the type given: that of the stage.
  template <Activation kActivation, typename Output>
  static inline Int8Constants load(const OutputStage& stage, int channel, int index) {
    Int8Constants constants;
    constants.offset = int_constant<kChannels>(stage.offset + channel, index);
    constants.multiplier = float_constant<kChannels>(stage.multiplier + channel, index);
    if constexpr (!std::is_same_v<Output, std::int8_t>) return constants;
    constants.zero_point = int_constant<kChannels>(stage.zero_point + channel, index);
    if constexpr (kActivation == Activation::kRelu6) {
      constants.six = float_constant<kChannels>(stage.six + channel, index);
    } else if constexpr (kActivation == Activation::kLogistic) {
      constants.inverse_scale = float_constant<kChannels>(stage.inverse_scale + channel, index);
    }
    return constants;
  }
};

// Values in output steps to int8, or values that a costly activation made; limits and rounding as
// in quant/requantize.h.
template <Activation kActivation, Channels kChannels>
inline I32 requantized(const Int8Constants<kChannels>& constants, F32 value) {
  if constexpr (kActivation == Activation::kLogistic) {
    value = value * constants.inverse_scale;
  } else if constexpr (kActivation == Activation::kRelu6) {
    value = relu(value);
    value = choose(less(value, constants.six), value, constants.six);
  } else {
    value = activate_simple<kActivation>(value);
  }
  return round_to_steps(value, constants.zero_point);
}

// Float or half, as the stage says.
inline void store_output(const OutputStage& stage, F32 value, void* output, int index, int count) {
  if (stage.kind == OutputKind::kHalf) {
    store_half(static_cast<std::uint16_t*>(output) + index, value, count);
  } else {
    store(static_cast<float*>(output) + index, value, count);
  }
}

template <Activation kActivation, Channels kChannels>
inline void write_vector(const OutputStage& stage, int channel, int index, int count,
                         const float* sums, void* output) {
  const F32 bias = float_constant<kChannels>(stage.bias + channel, index);
  const F32 value = activate_simple<kActivation>(F32::load(sums + index) + bias);
  store_output(stage, value, output, index, count);
}

template <Activation kActivation, Channels kChannels>
inline void write_vector(const Int8Constants<kChannels>& constants, const std::int32_t* sums,
                         int count, std::int8_t* output) {
  const F32 value = to_float(I32::load(sums) + constants.offset) * constants.multiplier;
  store_int8(output, requantized<kActivation>(constants, value), count);
}

template <Activation kActivation, Channels kChannels>
inline void write_vector(const Int8Constants<kChannels>& constants, const std::int32_t* sums,
                         int count, float* output) {
  const F32 value = to_float(I32::load(sums) + constants.offset) * constants.multiplier;
  store(output, activate_simple<kActivation>(value), count);
}

// Several vectors side by side, so that none waits for its own results.
template <Activation kActivation, int kAtOnce, typename Output>
inline __attribute__((always_inline)) void write_vectors(
    const Int8Constants<Channels::kOne>& constants, const std::int32_t* sums, Output* output) {
  F32 values[kAtOnce];
  unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
    const I32 sum = I32::load(sums + v.value * F32::kLanes) + constants.offset;
    values[v.value] = to_float(sum) * constants.multiplier;
  });
  if constexpr (std::is_same_v<Output, float>) {
    unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
      values[v.value] = activate_simple<kActivation>(values[v.value]);
    });
    unroll<kAtOnce>([&](auto v)
                        MPE_UNROLLED { store(output + v.value * F32::kLanes, values[v.value]); });
  } else {
    I32 steps[kAtOnce];
    unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
      steps[v.value] = requantized<kActivation>(constants, values[v.value]);
    });
    unroll<kAtOnce>([&](auto v) MPE_UNROLLED {
      store_int8(output + v.value * F32::kLanes, steps[v.value], F32::kLanes);
    });
  }
}

template <Activation kActivation, Channels kChannels, typename Output>
inline void write_int8_sums(const OutputStage& stage, int channel, const std::int32_t* sums,
                            int count, Output* output) {
  using Constants = Int8Constants<kChannels>;
  auto constants = Constants::template load<kActivation, Output>(stage, channel, 0);
  int i = 0;
  if constexpr (kChannels == Channels::kOne) {
    for (; i + 4 * F32::kLanes <= count; i += 4 * F32::kLanes) {
      write_vectors<kActivation, 4>(constants, sums + i, output + i);
    }
    if (i + 3 * F32::kLanes <= count) {
      write_vectors<kActivation, 3>(constants, sums + i, output + i);
      i += 3 * F32::kLanes;
    }
  }
  for (; i + F32::kLanes <= count; i += F32::kLanes) {
    if constexpr (kChannels == Channels::kSuccessive) {
      constants = Constants::template load<kActivation, Output>(stage, channel, i);
    }
    write_vector<kActivation>(constants, sums + i, F32::kLanes, output + i);
  }
  if (i == count) return;
  if constexpr (kChannels == Channels::kSuccessive) {
    constants = Constants::template load<kActivation, Output>(stage, channel, i);
  }
  write_vector<kActivation>(constants, sums + i, count - i, output + i);
}

template <Activation kActivation, Channels kChannels>
void write_run(const OutputStage& stage, int channel, const std::int32_t* sums, int count,
               void* output) {
  if (stage.kind == OutputKind::kInt8) {
    write_int8_sums<kActivation, kChannels>(stage, channel, sums, count,
                                            static_cast<std::int8_t*>(output));
  } else {
    write_int8_sums<kActivation, kChannels>(stage, channel, sums, count,
                                            static_cast<float*>(output));
  }
}

template <Activation kActivation, Channels kChannels>
void write_run(const OutputStage& stage, int channel, const float* sums, int count, void* output) {
  int i = 0;
  for (; i + F32::kLanes <= count; i += F32::kLanes) {
    write_vector<kActivation, kChannels>(stage, channel, i, F32::kLanes, sums, output);
  }
  if (i < count) {
    write_vector<kActivation, kChannels>(stage, channel, i, count - i, sums, output);
  }
}

// The values of a vector of sums before their activation.
template <Channels kChannels>
inline F32 value_of_sums(const OutputStage& stage, int channel, int index, const float* sums) {
  return F32::load(sums + index) + float_constant<kChannels>(stage.bias + channel, index);
}
template <Channels kChannels>
inline F32 value_of_sums(const OutputStage& stage, int channel, int index,
                         const std::int32_t* sums) {
  const I32 offset = int_constant<kChannels>(stage.offset + channel, index);
  const F32 multiplier = float_constant<kChannels>(stage.multiplier + channel, index);
  return to_float(I32::load(sums + index) + offset) * multiplier;
}

inline void activate_outputs(const OutputStage& stage, F32* values, int vectors) {
  if (stage.kind == OutputKind::kInt8) {
    activate_by_lines(stage.lines, values, vectors);
  } else {
    activate_vectors(stage.activation, values, vectors);
  }
}

// The first `count` lanes of a vector of activated values, as outputs `index` and following.
template <Channels kChannels>
inline void store_activated(const OutputStage& stage, int channel, int index, F32 value,
                            void* output, int count) {
  if (stage.kind != OutputKind::kInt8) return store_output(stage, value, output, index, count);
  const F32 inverse = float_constant<kChannels>(stage.inverse_scale + channel, index);
  const I32 zero = int_constant<kChannels>(stage.zero_point + channel, index);
  store_int8(static_cast<std::int8_t*>(output) + index, round_to_steps(value * inverse, zero),
             count);
}

template <Channels kChannels, typename Sum>
void write_costly_run(const OutputStage& stage, int channel, const Sum* sums, int count,
                      void* output) {
  for (int first = 0; first < count; first += kActivatedAtOnce * F32::kLanes) {
    F32 values[kActivatedAtOnce];
    int vectors = 0;
    for (int i = first; i < count && vectors < kActivatedAtOnce; i += F32::kLanes) {
      values[vectors++] = value_of_sums<kChannels>(stage, channel, i, sums);
    }
    activate_outputs(stage, values, vectors);
    for (int v = 0; v < vectors; ++v) {
      const int i = first + v * F32::kLanes;
      const int stored = count - i < F32::kLanes ? count - i : F32::kLanes;
      store_activated<kChannels>(stage, channel, i, values[v], output, stored);
    }
  }
}

// Writes `count` outputs of channel `channel` (or of that and the following channels). `sums` may
// be read up to the next full vector. `output` is a float, half or int8 array, as the stage says.
template <Channels kChannels, typename Sum>
void write_outputs(const OutputStage& stage, int channel, const Sum* sums, int count,
                   void* output) {
  with_activation(stage.activation, [&](auto activation) MPE_UNROLLED {
    if constexpr (is_simple(activation.value)) {
      write_run<activation.value, kChannels>(stage, channel, sums, count, output);
    } else {
      write_costly_run<kChannels>(stage, channel, sums, count, output);
    }
  });
}

inline int output_bytes(OutputKind kind) {
  return kind == OutputKind::kFloat ? 4 : kind == OutputKind::kHalf ? 2 : 1;
}

// All of a tile's values are activated together: a row alone has too few of them.
template <int kRows, int kVectors, typename Sum>
void write_costly_tile(const OutputStage& stage, int channel, const Sum* sums, int rows, int count,
                       std::byte* output, std::int64_t row_bytes) {
  constexpr int kColumns = kVectors * F32::kLanes;
  F32 values[kRows * kVectors];
  const int vectors = (count + F32::kLanes - 1) / F32::kLanes;
  const bool whole = count == kColumns;
  for (int r = 0; r < rows; ++r, sums += kColumns) {
    const auto value = [&](int v) MPE_UNROLLED {
      return value_of_sums<Channels::kOne>(stage, channel + r, v * F32::kLanes, sums);
    };
    F32* to = values + r * vectors;
    if (whole) {
      unroll<kVectors>([&](auto v) MPE_UNROLLED { to[v.value] = value(v.value); });
    } else {
      for (int v = 0; v < vectors; ++v) to[v] = value(v);
    }
  }
  activate_outputs(stage, values, rows * vectors);
  for (int r = 0; r < rows; ++r, output += row_bytes) {
    const F32* from = values + r * vectors;
    const auto store_vector = [&](int v, int stored) MPE_UNROLLED {
      store_activated<Channels::kOne>(stage, channel + r, v * F32::kLanes, from[v], output, stored);
    };
    if (whole) {
      unroll<kVectors>([&](auto v) MPE_UNROLLED { store_vector(v.value, F32::kLanes); });
    } else {
      for (int v = 0; v < vectors; ++v) {
        const int left = count - v * F32::kLanes;
        store_vector(v, left < F32::kLanes ? left : F32::kLanes);
      }
    }
  }
}

// Writes `count` outputs of each of `rows` channels from the rows of a tile of sums.
template <int kRows, int kColumns, typename Sum>
void write_tile_outputs(const OutputStage& stage, int channel, const Sum* sums, int rows, int count,
                        std::byte* output, std::int64_t row_bytes) {
  if (!is_simple(stage.activation)) {
    return write_costly_tile<kRows, kColumns / F32::kLanes>(stage, channel, sums, rows, count,
                                                            output, row_bytes);
  }
  for (int r = 0; r < rows; ++r) {
    write_outputs<Channels::kOne>(stage, channel + r, sums + r * kColumns, count,
                                  output + r * row_bytes);
  }
}

}  // namespace
}  // namespace mpe
