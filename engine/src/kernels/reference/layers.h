// Loops of every layer kind but the convolutions, plain or, where the workers bring some, vector
// code. They work on tensors in the precision they are stored in; their results are the same bits
// on every machine, with any number of threads, and with vector code and without.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/elementwise.h"
#include "model/network.h"
#include "quant/convert.h"

namespace mpe {

struct LayerInput {
  TensorView tensor;
  Shape shape;
};

// Copies of values: input and output share their precision, and their quantisation if it is int8.
void run_maxpool(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
                 const Workers& workers);
void run_reorg(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
               const Workers& workers);

// Upsampling and cropping copy too, unless they scale; then they compute in float, which is
// stored as the output asks.
void run_upsample(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
                  const Workers& workers);
void run_crop(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
              const Workers& workers);

// What a route takes of one of its inputs, and where it puts it.
struct RouteSlice {
  TensorView from;
  MutableTensorView to;
  int channels;
  bool in_place() const { return from.data == to.data; }  // its producer wrote it there
};
RouteSlice route_slice(const Layer& layer, std::span<const LayerInput> inputs,
                       const MutableTensorView& output, std::size_t which);

// Inputs of any precision, converted to the output's.
void run_route(const Layer& layer, std::span<const LayerInput> inputs,
               const MutableTensorView& output, const Workers& workers);

// Computed in float from inputs of any precision; stored as the output asks. The output may lie
// where an input of the same shape and precision lies.
//   shortcut: activate(((a + b) + c) ...); inputs of other sizes are strided as pjreddie's Darknet
//   does, channels that one of them lacks are left alone.
//   avgpool: the sum of a channel in double, in order, times 1 / count.
void run_shortcut(const Layer& layer, std::span<const LayerInput> inputs,
                  const MutableTensorView& output, const Workers& workers);
void run_scale_channels(const Layer& layer, std::span<const LayerInput> inputs,
                        const MutableTensorView& output, const Workers& workers);
void run_avgpool(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
                 const Workers& workers);

// Whether there is vector code for a layer, besides conversions to and from int8.
bool pools_pairs(const Layer& layer);  // a maxpool
bool adds_one_pair(const Layer& layer, std::span<const LayerInput> inputs,
                   const MutableTensorView& output);  // a shortcut
// Does a layer without weights run vector code, conversions included, where the workers bring some?
bool runs_vectors(const Layer& layer, std::span<const LayerInput> inputs,
                  const MutableTensorView& output);

// Reads any precision, writes float.
void run_softmax(const Layer& layer, const LayerInput& input, float* output,
                 const Workers& workers);

}  // namespace mpe
