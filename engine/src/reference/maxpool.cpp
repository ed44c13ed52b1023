#include "layers/maxpool.h"

#include <limits>

#include "layers/typed.h"
#include "reference/values.h"

namespace mpe {
namespace {

bool is_greater(float a, float b) { return a > b; }
bool is_greater(std::int8_t a, std::int8_t b) { return a > b; }

// Halves are compared by sign and magnitude: NaN lies beyond infinity.
bool is_greater(Half a, Half b) {
  const auto order = [](Half half) {
    const int magnitude = half.bits & 0x7FFF;
    return (half.bits & 0x8000) == 0 ? magnitude : -1 - magnitude;
  };
  return order(a) > order(b);
}

// What a window without any pixel gives.
void set_lowest(float& value) { value = -std::numeric_limits<float>::max(); }
void set_lowest(std::int8_t& value) { value = -128; }
void set_lowest(Half& value) { value.bits = 0xFBFF; }

}  // namespace

void reference_maxpool(const Window& window, const LayerCall& call) {
  const Shape& in_shape = call.layer.in;
  const Shape& out_shape = call.layer.out;
  with_typed(call.inputs[0].tensor, call.output, [&]<typename T>(const T* in, T* out) {
    for_places(out_shape, [&](int c, int row, int column) {
      T largest;
      set_lowest(largest);
      for (int ky = 0; ky < window.y.size; ++ky) {
        for (int kx = 0; kx < window.x.size; ++kx) {
          const int y = row * window.y.stride + ky * window.y.dilation - window.y.before;
          const int x = column * window.x.stride + kx * window.x.dilation - window.x.before;
          if (y < 0 || y >= in_shape.height || x < 0 || x >= in_shape.width) continue;
          const T value = in[position(in_shape, c, y, x)];
          if (is_greater(value, largest)) largest = value;
        }
      }
      out[position(out_shape, c, row, column)] = largest;
    });
  });
}

}  // namespace mpe
