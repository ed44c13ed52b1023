// Where every tensor lies in the one block of memory that a session works in.
//
// Tensors that are never needed at the same time share places. Layers that change nothing (dropout,
// cost, a route of one layer, yolo and region on float) have no memory of their own; element-wise
// layers, and convolutions that can, write over an input that dies with them; inputs of a route are
// written by their producers straight into the route's output, where the arena allows it; a
// convolution that pools its outputs writes the output of the pooling layer; and of convolutions
// that are computed together, by rows, only the last one's output is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/options.h"
#include "model/network.h"
#include "plan/arena.h"
#include "plan/heads.h"
#include "plan/precision.h"

namespace mpe {

// Bytes a layer needs while it runs.
struct LayerScratch {
  std::int64_t converted = 0;  // its input in another precision
  std::int64_t kernel = 0;
  bool pools = false;          // the layer computes the next one, a pooling, with itself
  bool in_place = false;       // its kernel can write over an input that it alone still needs
  int computed_with = kAlone;  // a later layer, if its output is handed to that one by rows
  static constexpr int kAlone = -1;
};

// Offsets into the arena; multiples of 64 unless the tensor is a part of another.
struct LayerMemory {
  std::int64_t output = 0;
  std::int64_t converted = 0;
  std::int64_t kernel = 0;
  bool is_view = false;   // the output is the input, or a part of it: there is nothing to do
  std::int64_t live = 0;  // bytes of the tensors needed while the layer runs, scratch apart
};

struct MemoryPlan {
  std::vector<LayerMemory> layers;
  std::int64_t arena_bytes = 0;
  // Largest sum of tensors needed at one time, if all were stored, kernels' scratch apart.
  std::int64_t live_bytes = 0;
};

// The plan before any kernel's scratch is known: the live tensors, layer by layer.
MemoryPlan plan_tensors(const Network& network, const PrecisionPlan& precisions,
                        const std::vector<LayerScratch>& scratch);

// A larger arena is taken for a mistake in the cfg: so much memory only the largest boards have.
inline constexpr std::int64_t kMostArenaBytes = std::int64_t{8} << 30;

// Throws mpe::Error, naming the layer that needs most, if the arena is larger than that.
MemoryPlan plan_memory(const Network& network, const PrecisionPlan& precisions,
                       const std::vector<LayerScratch>& scratch, Preference prefer);

}  // namespace mpe
