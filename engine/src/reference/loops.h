// Every layer without weights as the plainest loops, one value after another on one thread. They
// define the right result: the loops of layers/ give the same bits. `--algorithm reference` runs
// them, and tests compare with them; nothing else uses them.
#pragma once

#include "layers/crop.h"
#include "layers/maxpool.h"
#include "layers/operation.h"
#include "layers/reorg.h"
#include "layers/route.h"
#include "layers/scale_channels.h"
#include "layers/softmax.h"
#include "layers/upsample.h"

namespace mpe {

void reference_avgpool(const LayerCall& call);
void reference_copy(const LayerCall& call);
void reference_crop(const CropParameters& p, const LayerCall& call);
void reference_maxpool(const MaxpoolParameters& p, const LayerCall& call);
void reference_reorg(const ReorgParameters& p, const LayerCall& call);
void reference_route(const RouteParameters& p, const LayerCall& call);
void reference_scale_channels(const ScaleChannelsParameters& p, const LayerCall& call);
void reference_shortcut(const LayerCall& call);
void reference_softmax(const SoftmaxParameters& p, const LayerCall& call);
void reference_upsample(const UpsampleParameters& p, const LayerCall& call);

}  // namespace mpe
