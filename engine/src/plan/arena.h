// Packs blocks with known lifetimes into as little memory as simple heuristics find.
#pragma once

#include <cstdint>
#include <vector>

namespace mpe {

struct ArenaBlock {
  std::int64_t bytes = 0;
  int first = 0;  // in use from this moment
  int last = 0;   // to this one, inclusive
  std::int64_t offset = 0;
};

inline constexpr std::int64_t kArenaAlignment = 64;

// Gives every block an offset, a multiple of kArenaAlignment, such that blocks in use at the same
// moment do not overlap. Returns the bytes needed.
std::int64_t pack_arena(std::vector<ArenaBlock>& blocks);

// The largest sum of blocks in use at one moment: no packing can need less.
std::int64_t peak_of(const std::vector<ArenaBlock>& blocks);

}  // namespace mpe
