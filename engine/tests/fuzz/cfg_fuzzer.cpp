// Any bytes as a cfg: a network that keeps its promises, or one sentence.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "error.h"
#include "kernels/convolution.h"
#include "layers/operation.h"
#include "model/network.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// What every later stage relies on without checking again.
void check(const mpe::Network& network) {
  int index = 0;
  for (const mpe::Layer& layer : network.layers) {
    const bool constant = layer.kind == mpe::LayerKind::kConstant;
    require(layer.index == index++ && layer.inputs.empty() == constant);
    for (const int input : layer.inputs)
      require(input >= mpe::kNetworkInput && input < layer.index);
    require(constant || layer.in == network.output_shape(layer.inputs[0]));
    for (const mpe::Shape& shape : {layer.in, layer.out}) {
      require(shape.channels > 0 && shape.height > 0 && shape.width > 0);
      require(shape.elements() <= INT32_MAX);
    }
    const mpe::LayerGeometry of = layer.operation->geometry();
    require(of.groups > 0 && of.stride_x > 0 && of.stride_y > 0);
    require(of.size_x > 0 && of.size_y > 0);
    if (const mpe::ConvolutionShape* shape = layer.operation->convolution()) {
      require(shape->padding_y >= 0 && shape->padding_x >= 0 && shape->dilation_y > 0 &&
              shape->dilation_x > 0);
    }
    require(layer.macs >= 0 && layer.parameters >= (layer.has_filters() ? 1 : 0));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check(mpe::parse_network(text, "fuzz.cfg"));
  } catch (const mpe::Error& error) {
    require(std::string_view(error.what()).starts_with("fuzz.cfg:"));
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
