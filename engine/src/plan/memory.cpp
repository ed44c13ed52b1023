#include "plan/memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "error.h"
#include "plan/assignment.h"

namespace mpe {
namespace {

void check_size(const Network& network, const std::vector<LayerScratch>& scratch,
                const MemoryPlan& plan) {
  if (plan.arena_bytes <= kMostArenaBytes) return;
  const auto bytes_of_layer = [&](const Layer& layer) {
    const auto index = static_cast<std::size_t>(layer.index);
    return plan.layers[index].live + scratch[index].kernel;
  };
  const Layer& largest = *std::ranges::max_element(network.layers, {}, bytes_of_layer);
  throw Error(network.file + ":" + std::to_string(largest.line) + ": layer " +
              std::to_string(largest.index) + " needs " + std::to_string(bytes_of_layer(largest)) +
              " bytes of memory, the network " + std::to_string(plan.arena_bytes) +
              "; the limit is " + std::to_string(kMostArenaBytes) +
              "; make its input smaller or its layers fp16 or int8");
}

// The largest sum of tensors that are needed at one time, if none were handed on by rows: the
// limits of scratch come from it, before it is known which layers are computed together.
std::int64_t bytes_if_stored(const Network& network, const PrecisionPlan& precisions,
                             std::vector<LayerScratch> scratch) {
  for (LayerScratch& layer : scratch) layer.computed_with = LayerScratch::kAlone;
  return plan_tensors(network, precisions, scratch).live_bytes;
}

}  // namespace

MemoryPlan plan_tensors(const Network& network, const PrecisionPlan& precisions,
                        const std::vector<LayerScratch>& scratch) {
  return Assignment(network, precisions, scratch).plan({});
}

MemoryPlan plan_memory(const Network& network, const PrecisionPlan& precisions,
                       const std::vector<LayerScratch>& scratch, Preference prefer) {
  Assignment assignment(network, precisions, scratch);
  std::set<Merge> merges;
  MemoryPlan best = assignment.plan(merges);
  const std::int64_t live_bytes = bytes_if_stored(network, precisions, scratch);
  const std::int64_t allowed = prefer == Preference::kSpeed ? live_bytes + live_bytes / 8 : 0;

  // A merge saves a copy, but holds the whole of the joined output from its first input on.
  // Planning once takes time with the square of the number of layers, so huge networks try fewer
  // merges.
  constexpr std::size_t kWork = 20'000'000;
  std::size_t attempts = kWork / (network.layers.size() * network.layers.size() + 1);
  for (const Merge& merge : assignment.candidates()) {
    if (attempts-- == 0) break;
    std::set<Merge> more = merges;
    more.insert(merge);
    std::size_t merged = 0;
    MemoryPlan plan = assignment.plan(more, &merged);
    if (merged < more.size() || plan.arena_bytes > std::max(allowed, best.arena_bytes)) continue;
    merges = std::move(more);
    best = std::move(plan);
  }
  best.live_bytes = live_bytes;
  check_size(network, scratch, best);
  return best;
}

}  // namespace mpe
