// Multiplies a map by factors that another layer has computed.
#pragma once

namespace mpe {

struct ScaleChannelsParameters {
  bool by_pixel = false;  // one factor per pixel instead of one per channel
};

}  // namespace mpe
