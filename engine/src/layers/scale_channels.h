// Multiplies a map by factors that another layer has computed.
#pragma once

#include "layers/operation.h"

namespace mpe {

struct ScaleChannelsParameters {
  bool by_pixel = false;  // one factor per pixel instead of one per channel
};

void reference_scale_channels(const ScaleChannelsParameters& p, const LayerCall& call);

}  // namespace mpe
