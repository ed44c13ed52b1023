// Layers that compute value by value: shortcut, scale_channels, softmax.
#include <algorithm>

#include "kernels/activation.h"
#include "kernels/reference/layers.h"

namespace mpe {
namespace {

constexpr int kBlock = 512;

// One loop for each activation, so that the choice is made outside of it.
void activate_values(Activation activation, float* values, int count) {
  const auto apply = [&](auto function) {
    for (int i = 0; i < count; ++i) values[i] = function(values[i]);
  };
  switch (activation) {
    case Activation::kLinear:
      return;
    case Activation::kLeaky:
      return apply([](float x) { return leaky(x); });
    case Activation::kRelu:
      return apply([](float x) { return relu(x); });
    case Activation::kRelu6:
      return apply([](float x) { return relu6(x); });
    default:
      return apply([activation](float x) { return activate(activation, x); });
  }
}

// Calls body(channel, position in the plane, count) for blocks of every channel, shared over the
// threads.
template <typename Body>
void for_blocks(const Shape& shape, const Workers& workers, Body&& body) {
  const std::int64_t plane = shape.plane();
  workers.pool.parallel_for(shape.channels, [&](int, int begin, int end) {
    for (int c = begin; c < end; ++c) {
      for (std::int64_t i = 0; i < plane; i += kBlock) {
        body(c, i, static_cast<int>(std::min<std::int64_t>(kBlock, plane - i)));
      }
    }
  });
}

// Adds the values of a map of another size. Where it is larger, every stride-th of its values is
// taken; where it is smaller, its values go to every sample-th place. Channels beyond the smaller
// number stay as they are.
void add_strided(const LayerInput& input, const Shape& out, int channel, std::int64_t first,
                 int count, float* values, const Workers& workers) {
  const Shape& in = input.shape;
  if (channel >= in.channels) return;
  const int stride = std::max(in.width / out.width, 1);
  const int sample = std::max(out.width / in.width, 1);
  const int rows = std::min(in.height, out.height);
  const int columns = std::min(in.width, out.width);
  for (int i = 0; i < count; ++i) {
    const auto y = static_cast<int>((first + i) / out.width);
    const auto x = static_cast<int>((first + i) % out.width);
    if (y % sample != 0 || x % sample != 0 || y / sample >= rows || x / sample >= columns) continue;
    const int from_y = y / sample * stride;
    const int from_x = x / sample * stride;
    if (from_y >= in.height || from_x >= in.width) continue;
    float value = 0.0F;
    load_values(input.tensor, channel,
                channel * in.plane() + static_cast<std::int64_t>(from_y) * in.width + from_x, 1,
                &value, workers.vectors);
    values[i] += value;
  }
}

// Two maps of one shape and one precision, float or half, as vector code.
void add_pair(const Layer& layer, std::span<const LayerInput> inputs,
              const MutableTensorView& output, const Workers& workers) {
  const std::int64_t plane = layer.out.plane();
  const auto add = [&](auto kernel, const auto* a, const auto* b, auto* to) {
    workers.pool.parallel_for(layer.out.channels, [&](int, int begin, int end) {
      const std::int64_t first = begin * plane;
      kernel(a + first, b + first, to + first, (end - begin) * plane, layer.activation);
    });
  };
  const auto of_type = [&]<typename T>(auto kernel, T*) {
    add(kernel, static_cast<const T*>(inputs[0].tensor.data),
        static_cast<const T*>(inputs[1].tensor.data), static_cast<T*>(output.data));
  };
  if (output.precision == Precision::kFp32) {
    of_type(workers.vectors->add_floats, static_cast<float*>(nullptr));
  } else {
    of_type(workers.vectors->add_halves, static_cast<std::uint16_t*>(nullptr));
  }
}

}  // namespace

bool adds_one_pair(const Layer& layer, std::span<const LayerInput> inputs,
                   const MutableTensorView& output) {
  return inputs.size() == 2 && output.precision != Precision::kInt8 &&
         std::ranges::all_of(inputs, [&](const LayerInput& input) {
           return input.shape == layer.out && input.tensor.precision == output.precision;
         });
}

void run_shortcut(const Layer& layer, std::span<const LayerInput> inputs,
                  const MutableTensorView& output, const Workers& workers) {
  if (workers.vectors != nullptr && adds_one_pair(layer, inputs, output)) {
    return add_pair(layer, inputs, output, workers);
  }
  const std::int64_t plane = layer.out.plane();
  for_blocks(layer.out, workers, [&](int channel, std::int64_t first, int count) {
    float sums[kBlock];
    float addends[kBlock];
    const std::int64_t offset = channel * plane + first;
    load_values(inputs[0].tensor, channel, offset, count, sums, workers.vectors);
    for (const LayerInput& input : inputs.subspan(1)) {
      if (input.shape == layer.out) {
        load_values(input.tensor, channel, offset, count, addends, workers.vectors);
        for (int i = 0; i < count; ++i) sums[i] += addends[i];
      } else {
        add_strided(input, layer.out, channel, first, count, sums, workers);
      }
    }
    activate_values(layer.activation, sums, count);
    store_values(sums, output, channel, offset, count, workers.vectors);
  });
}

void run_scale_channels(const Layer& layer, std::span<const LayerInput> inputs,
                        const MutableTensorView& output, const Workers& workers) {
  const LayerInput& factors = inputs[0];
  const LayerInput& map = inputs[1];
  const std::int64_t plane = layer.out.plane();
  for_blocks(layer.out, workers, [&](int channel, std::int64_t first, int count) {
    float values[kBlock];
    float factor[kBlock];
    const std::int64_t offset = channel * plane + first;
    load_values(map.tensor, channel, offset, count, values, workers.vectors);
    if (layer.scale_wh) {
      load_values(factors.tensor, 0, first, count, factor, workers.vectors);
      for (int i = 0; i < count; ++i) values[i] *= factor[i];
    } else {
      load_values(factors.tensor, channel, channel, 1, factor, workers.vectors);
      for (int i = 0; i < count; ++i) values[i] *= factor[0];
    }
    activate_values(layer.activation, values, count);
    store_values(values, output, channel, offset, count, workers.vectors);
  });
}

void run_softmax(const Layer& layer, const LayerInput& input, float* output,
                 const Workers& workers) {
  const std::int64_t values = input.shape.elements();
  const std::int64_t length = values / layer.groups;
  convert_tensor(input.tensor, {output, Precision::kFp32, nullptr}, input.shape.channels,
                 input.shape.plane(), workers);
  workers.pool.parallel_for(layer.groups, [&](int, int begin, int end) {
    for (int group = begin; group < end; ++group) {
      float* row = output + group * length;
      float largest = row[0];
      for (std::int64_t i = 1; i < length; ++i) largest = row[i] > largest ? row[i] : largest;
      double sum = 0.0;
      for (std::int64_t i = 0; i < length; ++i) {
        row[i] = exponential(row[i] / layer.temperature - largest / layer.temperature);
        sum += static_cast<double>(row[i]);
      }
      for (std::int64_t i = 0; i < length; ++i) {
        row[i] = static_cast<float>(static_cast<double>(row[i]) / sum);
      }
    }
  });
}

}  // namespace mpe
