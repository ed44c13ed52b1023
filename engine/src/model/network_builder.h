// Turns a cfg's sections into layers with resolved inputs and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/cfg_file.h"
#include "model/cfg_keys.h"
#include "model/network.h"

namespace mpe {

// Bounds beyond which a cfg is taken for a mistake. Within them every count of elements fits an
// int and every sum below fits 64 bits.
struct NetworkLimits {
  static constexpr int kLayers = 4096;
  static constexpr int kInputs = 256;         // of one route or shortcut
  static constexpr int kDimension = 1 << 16;  // channels, height, width
  static constexpr int kKernel = 1 << 10;     // size, padding, stride
  static constexpr int kExtent = 1 << 16;     // pixels from a kernel's first tap to its last
  // Of one channel with its padding: this, or four times the pixels without padding.
  static constexpr std::int64_t kPaddedPixels = std::int64_t{1} << 25;
  static constexpr std::int64_t kElements = std::int64_t{1} << 28;  // of one tensor
  static constexpr std::int64_t kAllElements = std::int64_t{1} << 31;
  static constexpr std::int64_t kParameters = std::int64_t{1} << 29;  // of one layer
  static constexpr std::int64_t kAllParameters = std::int64_t{1} << 30;
  static constexpr std::int64_t kAllMacs = std::int64_t{1} << 48;
};

class NetworkBuilder {
 public:
  explicit NetworkBuilder(std::string_view file);

  // Throws mpe::Error, naming the line, at the first thing that does not fit.
  Network build(const std::vector<CfgSection>& sections);

 private:
  void net(const CfgSection& section);
  void layer(const CfgSection& section);

  void convolutional(const CfgSection& section, Layer& layer);
  void connected(const CfgSection& section, Layer& layer);
  void maxpool(const CfgSection& section, Layer& layer);
  void avgpool(Layer& layer);
  void upsample(const CfgSection& section, Layer& layer);
  void route(const CfgSection& section, Layer& layer);
  void shortcut(const CfgSection& section, Layer& layer);
  void scale_channels(const CfgSection& section, Layer& layer);
  void reorg(const CfgSection& section, Layer& layer);
  void crop(const CfgSection& section, Layer& layer);
  void softmax(const CfgSection& section, Layer& layer);
  void region(const CfgSection& section, const Layer& layer);
  void yolo(const CfgSection& section, const Layer& layer);

  // A `layers` or `from` reference as an absolute index below `layer`'s own.
  int resolve(const CfgSection& section, std::string_view key, const Layer& layer,
              int reference) const;
  std::vector<int> references(const CfgSection& section, std::string_view key,
                              const Layer& layer) const;
  static void check_extent(const CfgSection& section, const Layer& layer);
  void check_shape(const CfgSection& section, const Layer& layer) const;
  // Fills in the layer's parameters and multiply-adds and checks the network's totals.
  void count(const CfgSection& section, Layer& layer);

  Network network_;
  KeyCheck keys_;
  std::int64_t elements_ = 0;
  std::int64_t parameters_ = 0;
  std::int64_t macs_ = 0;
};

}  // namespace mpe
