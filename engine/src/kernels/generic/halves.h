// fp16 as storage: widened to float, and narrowed, by whichever vectors the set has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpe {
namespace {

inline void widen_halves(const std::uint16_t* from, float* to, int count) {
  int i = 0;
  for (; i + F32::kLanes <= count; i += F32::kLanes) store(to + i, load_half(from + i));
  if (i < count) {
    std::uint16_t rest[F32::kLanes] = {};
    __builtin_memcpy(rest, from + i, static_cast<std::size_t>(count - i) * sizeof(rest[0]));
    store(to + i, load_half(rest), count - i);
  }
}

inline void narrow_to_halves(const float* from, std::uint16_t* to, int count) {
  int i = 0;
  for (; i + F32::kLanes <= count; i += F32::kLanes) {
    store_half(to + i, F32::load(from + i), F32::kLanes);
  }
  if (i < count) {
    float rest[F32::kLanes] = {};
    __builtin_memcpy(rest, from + i, static_cast<std::size_t>(count - i) * sizeof(rest[0]));
    store_half(to + i, F32::load(rest), count - i);
  }
}

}  // namespace
}  // namespace mpe
