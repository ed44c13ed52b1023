// The sums of Winograd's convolution of an image: three products each, computed where the way back
// needs them.
#pragma once

#include "kernels/generic/unroll.h"
#include "kernels/kernel_set.h"

namespace mpe {
namespace {

// Those of a column of positions. `weights` are its factors (generic/factors.h),
// [channel][position]; value(position, channel) gives the transformed input.
template <int kPositions, typename Column, typename Weights, typename Value, typename Vector>
inline __attribute__((always_inline)) void sum_image_column(Column, const Weights& weights,
                                                            const Value& value,
                                                            Vector (&sums)[kPositions]) {
  unroll_grid<kImageChannels, kPositions>([&](auto channel, auto i) MPE_UNROLLED {
    constexpr int kPosition = i.value * kPositions + Column::value;
    constexpr int kWeight = channel.value * kPositions + i.value;
    Vector& sum = sums[i.value];
    if constexpr (channel.value == 0) {
      sum = weights.template times<kWeight>(value(kPosition, channel.value));
    } else {
      sum = weights.template add_product<kWeight>(sum, value(kPosition, channel.value));
    }
  });
}

}  // namespace
}  // namespace mpe
