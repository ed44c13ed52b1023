// The largest value of a window that slides over the map.
#pragma once

#include <memory>

#include "layers/operation.h"
#include "layers/window.h"

namespace mpe {

// Every window must have a pixel of the map under it.
std::shared_ptr<const Operation> make_maxpool(const Window& window);

// Windows of 2x2 that lie side by side, wholly inside the map.
bool pools_pairs(const Window& window, const Layer& layer);
// The same, and nothing of the map is left over: LayerRules::pools_pairs.
bool fuses_pooling(const Window& window, const Layer& layer);

void reference_maxpool(const Window& window, const LayerCall& call);

}  // namespace mpe
