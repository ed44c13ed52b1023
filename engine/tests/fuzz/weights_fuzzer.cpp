// Any bytes as the weights of a small network: finite numbers, or one sentence.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "error.h"
#include "model/network.h"
#include "model/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mpe::Network network = mpe::parse_network(
      "[net]\nwidth=2\nheight=1\nchannels=1\n"
      "[convolutional]\nfilters=2\nbatch_normalize=1\n"
      "[connected]\noutput=2\n"
      "[connected]\noutput=1\nbatch_normalize=1\n",
      "fuzz.cfg");
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    mpe::WeightsReader reader(std::make_unique<std::istringstream>(bytes), "fuzz.weights", network);
    for (const mpe::Layer& layer : network.layers) {
      const mpe::LayerWeights weights = reader.next(layer);
      for (int channel = 0; channel < layer.out.channels; ++channel) {
        for (const float value : weights.filters->filter(channel)) {
          if (!std::isfinite(value)) std::abort();
        }
      }
    }
  } catch (const mpe::Error&) {
  }
  return 0;
}
