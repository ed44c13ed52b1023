// Reads a Darknet weights file layer by layer, batch normalisation folded into what it returns.
//
// The file: int32 major, minor, revision; images seen in training, 32 bits before version 0.2 and
// 64 since; then for every layer that has any, in the cfg's order, little-endian
// float32:
//   convolutional: biases, [scales, means, variances,] weights [out][in / groups][y][x]
//   connected:     biases, weights [out][in], [scales, means, variances]
// Layers that Darknet does not have:
//   prelu:         slopes of the channels
//   constant:      values [channels][height][width]
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "model/filters.h"
#include "model/network.h"

namespace mpe {

struct LayerWeights {
  // Read as they are asked for. Throw mpe::Error, naming the layer, if a value is not finite once
  // batch normalisation is folded in.
  std::unique_ptr<FilterSource> filters;
  std::vector<float> biases;  // [out channels]
};

inline constexpr float kDefaultBatchNormEpsilon = 1e-5F;

// Bytes of a network's weights file as Darknet writes it today (64-bit `seen`).
std::int64_t weights_file_bytes(const Network& network);

class WeightsReader {
 public:
  // Opens the file and compares its size with what the network needs, before anything is
  // allocated. Throws mpe::Error with both sizes if they differ.
  WeightsReader(const std::string& path, const Network& network,
                float epsilon = kDefaultBatchNormEpsilon);
  // The same over any seekable stream; `name` is used in messages.
  WeightsReader(std::unique_ptr<std::istream> stream, std::string name, const Network& network,
                float epsilon = kDefaultBatchNormEpsilon);

  // The weights of one layer, which must be the next with weights in the network's order; the
  // reader must outlive them. Throws mpe::Error, naming the layer, if a bias is not finite.
  LayerWeights next(const Layer& layer);

  // The values of a layer with WeightsRule::kValues, in the same order of layers. Throws
  // mpe::Error, naming the layer, if one is not finite.
  std::vector<float> values(const Layer& layer);

 private:
  void open(const Network& network);
  std::vector<float> take(std::int64_t count);

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  std::int64_t offset_ = 0;  // of the next layer
  float epsilon_;
  bool transposed_ = false;  // connected weights are [in][out], as very old Darknets wrote them
};

}  // namespace mpe
