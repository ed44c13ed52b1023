// A layer with everything its run needs, so that running looks nothing up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/row_chain.h"
#include "exec/session.h"
#include "kernels/convolution.h"
#include "layers/operation.h"

namespace mpe {

struct Session::Step {
  const Layer* layer = nullptr;
  const LayerFormat* format = nullptr;
  const Convolution* convolution = nullptr;
  const RowChain* chain = nullptr;  // that ends with this layer
  struct Given {
    std::size_t input;
    std::int64_t begin;
  };
  std::vector<LayerInput> inputs;
  std::vector<Given> given;  // those of them that are the caller's, which may move between runs
  MutableTensorView output;
  MutableTensorView converted;
  std::span<const float> values;
  std::byte* scratch = nullptr;
  bool is_view = false;
  bool is_handed_on = false;  // computed with a later layer
  bool by_quantizer = false;  // converts its input, and the quantizer does it
};

}  // namespace mpe
