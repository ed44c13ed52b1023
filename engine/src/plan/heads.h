// The tensors that a network is run for.
#pragma once

#include <vector>

#include "model/network.h"

namespace mpe {

// The tensors that must outlive the inference: those that the cfg names as outputs; if it names
// none, the inputs of layers whose HeadRule says so, and the last layer's output. Ascending, each
// the layer that computed it, kNetworkInput for the input itself.
std::vector<int> find_heads(const Network& network);

}  // namespace mpe
