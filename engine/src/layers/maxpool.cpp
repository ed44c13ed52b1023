#include "layers/maxpool.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/typed.h"
#include "layers/window.h"
#include "model/limits.h"
#include "reference/loops.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

// Windows of 2x2 that lie side by side, wholly inside the map.
bool pools_pairs(const MaxpoolParameters& p, const Layer& layer) {
  return p.size_y == 2 && p.size_x == 2 && p.stride_y == 2 && p.stride_x == 2 &&
         p.padding / 2 == 0 && layer.in.width >= 2 * layer.out.width &&
         layer.in.height >= 2 * layer.out.height;
}

// The value to compare: float and int8 as they are, halves as integers with the same order, which
// needs no conversion. NaN never wins against a number in float, as in Darknet.
float key_of(float value) { return value; }
std::int8_t key_of(std::int8_t value) { return value; }
std::int16_t key_of(Half value) {
  const auto bits = static_cast<std::int16_t>(value.bits);
  return static_cast<std::int16_t>(bits ^ ((bits >> 15) & 0x7FFF));
}

void set_from_key(float key, float& value) { value = key; }
void set_from_key(std::int8_t key, std::int8_t& value) { value = key; }
void set_from_key(std::int16_t key, Half& value) {
  value.bits = static_cast<std::uint16_t>(key ^ ((key >> 15) & 0x7FFF));
}

// The result of a window that lies wholly outside the map.
float lowest(float) { return -std::numeric_limits<float>::max(); }
std::int8_t lowest(std::int8_t) { return -128; }
Half lowest(Half) { return Half{0xFBFF}; }

struct Span {
  int begin;
  int end;
};

// Output positions whose input position x * stride + offset lies in [0, size).
Span inside(int offset, int stride, int size, int count) {
  const int begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int end = size - 1 - offset < 0 ? 0 : (size - 1 - offset) / stride + 1;
  return {std::min(begin, count), std::min(end, count)};
}

// The vector code for windows of 2x2 that do not overlap.
void pool_row(const ElementwiseKernels& kernels, const float* upper, const float* lower, float* to,
              int count) {
  kernels.pool_floats(upper, lower, to, count);
}
void pool_row(const ElementwiseKernels& kernels, const std::int8_t* upper, const std::int8_t* lower,
              std::int8_t* to, int count) {
  kernels.pool_bytes(upper, lower, to, count);
}
void pool_row(const ElementwiseKernels& kernels, const Half* upper, const Half* lower, Half* to,
              int count) {
  kernels.pool_halves(&upper->bits, &lower->bits, &to->bits, count);
}

// Pooling of 2x2 windows wholly inside the map.
template <typename T>
void maxpool_pairs(const ElementwiseKernels& kernels, const Layer& layer, const T* in, T* out) {
  const int width = layer.in.width;
  for (int row = 0; row < layer.out.height; ++row, in += 2 * width, out += layer.out.width) {
    pool_row(kernels, in, in + width, out, layer.out.width);
  }
}

// Windows that overlap: the largest of a row's neighbours first, then of these along the columns,
// on a padded copy of the map. Returns whether that was it.
template <typename T>
bool maxpool_separably(const MaxpoolParameters& p, const Layer& layer, const T* in, T* out) {
  using Key = decltype(key_of(T{}));
  constexpr int kMost = 1024;
  const int pitch = layer.out.width + p.size_x - 1;
  const int rows = layer.out.height + p.size_y - 1;
  if (p.stride_x != 1 || p.stride_y != 1 || p.size_x * p.size_y < 4 ||
      static_cast<std::int64_t>(rows) * pitch > kMost) {
    return false;
  }
  Key padded[kMost];
  Key largest[kMost];
  const int before = p.padding / 2;
  std::fill_n(padded, rows * pitch, key_of(lowest(T{})));
  const int width = std::min(layer.in.width, pitch - before);
  for (int y = 0; y < std::min(layer.in.height, rows - before); ++y) {
    const T* from = in + static_cast<std::int64_t>(y) * layer.in.width;
    Key* to = padded + (y + before) * pitch + before;
    for (int x = 0; x < width; ++x) {
      const Key key = key_of(from[x]);
      to[x] = key > to[x] ? key : to[x];
    }
  }
  // One run through all rows: what lies across their ends is not used.
  const auto slide = [](const Key* from, Key* to, int count, int size, int step) {
    std::copy_n(from, count, to);
    for (int k = 1; k < size; ++k) {
      const Key* next = from + k * step;
      for (int i = 0; i < count; ++i) to[i] = next[i] > to[i] ? next[i] : to[i];
    }
  };
  slide(padded, largest, rows * pitch - p.size_x + 1, p.size_x, 1);
  slide(largest, padded, layer.out.height * pitch - p.size_x + 1, p.size_y, pitch);
  // Not asked for in the loop: an output that is a byte might be them, for all a compiler knows.
  const int columns = layer.out.width;
  for (int y = 0; y < rows - p.size_y + 1; ++y, out += columns) {
    for (int x = 0; x < columns; ++x) set_from_key(padded[y * pitch + x], out[x]);
  }
  return true;
}

template <typename T>
void maxpool_plane(const MaxpoolParameters& p, const Layer& layer,
                   const ElementwiseKernels& vectors, const T* in, T* out) {
  if (pools_pairs(p, layer)) return maxpool_pairs(vectors, layer, in, out);
  if (maxpool_separably(p, layer, in, out)) return;
  const int width = layer.out.width;
  const int before = p.padding / 2;
  const int stride = p.stride_x;
  for (int row = 0; row < layer.out.height; ++row, out += width) {
    std::fill_n(out, width, lowest(T{}));
    for (int ky = 0; ky < p.size_y; ++ky) {
      const int y = row * p.stride_y + ky - before;
      if (y < 0 || y >= layer.in.height) continue;
      for (int kx = 0; kx < p.size_x; ++kx) {
        const Span columns = inside(kx - before, stride, layer.in.width, width);
        if (columns.begin >= columns.end) continue;
        const T* from = in + static_cast<std::int64_t>(y) * layer.in.width +
                        columns.begin * stride + kx - before;
        T* to = out + columns.begin;
        const int count = columns.end - columns.begin;
        const auto widen_maximum = [&](int step) {
          for (int i = 0; i < count; ++i) {
            const auto value = key_of(from[i * step]);
            const auto largest = key_of(to[i]);
            set_from_key(value > largest ? value : largest, to[i]);
          }
        };
        if (stride == 1) {
          widen_maximum(1);
        } else {
          widen_maximum(stride);
        }
      }
    }
  }
}

class Maxpool final : public OperationWith<MaxpoolParameters> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override {
    return {1, parameters_.size_y, parameters_.size_x, parameters_.stride_y, parameters_.stride_x};
  }

  void run(const LayerCall& call, const Workers& workers) const override {
    const Layer& layer = call.layer;
    with_typed(call.inputs[0].tensor, call.output, [&]<typename T>(const T* in, T* out) {
      workers.pool.parallel_for(layer.out.channels, [&](int, int begin, int end) {
        for (int c = begin; c < end; ++c) {
          maxpool_plane(parameters_, layer, *workers.vectors, in + c * layer.in.plane(),
                        out + c * layer.out.plane());
        }
      });
    });
  }

  void run_reference(const LayerCall& call) const override { reference_maxpool(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override {
    return pools_pairs(parameters_, call.layer);
  }
};

void read(const CfgSection& section, const Network&, Layer& layer) {
  refuse(section, {"maxpool_depth", "antialiasing", "maxpool_zero_nonmax"});
  MaxpoolParameters p;
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  p.stride_x = section.integer("stride_x", stride, 1, Limits::kKernel);
  p.stride_y = section.integer("stride_y", stride, 1, Limits::kKernel);
  const int size = section.integer("size", stride, 1, Limits::kKernel);
  p.size_x = p.size_y = size;
  p.padding = section.integer("padding", size - 1, 0, Limits::kKernel);
  if (p.padding > 2 * (size - 1)) {
    section.fail(section.line_of("padding"), "padding=" + std::to_string(p.padding) +
                                                 " leaves windows of size " + std::to_string(size) +
                                                 " without any pixel");
  }
  layer.out = {layer.in.channels, window_positions(layer.in.height, p.padding, size, p.stride_y),
               window_positions(layer.in.width, p.padding, size, p.stride_x)};
  const bool whole_map =
      layer.in.height == 2 * layer.out.height && layer.in.width == 2 * layer.out.width;
  layer.rules = {.precision = PrecisionRule::kKeeps,
                 .pools_pairs = whole_map && pools_pairs(p, layer)};
  layer.operation = std::make_shared<Maxpool>(p);
}

}  // namespace

const LayerType kMaxpoolLayer{.read = read, .loops = Loops::kVectors};

}  // namespace mpe
