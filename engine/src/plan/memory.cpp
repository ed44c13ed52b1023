#include "plan/memory.h"

#include <algorithm>
#include <optional>
#include <set>

#include "error.h"
#include "plan/arena.h"
#include "quant/convert.h"

namespace mpe {
namespace {

constexpr int kNone = -1;

// A place in a buffer; a buffer may itself be a part of another (`parent`).
struct Place {
  int buffer = kNone;
  std::int64_t offset = 0;
};

struct Buffer {
  std::int64_t bytes = 0;
  Place parent;
};

// Input `input` of the layer `consumer` is written by its producer into that layer's output.
struct Merge {
  int consumer;
  std::size_t input;
  auto operator<=>(const Merge&) const = default;
};

// One moment for a layer's conversion and one for its computation.
int conversion_moment(int layer) { return 2 * layer; }
int moment(int layer) { return 2 * layer + 1; }

// One complete assignment for a given set of merges.
class Assignment {
 public:
  Assignment(const Network& network, const PrecisionPlan& precisions,
             const std::vector<LayerScratch>& scratch)
      : network_(network), precisions_(precisions), scratch_(scratch) {
    const std::size_t count = network.layers.size();
    last_use_.assign(count, 0);
    for (const Layer& layer : network.layers) {
      const bool converts = scratch[at(layer.index)].converted > 0;
      const int when = converts ? conversion_moment(layer.index) : moment(layer.index);
      last_use_[at(layer.index)] = std::max(last_use_[at(layer.index)], moment(layer.index));
      for (const int input : layer.inputs) {
        if (input != kNetworkInput) last_use_[at(input)] = std::max(last_use_[at(input)], when);
      }
    }
    for (const int head : find_heads(network)) {
      if (head != kNetworkInput) last_use_[at(head)] = moment(static_cast<int>(count));
    }
  }

  // Every input that could be merged, as far as formats tell.
  std::vector<Merge> candidates() const {
    std::vector<Merge> result;
    for (const Layer& layer : network_.layers) {
      if (layer.rules.memory != MemoryRule::kConcatenates) continue;
      for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
        const int input = layer.inputs[i];
        if (input == kNetworkInput) continue;
        const TensorFormat& from = precisions_.layers[at(input)].output;
        const TensorFormat& to = precisions_.layers[at(layer.index)].output;
        if (from.precision == to.precision && from.quantization.scale == to.quantization.scale &&
            from.quantization.zero_point == to.quantization.zero_point) {
          result.push_back({layer.index, i});
        }
      }
    }
    return result;
  }

  // Fills in the plan. `merged` receives how many of the merges were possible.
  MemoryPlan plan(const std::set<Merge>& merges, std::size_t* merged = nullptr) {
    buffers_.clear();
    places_.assign(network_.layers.size(), {});
    views_.assign(network_.layers.size(), false);
    std::size_t done = 0;
    for (const Layer& layer : network_.layers) {
      if (place_view(layer) || place_over_input(layer)) continue;
      places_[at(layer.index)] = {new_buffer(bytes_of_output(layer.index)), 0};
      if (layer.rules.memory == MemoryRule::kConcatenates) done += merge_inputs(layer, merges);
    }
    if (merged != nullptr) *merged = done;
    return pack();
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  std::int64_t bytes_of_output(int layer) const {
    const int holder = scratch_[at(layer)].pools ? layer + 1 : layer;
    return network_.output_shape(holder).elements() *
           static_cast<std::int64_t>(bytes_of(precisions_.layers[at(layer)].output.precision));
  }

  int new_buffer(std::int64_t bytes) {
    buffers_.push_back({bytes, {}});
    return static_cast<int>(buffers_.size()) - 1;
  }

  // The place in the outermost buffer.
  Place resolve(Place place) const {
    while (buffers_[at(place.buffer)].parent.buffer != kNone) {
      const Place parent = buffers_[at(place.buffer)].parent;
      place = {parent.buffer, parent.offset + place.offset};
    }
    return place;
  }

  bool place_view(const Layer& layer) {
    const int input = layer.inputs[0];
    if (input == kNetworkInput) return false;
    const Precision precision = precisions_.layers[at(input)].output.precision;
    const MemoryRule rule = layer.rules.memory;
    const bool is_view = rule == MemoryRule::kView || scratch_[at(input)].pools ||
                         (rule == MemoryRule::kViewOfFloat && precision == Precision::kFp32);
    if (!is_view) return false;
    const Place base = places_[at(input)];
    const std::int64_t offset =
        layer.rules.view_begin * static_cast<std::int64_t>(bytes_of(precision));
    places_[at(layer.index)] = {base.buffer, base.offset + offset};
    views_[at(layer.index)] = true;
    return true;
  }

  // True if nothing that lies where `tensor` lies is needed after `layer`.
  bool dies_with(int tensor, int layer) const {
    const Place place = resolve(places_[at(tensor)]);
    const std::int64_t end = place.offset + bytes_of_output(tensor);
    for (int other = 0; other < layer; ++other) {
      const Place there = resolve(places_[at(other)]);
      if (there.buffer != place.buffer || there.offset >= end ||
          there.offset + bytes_of_output(other) <= place.offset) {
        continue;
      }
      if (last_use_[at(other)] > moment(layer)) return false;
    }
    return true;
  }

  bool place_over_input(const Layer& layer) {
    const LayerScratch& scratch = scratch_[at(layer.index)];
    const bool in_place = scratch.in_place && scratch.converted == 0;
    if (layer.rules.memory != MemoryRule::kInPlace && !in_place) return false;
    const Precision precision = precisions_.layers[at(layer.index)].output.precision;
    for (const int input : layer.inputs) {
      if (input == kNetworkInput || network_.output_shape(input) != layer.out ||
          precisions_.layers[at(input)].output.precision != precision ||
          !dies_with(input, layer.index)) {
        continue;
      }
      // Two inputs in one place are fine, but one shifted against another is not: the loops would
      // read values that they have already overwritten.
      const Place target = resolve(places_[at(input)]);
      const bool clear = std::all_of(layer.inputs.begin(), layer.inputs.end(), [&](int other) {
        if (other == kNetworkInput) return true;
        const Place place = resolve(places_[at(other)]);
        const bool same =
            place.offset == target.offset && bytes_of_output(other) == bytes_of_output(input);
        return place.buffer != target.buffer || same ||
               place.offset >= target.offset + bytes_of_output(input) ||
               place.offset + bytes_of_output(other) <= target.offset;
      });
      if (!clear) continue;
      places_[at(layer.index)] = places_[at(input)];
      return true;
    }
    return false;
  }

  std::size_t merge_inputs(const Layer& layer, const std::set<Merge>& merges) {
    std::size_t done = 0;
    std::int64_t offset = 0;
    const int whole = places_[at(layer.index)].buffer;
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const int input = layer.inputs[i];
      const std::int64_t share = network_.output_shape(input).elements() *
                                 bytes_of_output(layer.index) / layer.out.elements();
      if (merges.count({layer.index, i}) != 0) {
        const Place place = places_[at(input)];
        Buffer& buffer = buffers_[at(place.buffer)];
        if (buffer.parent.buffer == kNone && place.buffer != whole && place.offset == 0 &&
            buffer.bytes == share) {
          buffer.parent = {whole, offset};
          ++done;
        }
      }
      offset += share;
    }
    return done;
  }

  MemoryPlan pack() const {
    std::vector<ArenaBlock> blocks(buffers_.size());
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      blocks[i] = {buffers_[i].bytes, moment(static_cast<int>(network_.layers.size())), -1, 0};
    }
    for (const Layer& layer : network_.layers) {
      ArenaBlock& block = blocks[at(resolve(places_[at(layer.index)]).buffer)];
      block.first = std::min(block.first, moment(layer.index));
      block.last = std::max(block.last, last_use_[at(layer.index)]);
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i].parent.buffer != kNone) blocks[i].bytes = 0;
    }
    // Conversions and kernels' scratch, where a layer has any.
    const auto add = [&](std::int64_t bytes, int first, int last) {
      if (bytes == 0) return kNone;
      blocks.push_back({bytes, first, last, 0});
      return static_cast<int>(blocks.size()) - 1;
    };
    const std::size_t count = network_.layers.size();
    std::vector<int> converted(count);
    std::vector<int> kernel(count);
    for (std::size_t i = 0; i < count; ++i) {
      const int layer = static_cast<int>(i);
      converted[i] = add(scratch_[i].converted, conversion_moment(layer), moment(layer));
    }
    MemoryPlan plan;
    plan.live_bytes = peak_of(blocks);
    const std::size_t tensors = blocks.size();
    for (std::size_t i = 0; i < count; ++i) {
      const int layer = static_cast<int>(i);
      kernel[i] = add(scratch_[i].kernel, moment(layer), moment(layer));
    }
    plan.arena_bytes = pack_arena(blocks);
    plan.layers.resize(count);
    const auto offset_of = [&](int slot) { return slot == kNone ? 0 : blocks[at(slot)].offset; };
    for (std::size_t i = 0; i < count; ++i) {
      const Place place = resolve(places_[i]);
      plan.layers[i] = {blocks[at(place.buffer)].offset + place.offset, offset_of(converted[i]),
                        offset_of(kernel[i]), views_[i], 0};
      const int when = moment(static_cast<int>(i));
      for (std::size_t block = 0; block < tensors; ++block) {
        if (blocks[block].first <= when && when <= blocks[block].last) {
          plan.layers[i].live += blocks[block].bytes;
        }
      }
    }
    return plan;
  }

  const Network& network_;
  const PrecisionPlan& precisions_;
  const std::vector<LayerScratch>& scratch_;
  std::vector<int> last_use_;  // moment, of every layer's output
  std::vector<Buffer> buffers_;
  std::vector<Place> places_;  // of every layer's output
  std::vector<bool> views_;
};

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

}  // namespace

std::vector<int> find_heads(const Network& network) {
  const auto producer = [&](int tensor) {
    while (tensor != kNetworkInput &&
           network.layers[static_cast<std::size_t>(tensor)].rules.head == HeadRule::kPasses) {
      tensor = network.layers[static_cast<std::size_t>(tensor)].inputs[0];
    }
    return tensor;
  };
  std::set<int> heads;
  for (const Layer& layer : network.layers) {
    const HeadRule rule = layer.rules.head;
    if (rule == HeadRule::kReadsHead || rule == HeadRule::kReplacesHead) {
      heads.insert(producer(layer.inputs[0]));
    }
  }
  const Layer& last = network.layers.back();
  if (last.rules.head != HeadRule::kReplacesHead) heads.insert(producer(last.index));
  return {heads.begin(), heads.end()};
}

MemoryPlan plan_tensors(const Network& network, const PrecisionPlan& precisions,
                        const std::vector<LayerScratch>& scratch) {
  return Assignment(network, precisions, scratch).plan({});
}

MemoryPlan plan_memory(const Network& network, const PrecisionPlan& precisions,
                       const std::vector<LayerScratch>& scratch, Preference prefer) {
  Assignment assignment(network, precisions, scratch);
  std::set<Merge> merges;
  MemoryPlan best = assignment.plan(merges);
  const std::int64_t live_bytes = best.live_bytes;
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
