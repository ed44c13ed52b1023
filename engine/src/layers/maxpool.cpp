#include "layers/maxpool.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/row_loop.h"
#include "layers/section_keys.h"
#include "layers/typed.h"
#include "layers/window.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

// The value to compare: float and int8 as they are, halves as integers with the same order, which
// needs no conversion. NaN never wins against a number in float, as in Darknet.
float key_of(float value) { return value; }
std::int8_t key_of(std::int8_t value) { return value; }
std::int16_t key_of(std::int16_t key) { return key; }
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
std::int16_t lowest(std::int16_t) { return key_of(lowest(Half{})); }

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

// A run of values, and room for what becomes of it.
template <typename Key>
struct SlidRun {
  Key* values;
  Key* room;
  int count;
};

// Every value becomes the largest of the `size` that are `step` apart, from its own place on. The
// last ones, which have no such places, are dropped.
template <typename Key>
void slide(SlidRun<Key>& run, int size, int step) {
  // A window is the largest of three or two smaller ones, side by side or overlapping.
  for (int covered = 1; covered < size;) {
    const int left = size - covered;
    const int more = std::min(covered, left);
    const Key* __restrict from = run.values;
    const Key* second = from + more * step;
    Key* __restrict to = run.room;
    if (left >= 2 * covered) {
      const Key* third = second + more * step;
      run.count -= 2 * more * step;
      for (int i = 0; i < run.count; ++i) to[i] = std::max(std::max(from[i], second[i]), third[i]);
      covered += 2 * more;
    } else {
      run.count -= more * step;
      for (int i = 0; i < run.count; ++i) to[i] = std::max(from[i], second[i]);
      covered += more;
    }
    std::swap(run.values, run.room);
  }
}

// Windows that overlap: the largest of a row's neighbours first, then of these along the columns,
// on a padded copy of the map: the first of equals wins. Returns false for windows of other kinds.
template <typename T>
bool maxpool_separably(const Window& window, const Layer& layer, const T* in, T* out) {
  using Key = decltype(key_of(T{}));
  constexpr int kMost = 1024;
  const auto& [vertical, horizontal] = window;
  const int pitch = layer.out.width + horizontal.size - 1;
  const int rows = layer.out.height + vertical.size - 1;
  if (horizontal.stride != 1 || vertical.stride != 1 || horizontal.dilation != 1 ||
      vertical.dilation != 1 || horizontal.size * vertical.size < 4 ||
      static_cast<std::int64_t>(rows) * pitch > kMost) {
    return false;
  }
  Key padded[kMost];
  Key room[kMost];
  const Key least = key_of(lowest(T{}));
  const int above = vertical.before;
  const int before = horizontal.before;
  std::fill_n(padded, rows * pitch, least);
  const int width = std::min(layer.in.width, pitch - before);
  for (int y = 0; y < std::min(layer.in.height, rows - above); ++y) {
    for_row(in + static_cast<std::int64_t>(y) * layer.in.width,
            padded + (y + above) * pitch + before, width,
            [least](T value, Key& to) { to = std::max(least, key_of(value)); });
  }
  // One run through all rows: what lies across their ends is not used.
  SlidRun<Key> run = {padded, room, rows * pitch};
  slide(run, horizontal.size, 1);
  slide(run, vertical.size, pitch);
  for (int y = 0; y < layer.out.height; ++y, out += layer.out.width) {
    for_row(run.values + y * pitch, out, layer.out.width,
            [](Key key, T& to) { set_from_key(key, to); });
  }
  return true;
}

constexpr int kColumns = 512;
constexpr int kMostJoined = 2 * kColumns;

// Widens the maxima of part of the output's row by a row of the map, one tap after another.
template <typename T, typename Key>
void widen_by_taps(const WindowAxis& axis, const T* line, int width, PlaceSpan columns,
                   Key* largest) {
  for (int k = 0; k < axis.size; ++k) {
    const int offset = k * axis.dilation - axis.before;
    const PlaceSpan places = places_reading(offset, axis.stride, 0, width, columns);
    for (int x = places.begin; x < places.end; ++x) {
      const Key key = key_of(line[x * axis.stride + offset]);
      Key& best = largest[x - columns.begin];
      best = key > best ? key : best;
    }
  }
}

// The same for a stride of kStride, or false for another one and for windows that are too wide. The
// values that a tap reads for neighbouring outputs are first brought side by side: with a stride of
// two, those of even and those of odd places.
template <int kStride, typename T, typename Key>
bool widen_by_phases(const WindowAxis& axis, const T* line, int width, PlaceSpan columns,
                     Key* largest) {
  constexpr int kMost = kColumns + 64;
  const int count = columns.end - columns.begin;
  const auto pitch = static_cast<int>(count + (axis.extent() - 1) / kStride);
  if (axis.stride != kStride || pitch > kMost) return false;
  Key phases[kStride][kMost];
  const int first = columns.begin * kStride - axis.before;
  const auto set = [&](int i) {
    for (int phase = 0; phase < kStride; ++phase) {
      const int place = first + i * kStride + phase;
      phases[phase][i] = place >= 0 && place < width ? key_of(line[place]) : key_of(lowest(T{}));
    }
  };
  PlaceSpan inside = places_reading(first, kStride, 0, width - kStride + 1, {0, pitch});
  if (inside.begin >= inside.end) inside = {pitch, pitch};
  for (int i = 0; i < inside.begin; ++i) set(i);
  if (inside.begin < inside.end) {
    const T* from = line + (first + inside.begin * kStride);
    for (int i = inside.begin; i < inside.end; ++i, from += kStride) {
      for (int phase = 0; phase < kStride; ++phase) phases[phase][i] = key_of(from[phase]);
    }
  }
  for (int i = inside.end; i < pitch; ++i) set(i);
  for (int k = 0; k < axis.size; ++k) {
    const int place = k * axis.dilation;
    const Key* next = phases[place % kStride] + place / kStride;
    for (int i = 0; i < count; ++i) largest[i] = next[i] > largest[i] ? next[i] : largest[i];
  }
  return true;
}

// Widens the maxima of part of the output's row by a row of the map.
template <typename T, typename Key>
void widen(const WindowAxis& axis, const T* line, int width, PlaceSpan columns, Key* largest) {
  if (widen_by_phases<1>(axis, line, width, columns, largest) ||
      widen_by_phases<2>(axis, line, width, columns, largest)) {
    return;
  }
  widen_by_taps(axis, line, width, columns, largest);
}

// Some rows of the output at once, as one row of a map: the rows of the map that their windows read
// become one of their largest values each, side by side with their padding. What lies between the
// rows is not used.
template <typename T>
void maxpool_rows(const Window& window, const Layer& layer, const T* in, int row, int rows,
                  int pitch, T* out) {
  using Key = decltype(key_of(T{}));
  const auto& [vertical, horizontal] = window;
  const int count = rows * pitch;
  const int read = pitch * horizontal.stride;
  Key joined[kMostJoined];
  std::fill_n(joined, count * horizontal.stride, key_of(lowest(T{})));
  const int before = std::min(horizontal.before, read);
  const int width = std::min(layer.in.width, read - before);
  for (int i = 0; i < rows; ++i) {
    for (int ky = 0; ky < vertical.size; ++ky) {
      const int y = (row + i) * vertical.stride + ky * vertical.dilation - vertical.before;
      if (y < 0 || y >= layer.in.height) continue;
      for_row(in + static_cast<std::int64_t>(y) * layer.in.width, joined + i * read + before, width,
              [](T value, Key& best) {
                const Key key = key_of(value);
                best = key > best ? key : best;
              });
    }
  }
  Key largest[kColumns];
  std::fill_n(largest, count, key_of(lowest(T{})));
  WindowAxis axis = horizontal;
  axis.before = 0;
  widen(axis, joined, count * horizontal.stride, {0, count}, largest);
  out += static_cast<std::int64_t>(row) * layer.out.width;
  for (int i = 0; i < rows; ++i, out += layer.out.width) {
    for_row(largest + i * pitch, out, layer.out.width,
            [](Key key, T& to) { set_from_key(key, to); });
  }
}

// Part of a row of the output, at most kColumns long. The rows of the map that its windows read
// become one of their largest values first, unless too many columns are read.
template <typename T>
void maxpool_columns(const Window& window, const Layer& layer, const T* in, int row,
                     PlaceSpan columns, T* out) {
  using Key = decltype(key_of(T{}));
  constexpr int kMost = 2 * kColumns + 64;
  const auto& [vertical, horizontal] = window;
  Key largest[kColumns];
  std::fill_n(largest, columns.end - columns.begin, key_of(lowest(T{})));
  const int width = layer.in.width;
  const std::int64_t first = std::int64_t{columns.begin} * horizontal.stride - horizontal.before;
  const std::int64_t last = std::int64_t{columns.end - 1} * horizontal.stride - horizontal.before +
                            horizontal.extent() - 1;
  const auto begin = static_cast<int>(std::clamp<std::int64_t>(first, 0, width));
  const auto count = static_cast<int>(std::clamp<std::int64_t>(last + 1, begin, width)) - begin;
  const bool joins = vertical.size > 1 && count <= kMost;
  Key joined[kMost];
  if (joins) std::fill_n(joined, count, key_of(lowest(T{})));
  for (int ky = 0; ky < vertical.size; ++ky) {
    const int y = row * vertical.stride + ky * vertical.dilation - vertical.before;
    if (y < 0 || y >= layer.in.height) continue;
    const T* line = in + static_cast<std::int64_t>(y) * width;
    if (!joins) {
      widen(horizontal, line, width, columns, largest);
      continue;
    }
    for (int i = 0; i < count; ++i) {
      const Key key = key_of(line[begin + i]);
      joined[i] = key > joined[i] ? key : joined[i];
    }
  }
  if (joins) {
    WindowAxis axis = horizontal;
    axis.before = static_cast<int>(begin - first);
    widen(axis, joined, count, {0, columns.end - columns.begin}, largest);
  }
  T* to = out + static_cast<std::int64_t>(row) * layer.out.width;
  for (int x = columns.begin; x < columns.end; ++x) {
    set_from_key(largest[x - columns.begin], to[x]);
  }
}

template <typename T>
void maxpool_plane(const Window& window, const Layer& layer, const ElementwiseKernels& vectors,
                   const T* in, T* out) {
  if (pools_pairs(window, layer)) return maxpool_pairs(vectors, layer, in, out);
  if (maxpool_separably(window, layer, in, out)) return;
  // Of the output, a row with what its windows read beyond its end.
  const WindowAxis& axis = window.x;
  const std::int64_t pitch = layer.out.width + (axis.extent() - 1) / axis.stride;
  const auto most = std::min(kColumns / pitch, kMostJoined / (pitch * axis.stride));
  if (most > 1) {
    for (int row = 0; row < layer.out.height; row += static_cast<int>(most)) {
      const int rows = std::min(static_cast<int>(most), layer.out.height - row);
      maxpool_rows(window, layer, in, row, rows, static_cast<int>(pitch), out);
    }
    return;
  }
  for (int row = 0; row < layer.out.height; ++row) {
    for (int x = 0; x < layer.out.width; x += kColumns) {
      maxpool_columns(window, layer, in, row, {x, std::min(x + kColumns, layer.out.width)}, out);
    }
  }
}

class Maxpool final : public OperationWith<Window> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override {
    return {1, parameters_.y.size, parameters_.x.size, parameters_.y.stride, parameters_.x.stride};
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
  // Unlike in other sections, size= is stride= where it is absent, and padding= is that of both
  // ends, of which half, rounded down, comes before the map.
  const int stride = section.integer("stride", 1, 1, Limits::kKernel);
  const int size = section.integer("size", stride, 1, Limits::kKernel);
  const int padding = section.integer("padding", size - 1, 0, Limits::kKernel);
  if (padding > 2 * (size - 1)) {
    section.fail(section.line_of("padding"), "padding=" + std::to_string(padding) +
                                                 " leaves windows of size " + std::to_string(size) +
                                                 " without any pixel");
  }
  const auto axis = [&](std::string_view key) {
    return WindowAxis{.size = size,
                      .stride = section.integer(key, stride, 1, Limits::kKernel),
                      .before = padding / 2,
                      .after = padding - padding / 2};
  };
  const Window window = {axis("stride_y"), axis("stride_x")};
  layer.out = {layer.in.channels, window.y.positions(layer.in.height),
               window.x.positions(layer.in.width)};
  layer.rules = {.precision = PrecisionRule::kKeeps, .pools_pairs = fuses_pooling(window, layer)};
  layer.operation = make_maxpool(window);
}

}  // namespace

bool pools_pairs(const Window& window, const Layer& layer) {
  const auto pairs = [](const WindowAxis& axis) {
    return axis.size == 2 && axis.stride == 2 && axis.dilation == 1 && axis.before == 0;
  };
  return pairs(window.y) && pairs(window.x) && layer.in.width >= 2 * layer.out.width &&
         layer.in.height >= 2 * layer.out.height;
}

bool fuses_pooling(const Window& window, const Layer& layer) {
  return layer.in.height == 2 * layer.out.height && layer.in.width == 2 * layer.out.width &&
         pools_pairs(window, layer);
}

std::shared_ptr<const Operation> make_maxpool(const Window& window) {
  return std::make_shared<Maxpool>(window);
}

const LayerType kMaxpoolLayer{.read = read, .loops = Loops::kVectors};

}  // namespace mpe
