#include <algorithm>
#include <limits>

#include "kernels/reference/layers.h"
#include "kernels/reference/typed.h"

namespace mpe {
namespace {

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
bool maxpool_separably(const Layer& layer, const T* in, T* out) {
  using Key = decltype(key_of(T{}));
  constexpr int kMost = 1024;
  const int pitch = layer.out.width + layer.size_x - 1;
  const int rows = layer.out.height + layer.size_y - 1;
  if (layer.stride_x != 1 || layer.stride_y != 1 || layer.size_x * layer.size_y < 4 ||
      static_cast<std::int64_t>(rows) * pitch > kMost) {
    return false;
  }
  Key padded[kMost];
  Key largest[kMost];
  const int before = layer.padding / 2;
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
  slide(padded, largest, rows * pitch - layer.size_x + 1, layer.size_x, 1);
  slide(largest, padded, layer.out.height * pitch - layer.size_x + 1, layer.size_y, pitch);
  // Not asked for in the loop: an output that is a byte might be them, for all a compiler knows.
  const int columns = layer.out.width;
  for (int y = 0; y < rows - layer.size_y + 1; ++y, out += columns) {
    for (int x = 0; x < columns; ++x) set_from_key(padded[y * pitch + x], out[x]);
  }
  return true;
}

template <typename T>
void maxpool_plane(const Layer& layer, const ElementwiseKernels* vectors, const T* in, T* out) {
  if (vectors != nullptr && pools_pairs(layer)) return maxpool_pairs(*vectors, layer, in, out);
  if (maxpool_separably(layer, in, out)) return;
  const int width = layer.out.width;
  const int before = layer.padding / 2;
  const int stride = layer.stride_x;
  for (int row = 0; row < layer.out.height; ++row, out += width) {
    std::fill_n(out, width, lowest(T{}));
    for (int ky = 0; ky < layer.size_y; ++ky) {
      const int y = row * layer.stride_y + ky - before;
      if (y < 0 || y >= layer.in.height) continue;
      for (int kx = 0; kx < layer.size_x; ++kx) {
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

}  // namespace

bool pools_pairs(const Layer& layer) {
  return layer.size_y == 2 && layer.size_x == 2 && layer.stride_y == 2 && layer.stride_x == 2 &&
         layer.padding / 2 == 0 && layer.in.width >= 2 * layer.out.width &&
         layer.in.height >= 2 * layer.out.height;
}

void run_maxpool(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
                 const Workers& workers) {
  const auto in_plane = static_cast<std::int64_t>(layer.in.height) * layer.in.width;
  const auto out_plane = static_cast<std::int64_t>(layer.out.height) * layer.out.width;
  with_typed(input.tensor, output, [&]<typename T>(const T* in, T* out) {
    workers.pool.parallel_for(layer.out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        maxpool_plane(layer, workers.vectors, in + c * in_plane, out + c * out_plane);
      }
    });
  });
}

void run_avgpool(const Layer&, const LayerInput& input, const MutableTensorView& output,
                 const Workers& workers) {
  const auto plane = static_cast<std::int64_t>(input.shape.height) * input.shape.width;
  workers.pool.parallel_for(input.shape.channels, [&](int, int begin, int end) {
    constexpr int kBlock = 512;
    float values[kBlock];
    for (int c = begin; c < end; ++c) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < plane; i += kBlock) {
        const int count = static_cast<int>(std::min<std::int64_t>(kBlock, plane - i));
        load_values(input.tensor, c, c * plane + i, count, values, workers.vectors);
        for (int k = 0; k < count; ++k) sum += static_cast<double>(values[k]);
      }
      const float mean = static_cast<float>(sum / static_cast<double>(plane));
      store_values(&mean, output, c, c, 1, workers.vectors);
    }
  });
}

}  // namespace mpe
