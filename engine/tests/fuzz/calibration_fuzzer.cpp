// Any bytes as the calibration of a small network: ordered ranges, or one sentence.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "error.h"
#include "model/network.h"
#include "quant/calibration.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mpe::Network network = mpe::parse_network(
      "[net]\nwidth=8\nheight=4\nchannels=3\n[convolutional]\nfilters=2\n[avgpool]\n", "fuzz.cfg");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const mpe::Calibration calibration = mpe::parse_calibration(text, "fuzz.json", network);
    for (int layer = mpe::kNetworkInput; layer < 2; ++layer) {
      const mpe::TensorRange* tensor = calibration.find(layer);
      if (tensor == nullptr) continue;
      if (!(tensor->range.min <= tensor->range.max)) std::abort();
      const auto channels = static_cast<std::size_t>(network.output_shape(layer).channels);
      if (!tensor->channels.empty() && tensor->channels.size() != channels) std::abort();
    }
  } catch (const mpe::Error&) {
  }
  return 0;
}
