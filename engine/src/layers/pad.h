// A map with values around it.
#pragma once

#include <cstdint>

#include "layers/operation.h"

namespace mpe {

enum class PadMode : std::uint8_t { kConstant, kReflect, kEdge };

struct PadParameters {
  PadMode mode = PadMode::kConstant;
  int front = 0;  // channels before the first
  int top = 0;
  int left = 0;
  float value = 0.0F;
};

// The place in an input of `size` places whose value stands at `place`, or -1 for the constant.
inline int padded_place(PadMode mode, int place, int size) {
  if (place >= 0 && place < size) return place;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kReflect:  // without its edge: at most size - 1 places
      return place < 0 ? -place : 2 * size - 2 - place;
    case PadMode::kEdge:
      return place < 0 ? 0 : size - 1;
  }
  return -1;
}

void reference_pad(const PadParameters& p, const LayerCall& call);

}  // namespace mpe
