#include "plan/assignment.h"

#include <algorithm>

#include "quant/convert.h"

namespace mpe {
namespace {

// One moment for a layer's conversion and one for its computation.
int conversion_moment(int layer) { return 2 * layer; }
int moment(int layer) { return 2 * layer + 1; }

}  // namespace

Assignment::Assignment(const Network& network, const PrecisionPlan& precisions,
                       const std::vector<LayerScratch>& scratch)
    : network_(network), precisions_(precisions), scratch_(scratch) {
  const std::size_t count = network.layers.size();
  last_use_.assign(count, 0);
  for (const Layer& layer : network.layers) {
    const bool converts = scratch[at(layer.index)].converted > 0;
    const int together = scratch[at(layer.index)].computed_with;
    const int when = together != LayerScratch::kAlone ? moment(together)
                     : converts                       ? conversion_moment(layer.index)
                                                      : moment(layer.index);
    last_use_[at(layer.index)] = std::max(last_use_[at(layer.index)], moment(layer.index));
    for (const int input : layer.inputs) {
      if (input != kNetworkInput) last_use_[at(input)] = std::max(last_use_[at(input)], when);
    }
  }
  for (const int head : find_heads(network)) {
    if (head != kNetworkInput) last_use_[at(head)] = moment(static_cast<int>(count));
  }
}

std::vector<Merge> Assignment::candidates() const {
  std::vector<Merge> result;
  for (const Layer& layer : network_.layers) {
    if (layer.rules.memory != MemoryRule::kConcatenates) continue;
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const int input = layer.inputs[i];
      if (is_outside(input)) continue;
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

MemoryPlan Assignment::plan(const std::set<Merge>& merges, std::size_t* merged) {
  buffers_.clear();
  places_.assign(network_.layers.size(), {});
  views_.assign(network_.layers.size(), false);
  std::size_t done = 0;
  for (const Layer& layer : network_.layers) {
    if (is_outside(layer.index)) {
      places_[at(layer.index)] = {new_buffer(0), 0};
      views_[at(layer.index)] = true;
      continue;
    }
    if (place_view(layer) || place_over_input(layer)) continue;
    places_[at(layer.index)] = {new_buffer(bytes_of_output(layer.index)), 0};
    if (layer.rules.memory == MemoryRule::kConcatenates) done += merge_inputs(layer, merges);
  }
  if (merged != nullptr) *merged = done;
  return pack();
}

bool Assignment::is_outside(int tensor) const {
  return network_.input_begin(tensor) ||
         network_.layers[at(tensor)].rules.memory == MemoryRule::kConstant;
}

std::int64_t Assignment::bytes_of_output(int layer) const {
  if (is_outside(layer) || scratch_[at(layer)].computed_with != LayerScratch::kAlone) return 0;
  const int holder = scratch_[at(layer)].pools ? layer + 1 : layer;
  return network_.output_shape(holder).elements() *
         static_cast<std::int64_t>(bytes_of(precisions_.layers[at(layer)].output.precision));
}

int Assignment::new_buffer(std::int64_t bytes) {
  buffers_.push_back({bytes, {}});
  return static_cast<int>(buffers_.size()) - 1;
}

Assignment::Place Assignment::resolve(Place place) const {
  while (buffers_[at(place.buffer)].parent.buffer != kNone) {
    const Place parent = buffers_[at(place.buffer)].parent;
    place = {parent.buffer, parent.offset + place.offset};
  }
  return place;
}

bool Assignment::place_view(const Layer& layer) {
  const int input = layer.inputs[0];
  if (is_outside(input)) return false;
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

bool Assignment::dies_with(int tensor, int layer) const {
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

bool Assignment::place_over_input(const Layer& layer) {
  const LayerScratch& scratch = scratch_[at(layer.index)];
  const bool in_place = scratch.in_place && scratch.converted == 0;
  if (layer.rules.memory != MemoryRule::kInPlace && !in_place) return false;
  const Precision precision = precisions_.layers[at(layer.index)].output.precision;
  for (const int input : layer.inputs) {
    if (is_outside(input) || network_.output_shape(input) != layer.out ||
        precisions_.layers[at(input)].output.precision != precision ||
        !dies_with(input, layer.index)) {
      continue;
    }
    // Two inputs in one place are fine, but one shifted against another is not: the loops
    // would read values that they have already overwritten.
    const Place target = resolve(places_[at(input)]);
    const bool clear = std::all_of(layer.inputs.begin(), layer.inputs.end(), [&](int other) {
      if (is_outside(other)) return true;
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

std::size_t Assignment::merge_inputs(const Layer& layer, const std::set<Merge>& merges) {
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

MemoryPlan Assignment::pack() const {
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

}  // namespace mpe
