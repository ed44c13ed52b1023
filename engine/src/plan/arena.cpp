#include "plan/arena.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace mpe {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool meet(const ArenaBlock& a, const ArenaBlock& b) {
  return a.first <= b.last && b.first <= a.last;
}

using Order = std::vector<std::size_t>;

// Places blocks in the given order, each at the lowest offset where it fits between the blocks
// already placed that it meets. Returns the bytes needed.
std::int64_t place(std::vector<ArenaBlock>& blocks, const Order& order) {
  std::vector<const ArenaBlock*> placed;  // by offset
  placed.reserve(blocks.size());
  std::int64_t total = 0;
  for (const std::size_t index : order) {
    ArenaBlock& block = blocks[index];
    if (block.bytes == 0) continue;
    std::int64_t offset = 0;
    for (const ArenaBlock* other : placed) {
      if (!meet(block, *other)) continue;
      if (other->offset >= offset + block.bytes) break;
      offset = std::max(offset, aligned(other->offset + other->bytes));
    }
    block.offset = offset;
    total = std::max(total, offset + block.bytes);
    const auto position = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [](std::int64_t value, const ArenaBlock* other) { return value < other->offset; });
    placed.insert(position, &block);
  }
  return total;
}

}  // namespace

std::int64_t peak_of(const std::vector<ArenaBlock>& blocks) {
  std::int64_t peak = 0;
  for (const ArenaBlock& moment : blocks) {  // the sum only rises where some block begins
    std::int64_t sum = 0;
    for (const ArenaBlock& block : blocks) {
      if (block.first <= moment.first && moment.first <= block.last) sum += block.bytes;
    }
    peak = std::max(peak, sum);
  }
  return peak;
}

std::int64_t pack_arena(std::vector<ArenaBlock>& blocks) {
  const std::int64_t peak = peak_of(blocks);
  // Placing takes time with the square of the number of blocks: huge networks get fewer attempts.
  constexpr std::size_t kWork = 4'000'000;
  const std::size_t attempts =
      std::clamp<std::size_t>(kWork / (blocks.size() * blocks.size() + 1), 1, 32);
  std::vector<ArenaBlock> best;
  std::int64_t best_bytes = 0;
  // Sizes first, or sizes by the time they are held, or the order of use: none is always best.
  const auto duration = [](const ArenaBlock& block) { return block.last - block.first + 1; };
  const std::function<bool(const ArenaBlock&, const ArenaBlock&)> orders[] = {
      [](const ArenaBlock& a, const ArenaBlock& b) { return a.bytes > b.bytes; },
      [&](const ArenaBlock& a, const ArenaBlock& b) {
        return a.bytes * duration(a) > b.bytes * duration(b);
      },
      [](const ArenaBlock& a, const ArenaBlock& b) { return a.first < b.first; }};
  for (const auto& before : orders) {
    Order order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return before(blocks[a], blocks[b]); });
    // The block that ends highest came too late to find a low place: let it come first, and again.
    std::vector<ArenaBlock> attempt = blocks;
    for (std::size_t i = 0; i < attempts; ++i) {
      const std::int64_t bytes = place(attempt, order);
      if (best.empty() || bytes < best_bytes) {
        best_bytes = bytes;
        best = attempt;
      }
      if (best_bytes <= peak + kArenaAlignment) break;
      const auto highest = std::max_element(order.begin(), order.end(), [&](auto a, auto b) {
        return attempt[a].offset + attempt[a].bytes < attempt[b].offset + attempt[b].bytes;
      });
      if (highest == order.begin()) break;
      std::rotate(order.begin(), highest, highest + 1);
    }
  }
  blocks = std::move(best);
  return best_bytes;
}

}  // namespace mpe
