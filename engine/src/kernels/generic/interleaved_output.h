// What becomes of the sums that generic/interleaved.h makes: bias, activation, rounding, pooling.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/generic/output.h"
#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

template <typename K>
class InterleavedOutput {
 public:
  static constexpr int kColumns = K::kLanes * K::kVectors;
  static constexpr int kTile = K::kRows * kColumns;
  // Four lanes, as these have lane_of(), twice_each() and store_int8_halves().
  static constexpr bool kSharesHalves = K::kVectors == 3 && K::kLanes == 4 && K::kRows == 8;
  static constexpr int kPooledRows = K::kRows / 2;
  static constexpr bool kHasBounded = requires { typename K::Bounded; };

  // The first `count` outputs of kRows rows side by side, so that none waits for its own results.
  // Always inlined: a count that is known makes every store a whole vector.
  template <Activation kActivation, int kVectors, int kRows, typename Sums, typename Output>
  static inline __attribute__((always_inline)) void write_rows(const OutputStage& stage,
                                                               int channel, const Sums& sums,
                                                               int count, Output* output,
                                                               std::int64_t plane) {
    constexpr int kLanes = I32::kLanes;
    Int8Constants<Channels::kOne> constants[kRows];
    F32 values[kRows][kVectors];
    I32 steps[kRows][kVectors];
    unroll<kRows>([&](auto r) MPE_UNROLLED {
      constants[r.value] = Int8Constants<Channels::kOne>::template load<kActivation, Output>(
          stage, channel + r.value, 0);
      unroll<kVectors>([&](auto v) MPE_UNROLLED {
        values[r.value][v.value] =
            to_float(sums(r, v) + constants[r.value].offset) * constants[r.value].multiplier;
      });
    });
    if constexpr (std::is_same_v<Output, float>) {
      activate_tile<kActivation>(stage.activation, values);
    } else {
      if constexpr (kActivation == Activation::kLogistic) {
        activate_copy(values, [&stage](F32* all, int vectors)
                                  MPE_UNROLLED { activate_by_lines(stage.lines, all, vectors); });
      }
      unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
        steps[r.value][v.value] =
            requantized<kActivation>(constants[r.value], values[r.value][v.value]);
      });
    }
    unroll_grid<kRows, kVectors>([&](auto r, auto v) MPE_UNROLLED {
      Output* to = output + r.value * plane + v.value * kLanes;
      const int left = count - v.value * kLanes;
      if (left <= 0) return;
      const int stored = left < kLanes ? left : kLanes;
      if constexpr (std::is_same_v<Output, float>) {
        store(to, values[r.value][v.value], stored);
      } else {
        store_int8(to, steps[r.value][v.value], stored);
      }
    });
  }

  // Outputs of whole rows whose activation is looked up. All of a tile's values leave the registers
  // first: the look-up needs them.
  template <bool kBounded, int kRows, int kVectors>
  static inline __attribute__((always_inline)) void write_by_lines(
      const OutputStage& stage, int channel, const I32 (&sums)[kRows][kVectors],
      std::int8_t* output, std::int64_t plane) {
    if constexpr (kBounded) {
      K::Bounded::template write_by_lines<1>(stage, channel, sums, output, plane);
    } else {
      F32 values[kRows * kVectors];
      unroll<kRows>([&](auto r) MPE_UNROLLED {
        const I32 offset(stage.offset[channel + r.value]);
        const F32 multiplier(stage.multiplier[channel + r.value]);
        unroll<kVectors>([&](auto v) MPE_UNROLLED {
          values[r.value * kVectors + v.value] =
              to_float(sums[r.value][v.value] + offset) * multiplier;
        });
      });
      activate_by_lines(stage.lines, values, Index<kRows * kVectors>{});
      unroll<kRows>([&](auto r) MPE_UNROLLED {
        const F32 inverse(stage.inverse_scale[channel + r.value]);
        const I32 zero(stage.zero_point[channel + r.value]);
        unroll<kVectors>([&](auto v) MPE_UNROLLED {
          const F32 steps = values[r.value * kVectors + v.value] * inverse;
          store_int8(output + r.value * plane + v.value * I32::kLanes, round_to_steps(steps, zero),
                     I32::kLanes);
        });
      });
    }
  }

  // Whole pooled outputs of four rows, of the larger sums of each column, with their offset, that
  // larger_sums(row, vector) gives. Each row's last vector of them makes half a vector of outputs:
  // two rows share one.
  template <Activation kActivation, typename Output, typename Sums>
  static inline __attribute__((always_inline)) void write_pooled_rows(const OutputStage& stage,
                                                                      int channel,
                                                                      const Sums& larger_sums,
                                                                      Output* output,
                                                                      std::int64_t plane) {
    using Constants = Int8Constants<Channels::kOne>;
    constexpr int kVectors = kPooledRows + kPooledRows / 2;
    const auto four =
        Int8Constants<Channels::kSuccessive>::template load<kActivation, Output>(stage, channel, 0);
    const auto constants_at = [&](auto i) MPE_UNROLLED -> Constants {
      if constexpr (i.value < kPooledRows) {
        return spread<Constants>(four, [&](auto x) MPE_UNROLLED { return lane_of(x, i); });
      } else {
        constexpr int kPair = i.value - kPooledRows;
        return spread<Constants>(
            four, [&](auto x) MPE_UNROLLED { return twice_each(x, Index<kPair>{}); });
      }
    };
    F32 values[1][kVectors];
    unroll<kVectors>([&](auto i) MPE_UNROLLED {
      constexpr int kRow = i.value < kPooledRows ? i.value : 2 * (i.value - kPooledRows);
      const I32 largest = i.value < kPooledRows
                              ? larger_of_pairs(larger_sums(kRow, 0), larger_sums(kRow, 1))
                              : larger_of_pairs(larger_sums(kRow, 2), larger_sums(kRow + 1, 2));
      values[0][i.value] = to_float(largest) * constants_at(i).multiplier;
    });
    if constexpr (std::is_same_v<Output, float>) {
      activate_tile<kActivation>(stage.activation, values);
      constexpr int kLanes = F32::kLanes;
      unroll<kPooledRows>(
          [&](auto row) MPE_UNROLLED { store(output + row.value * plane, values[0][row.value]); });
      unroll<kPooledRows / 2>([&](auto pair) MPE_UNROLLED {
        float shared[kLanes];
        store(shared, values[0][kPooledRows + pair.value]);
        float* to = output + 2 * pair.value * plane + kLanes;
        copy_block<kLanes / 2 * sizeof(float)>(to, shared);
        copy_block<kLanes / 2 * sizeof(float)>(to + plane, shared + kLanes / 2);
      });
    } else {
      I32 steps[kVectors];
      unroll<kVectors>([&](auto i) MPE_UNROLLED {
        steps[i.value] = requantized<kActivation>(constants_at(i), values[0][i.value]);
      });
      unroll<kPooledRows>([&](auto row) MPE_UNROLLED {
        store_int8(output + row.value * plane, steps[row.value], I32::kLanes);
      });
      unroll<kPooledRows / 2>([&](auto pair) MPE_UNROLLED {
        std::int8_t* to = output + 2 * pair.value * plane + I32::kLanes;
        store_int8_halves(to, to + plane, steps[kPooledRows + pair.value]);
      });
    }
  }

  // The outputs of a tile's first `count` columns, from its sums as they lie in memory.
  template <Activation kActivation, typename Output>
  static void write_tile(const InterleavedWork& work, int block, int column, int count,
                         const std::int32_t* sums) {
    const bool whole = count == kColumns;
    if (work.pool) {
      (whole ? write_columns<kActivation, true, true, Output>
             : write_columns<kActivation, true, false, Output>)(work, block, column, count, sums);
    } else {
      (whole ? write_columns<kActivation, false, true, Output>
             : write_columns<kActivation, false, false, Output>)(work, block, column, count, sums);
    }
  }

 private:
  template <bool kPool>
  static constexpr int kOutputVectors = kPool ? (K::kVectors + 1) / 2 : K::kVectors;

  // A vector of a row's sums, or of the largest of each four in it and in the tile after it.
  template <bool kPool, int kVector>
  static inline I32 sums_of(const std::int32_t* row) {
    const auto load = [&](int index) { return I32::load(row + index * K::kLanes); };
    if constexpr (kPool) {
      constexpr int kFirst = 2 * kVector;
      constexpr int kSecond = kFirst + 1 < K::kVectors ? kFirst + 1 : kFirst;
      const auto upper_or_lower = [&](int index) {
        return larger(load(index), load(index + K::kRows * K::kVectors));
      };
      return larger_of_pairs(upper_or_lower(kFirst), upper_or_lower(kSecond));
    } else {
      return load(kVector);
    }
  }

  // Constants of four rows, as `function` makes each vector of them.
  template <typename Constants, typename Four, typename Function>
  static inline __attribute__((always_inline)) Constants spread(const Four& four,
                                                                const Function& function) {
    return {function(four.offset), function(four.multiplier), function(four.zero_point),
            function(four.six), function(four.inverse_scale)};
  }

  // The whole tile.
  template <Activation kActivation>
  static void write_bounded(const OutputStage& stage, int channel, const std::int32_t* sums,
                            std::int8_t* output, std::int64_t plane) {
    constexpr int kRows = kActivation == Activation::kLogistic ? K::kRows : 2;
    for (int r = 0; r < K::kRows; r += kRows, sums += kRows * kColumns, output += kRows * plane) {
      I32 started[kRows][K::kVectors];
      unroll<kRows>([&](auto row) MPE_UNROLLED {
        const I32 start = K::Bounded::start(stage, channel + r + row.value);
        unroll<K::kVectors>([&](auto v) MPE_UNROLLED {
          started[row.value][v.value] =
              I32::load(sums + row.value * kColumns + v.value * K::kLanes) + start;
        });
      });
      if constexpr (kActivation == Activation::kLogistic) {
        write_by_lines<true>(stage, channel, started, output, plane);
      } else {
        using Constants = typename K::Bounded::Constants;
        const Constants constants[] = {
            Constants::template load<kActivation>(stage, channel + r),
            Constants::template load<kActivation>(stage, channel + r + 1)};
        K::Bounded::template write<kActivation>(stage.lines, constants, started, output, plane);
      }
    }
  }

  template <Activation kActivation, bool kPool, bool kWhole, typename Output>
  static void write_columns(const InterleavedWork& work, int block, int column, int count,
                            const std::int32_t* sums) {
    constexpr int kStep = kPool ? 2 : 1;
    const int first = block * K::kRows;
    const int rows = work.rows - first < K::kRows ? work.rows - first : K::kRows;
    const std::int64_t plane = work.geometry->out_plane / (kStep * kStep);
    const OutputStage& stage = *work.stage;
    auto* output = static_cast<Output*>(work.output) + first * plane + column / kStep;
    const int outputs = (kWhole ? kColumns : count) / kStep;
    int r = 0;
    if constexpr (!kPool && kWhole && kHasBounded && std::is_same_v<Output, std::int8_t>) {
      if (rows == K::kRows && stage.eight_bounded(first)) {
        return write_bounded<kActivation>(stage, first, sums, output, plane);
      }
    }
    if constexpr (kPool && kWhole && kSharesHalves) {
      for (; r + kPooledRows <= rows;
           r += kPooledRows, sums += kPooledRows * kColumns, output += kPooledRows * plane) {
        const auto larger_sums = [&](int row, int index) {
          const std::int32_t* from = sums + row * kColumns + index * K::kLanes;
          return larger(I32::load(from), I32::load(from + kTile)) +
                 I32(stage.offset[first + r + row]);
        };
        write_pooled_rows<kActivation>(stage, first + r, larger_sums, output, plane);
      }
    }
    constexpr int kVectors = kOutputVectors<kPool>;
    const auto sums_at = [&](auto row, auto v) MPE_UNROLLED {
      return sums_of<kPool, v.value>(sums + row.value * kColumns);
    };
    for (; r + 2 <= rows; r += 2, sums += 2 * kColumns, output += 2 * plane) {
      write_rows<kActivation, kVectors, 2>(stage, first + r, sums_at, outputs, output, plane);
    }
    if (r < rows) {
      write_rows<kActivation, kVectors, 1>(stage, first + r, sums_at, outputs, output, plane);
    }
  }
};

}  // namespace
}  // namespace mpe
