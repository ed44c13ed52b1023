// Every layer without weights as the plainest loops, one value after another on one thread. They
// define the right result: the loops of layers/ give the same bits. `--algorithm reference` runs
// them, and tests compare with them; nothing else uses them.
#pragma once

#include "layers/arithmetic.h"
#include "layers/crop.h"
#include "layers/deconvolutional.h"
#include "layers/function.h"
#include "layers/operation.h"
#include "layers/pad.h"
#include "layers/pool.h"
#include "layers/reduce.h"
#include "layers/reorg.h"
#include "layers/resize.h"
#include "layers/route.h"
#include "layers/scale_channels.h"
#include "layers/slice.h"
#include "layers/softmax.h"
#include "layers/transpose.h"
#include "layers/upsample.h"
#include "layers/window.h"

namespace mpe {

void reference_arithmetic(Arithmetic operation, const LayerCall& call);
void reference_average(const AverageParameters& p, const LayerCall& call);
void reference_avgpool(const LayerCall& call);
void reference_copy(const LayerCall& call);
void reference_crop(const CropParameters& p, const LayerCall& call);
void reference_deconvolution(const DeconvolutionParameters& p, const LayerCall& call);
void reference_function(const FunctionParameters& p, const LayerCall& call);
void reference_matmul(const LayerCall& call);
void reference_maxpool(const Window& window, const LayerCall& call);
void reference_pad(const PadParameters& p, const LayerCall& call);
void reference_reduce(const ReduceParameters& p, const LayerCall& call);
void reference_reorg(const ReorgParameters& p, const LayerCall& call);
void reference_resize(const ResizeParameters& p, const LayerCall& call);
void reference_route(const RouteParameters& p, const LayerCall& call);
void reference_scale_channels(const ScaleChannelsParameters& p, const LayerCall& call);
void reference_shortcut(const LayerCall& call);
void reference_slice(const SliceParameters& p, const LayerCall& call);
void reference_softmax(const SoftmaxParameters& p, const LayerCall& call);
void reference_transpose(const TransposeParameters& p, const LayerCall& call);
void reference_upsample(const UpsampleParameters& p, const LayerCall& call);

}  // namespace mpe
