// Gives every tensor a place, for a given choice of inputs that lie in their consumers' outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "plan/memory.h"

namespace mpe {

// Input `input` of the layer `consumer` is written by its producer into that layer's output.
struct Merge {
  int consumer;
  std::size_t input;
  auto operator<=>(const Merge&) const = default;
};

class Assignment {
 public:
  // All of these must outlive the assignment.
  Assignment(const Network& network, const PrecisionPlan& precisions,
             const std::vector<LayerScratch>& scratch);

  // Every input that could be merged, as far as formats tell.
  std::vector<Merge> candidates() const;

  // The plan with these merges, as far as they are possible. `merged` receives how many were.
  MemoryPlan plan(const std::set<Merge>& merges, std::size_t* merged = nullptr);

 private:
  static constexpr int kNone = -1;

  // A place in a buffer; a buffer may itself be a part of another (`parent`).
  struct Place {
    int buffer = kNone;
    std::int64_t offset = 0;
  };
  struct Buffer {
    std::int64_t bytes = 0;
    Place parent;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  bool is_outside(int tensor) const;
  std::int64_t bytes_of_output(int layer) const;
  int new_buffer(std::int64_t bytes);
  // The place in the outermost buffer.
  Place resolve(Place place) const;
  bool place_view(const Layer& layer);
  // True if nothing that lies where `tensor` lies is needed after `layer`.
  bool dies_with(int tensor, int layer) const;
  bool place_over_input(const Layer& layer);
  std::size_t merge_inputs(const Layer& layer, const std::set<Merge>& merges);
  MemoryPlan pack() const;

  const Network& network_;
  const PrecisionPlan& precisions_;
  const std::vector<LayerScratch>& scratch_;
  std::vector<int> last_use_;  // moment, of every layer's output
  std::vector<Buffer> buffers_;
  std::vector<Place> places_;  // of every layer's output
  std::vector<bool> views_;
};

}  // namespace mpe
