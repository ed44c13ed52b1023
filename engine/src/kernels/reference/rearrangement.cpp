// Layers that move values about: upsample, reorg, crop, route.
#include <algorithm>

#include "kernels/reference/layers.h"
#include "kernels/reference/typed.h"

namespace mpe {
namespace {

template <typename T>
void repeat_row(const T* in, int width, int times, T* out) {
  if (times == 2) {
    for (int x = 0; x < width; ++x) {
      out[2 * x] = in[x];
      out[2 * x + 1] = in[x];
    }
    return;
  }
  for (int x = 0; x < width; ++x)
    std::fill_n(out + static_cast<std::int64_t>(x) * times, times, in[x]);
}

// output = scale * value + offset, for tensors of any storage.
void scale_values(const LayerInput& input, std::int64_t from, float scale, float offset,
                  int channel, const MutableTensorView& output, std::int64_t to, int count,
                  const ElementwiseKernels* vectors) {
  constexpr int kBlock = 512;
  float values[kBlock];
  for (int i = 0; i < count; i += kBlock) {
    const int length = std::min(kBlock, count - i);
    load_values(input.tensor, channel, from + i, length, values, vectors);
    for (int k = 0; k < length; ++k) values[k] = values[k] * scale + offset;
    store_values(values, output, channel, to + i, length, vectors);
  }
}

}  // namespace

void run_upsample(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
                  const Workers& workers) {
  const int width = layer.in.width;
  const int times = layer.stride_x;
  const std::int64_t in_plane = layer.in.plane();
  const std::int64_t out_plane = layer.out.plane();
  if (layer.scale != 1.0F) {
    workers.pool.parallel_for(layer.out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        for (std::int64_t i = 0; i < out_plane; ++i) {
          const std::int64_t y = i / layer.out.width / layer.stride_y;
          const std::int64_t x = i % layer.out.width / times;
          scale_values(input, c * in_plane + y * width + x, layer.scale, 0.0F, c, output,
                       c * out_plane + i, 1, workers.vectors);
        }
      }
    });
    return;
  }
  with_typed(input.tensor, output, [&]<typename T>(const T* in, T* out) {
    workers.pool.parallel_for(layer.out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        T* rows = out + c * out_plane;
        for (int y = 0; y < layer.in.height; ++y) {
          T* first = rows;
          repeat_row(in + c * in_plane + static_cast<std::int64_t>(y) * width, width, times, first);
          rows += layer.out.width;
          for (int k = 1; k < layer.stride_y; ++k, rows += layer.out.width) {
            std::copy_n(first, layer.out.width, rows);
          }
        }
      }
    });
  });
}

// Darknet's [reorg]. It reads the input's memory as if its shape were [channels / s^2, height * s,
// width * s] and takes from every s x s square of that one value for each of s^2 groups of
// channels; with `reverse` it writes where it would have read. (It is not the usual space to depth,
// which Darknet calls [reorg3d], but it is what YOLOv2's weights were trained with.)
void run_reorg(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
               const Workers& workers) {
  const int s = layer.stride_x;
  const Shape& shape = input.shape;
  const int groups_of = shape.channels / (s * s);
  const std::int64_t plane = shape.plane();
  const std::int64_t row = static_cast<std::int64_t>(shape.width) * s;
  with_typed(input.tensor, output, [&]<typename T>(const T* in, T* out) {
    workers.pool.parallel_for(shape.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        const int square = c / groups_of;
        const std::int64_t base =
            (static_cast<std::int64_t>(c % groups_of) * shape.height * s + square / s) * row +
            square % s;
        for (int y = 0; y < shape.height; ++y) {
          const std::int64_t dense = c * plane + static_cast<std::int64_t>(y) * shape.width;
          const std::int64_t spread = base + y * s * row;
          for (int x = 0; x < shape.width; ++x) {
            const std::int64_t from = layer.reverse ? dense + x : spread + std::int64_t{x} * s;
            const std::int64_t to = layer.reverse ? spread + std::int64_t{x} * s : dense + x;
            out[to] = in[from];
          }
        }
      }
    });
  });
}

// The middle of the map, as Darknet does at inference.
void run_crop(const Layer& layer, const LayerInput& input, const MutableTensorView& output,
              const Workers& workers) {
  const int top = (layer.in.height - layer.out.height) / 2;
  const int left = (layer.in.width - layer.out.width) / 2;
  const auto for_rows = [&](auto&& body) {
    workers.pool.parallel_for(layer.out.channels, [&](int, int begin, int end) {
      for (int c = begin; c < end; ++c) {
        for (int y = 0; y < layer.out.height; ++y) {
          const std::int64_t from =
              c * layer.in.plane() + static_cast<std::int64_t>(y + top) * layer.in.width + left;
          const std::int64_t to =
              c * layer.out.plane() + static_cast<std::int64_t>(y) * layer.out.width;
          body(c, from, to);
        }
      }
    });
  };
  if (layer.scale != 1.0F || layer.offset != 0.0F) {
    for_rows([&](int c, std::int64_t from, std::int64_t to) {
      scale_values(input, from, layer.scale, layer.offset, c, output, to, layer.out.width,
                   workers.vectors);
    });
    return;
  }
  with_typed(input.tensor, output, [&]<typename T>(const T* in, T* out) {
    for_rows([&](int, std::int64_t from, std::int64_t to) {
      std::copy_n(in + from, layer.out.width, out + to);
    });
  });
}

RouteSlice route_slice(const Layer& layer, std::span<const LayerInput> inputs,
                       const MutableTensorView& output, std::size_t which) {
  const auto size = [&](int channels, Precision precision) {
    return channels * layer.out.plane() * static_cast<std::int64_t>(bytes_of(precision));
  };
  int before = 0;
  for (const LayerInput& input : inputs.first(which)) before += input.shape.channels / layer.groups;
  const LayerInput& input = inputs[which];
  RouteSlice slice{input.tensor, output, input.shape.channels / layer.groups};
  slice.from.data = static_cast<const std::byte*>(slice.from.data) +
                    layer.group_id * size(slice.channels, slice.from.precision);
  slice.to.data = static_cast<std::byte*>(output.data) + size(before, output.precision);
  return slice;
}

void run_route(const Layer& layer, std::span<const LayerInput> inputs,
               const MutableTensorView& output, const Workers& workers) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const RouteSlice slice = route_slice(layer, inputs, output, i);
    if (slice.in_place()) continue;
    convert_tensor(slice.from, slice.to, slice.channels, layer.out.plane(), workers);
  }
}

}  // namespace mpe
