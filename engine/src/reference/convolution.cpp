// Convolution as plain loops: what every other kernel is compared with. One sum is formed in the
// order channel, kernel row, kernel column, then the bias is added.
#include "kernels/convolution.h"

#include <algorithm>
#include <vector>

#include "half.h"
#include "kernels/activation.h"
#include "quant/activation_lines.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

// The output columns [begin, end) whose input column x * stride + offset lies inside the map.
struct Columns {
  int begin;
  int end;
};

Columns columns_inside(int offset, int stride, int in_width, int out_width) {
  const int begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int last = in_width - 1 - offset;
  const int end = last < 0 ? 0 : last / stride + 1;
  return {std::min(begin, out_width),
          std::max(std::min(end, out_width), std::min(begin, out_width))};
}

// Calls add(first output column, count, input position, weight position) for every run of products
// that make up the sums of one row of one output channel, in the documented order.
template <typename Add>
void for_products(const ConvolutionShape& shape, int channel, int row, Add&& add) {
  const int group_inputs = shape.in.channels / shape.groups;
  const int group = channel / (shape.out.channels / shape.groups);
  std::int64_t weight = static_cast<std::int64_t>(channel) * shape.depth();
  for (int c = 0; c < group_inputs; ++c) {
    const std::int64_t plane =
        static_cast<std::int64_t>(group * group_inputs + c) * shape.in.height;
    for (int ky = 0; ky < shape.kernel_y; ++ky) {
      const int y = row * shape.stride_y + ky * shape.dilation_y - shape.padding_y;
      for (int kx = 0; kx < shape.kernel_x; ++kx, ++weight) {
        if (y < 0 || y >= shape.in.height) continue;
        const int offset = kx * shape.dilation_x - shape.padding_x;
        const Columns columns =
            columns_inside(offset, shape.stride_x, shape.in.width, shape.out.width);
        const std::int64_t first =
            (plane + y) * shape.in.width + columns.begin * shape.stride_x + offset;
        add(columns.begin, columns.end - columns.begin, first, weight);
      }
    }
  }
}

float widen(float value) { return value; }
float widen(Half value) { return half_to_float(value); }
void narrow(float value, float& result) { result = value; }
void narrow(float value, Half& result) { result = half_from_float(value); }

class ReferenceConvolution : public Convolution {
 public:
  explicit ReferenceConvolution(const ConvolutionRequest& request, std::size_t sum_bytes = 4)
      : sum_bytes_(sum_bytes),
        shape_(request.shape),
        activation_(request.activation),
        bias_(request.bias.begin(), request.bias.end()) {}

  // One row of sums a thread.
  std::size_t scratch_bytes(int threads) const override {
    return static_cast<std::size_t>(threads) * row_bytes();
  }
  std::string_view isa() const override { return "reference"; }
  std::string_view algorithm() const override { return "reference"; }

 protected:
  std::size_t row_bytes() const {
    return (static_cast<std::size_t>(shape_.out.width) * sum_bytes_ + 63) / 64 * 64;
  }

  // Calls body(sums, channel, row) for all rows of the output, shared over the threads.
  template <typename Sum, typename Body>
  void for_rows(const ConvolutionCall& call, ThreadPool& pool, Body&& body) const {
    const int height = shape_.out.height;
    pool.parallel_for(shape_.out.channels * height, [&](int thread, int begin, int end) {
      auto* sums =
          reinterpret_cast<Sum*>(call.scratch + static_cast<std::size_t>(thread) * row_bytes());
      for (int i = begin; i < end; ++i) {
        std::fill_n(sums, shape_.out.width, Sum{});
        body(sums, i / height, i % height);
      }
    });
  }

  std::int64_t output_offset(int channel, int row) const {
    return (static_cast<std::int64_t>(channel) * shape_.out.height + row) * shape_.out.width;
  }

  std::size_t sum_bytes_;
  ConvolutionShape shape_;
  Activation activation_;
  std::vector<float> bias_;
};

// fp32, and fp16 as storage: sums are formed in float.
template <typename Stored>
class FloatConvolution final : public ReferenceConvolution {
 public:
  explicit FloatConvolution(const ConvolutionRequest& request) : ReferenceConvolution(request) {
    weights_.resize(bias_.size() * static_cast<std::size_t>(shape_.depth()));
    auto to = weights_.begin();
    for (int channel = 0; channel < shape_.out.channels; ++channel) {
      for (const float weight : request.filter(channel)) narrow(weight, *to++);
    }
  }

  std::size_t weight_bytes() const override {
    return weights_.size() * sizeof(Stored) + bias_.size() * sizeof(float);
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const auto* input = static_cast<const Stored*>(call.input);
    auto* output = static_cast<Stored*>(call.output);
    for_rows<float>(call, pool, [&](float* sums, int channel, int row) {
      const int stride = shape_.stride_x;
      for_products(shape_, channel, row,
                   [&](int column, int count, std::int64_t first, std::int64_t position) {
                     const float weight = widen(weights_[static_cast<std::size_t>(position)]);
                     const Stored* in = input + first;
                     float* sum = sums + column;
                     if (stride == 1) {
                       for (int i = 0; i < count; ++i) sum[i] += weight * widen(in[i]);
                     } else {
                       for (int i = 0; i < count; ++i) sum[i] += weight * widen(in[i * stride]);
                     }
                   });
      const float bias = bias_[static_cast<std::size_t>(channel)];
      Stored* out = output + output_offset(channel, row);
      for (int i = 0; i < shape_.out.width; ++i) {
        narrow(activate(activation_, sums[i] + bias), out[i]);
      }
    });
  }

 private:
  std::vector<Stored> weights_;
};

class Int8Convolution final : public ReferenceConvolution {
 public:
  explicit Int8Convolution(const ConvolutionRequest& request) : ReferenceConvolution(request) {
    if (request.input != nullptr) input_ = *request.input;
    if (request.output != nullptr && request.output_precision == Precision::kInt8) {
      output_ = *request.output;
    }
    const auto depth = static_cast<std::size_t>(shape_.depth());
    weights_.resize(bias_.size() * depth);
    weight_scale_.resize(bias_.size());
    for (std::size_t c = 0; c < bias_.size(); ++c) {
      weight_scale_[c] = request.weight_scale(static_cast<int>(c));
      const std::span<const float> filter = request.filter(static_cast<int>(c));
      for (std::size_t i = 0; i < depth; ++i) {
        weights_[c * depth + i] = quantize_weight(filter[i], weight_scale_[c]);
      }
    }
  }

  std::size_t weight_bytes() const override {
    return weights_.size() + (bias_.size() + weight_scale_.size()) * sizeof(float);
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const auto* input = static_cast<const std::int8_t*>(call.input);
    for_rows<std::int32_t>(call, pool, [&](std::int32_t* sums, int channel, int row) {
      const ScaleAndZero x = input_step(call, channel);
      const int stride = shape_.stride_x;
      for_products(shape_, channel, row,
                   [&](int column, int count, std::int64_t first, std::int64_t position) {
                     const std::int32_t weight = weights_[static_cast<std::size_t>(position)];
                     const std::int8_t* in = input + first;
                     std::int32_t* sum = sums + column;
                     for (int i = 0; i < count; ++i) {
                       sum[i] += weight * (in[i * stride] - x.zero_point);
                     }
                   });
      const auto c = static_cast<std::size_t>(channel);
      const std::int32_t bias = quantize_bias(bias_[c], x.scale, weight_scale_[c]);
      for (int i = 0; i < shape_.out.width; ++i) sums[i] += bias;
      if (output_.scale.empty()) {
        store_float(sums, channel, x.scale,
                    static_cast<float*>(call.output) + output_offset(channel, row));
      } else {
        store_int8(sums, channel, x.scale,
                   static_cast<std::int8_t*>(call.output) + output_offset(channel, row));
      }
    });
  }

 private:
  static ScaleAndZero step(const Quantization& quantization, int channel) {
    const auto i = quantization.per_channel() ? static_cast<std::size_t>(channel) : 0;
    return {quantization.scale[i], quantization.zero_point[i]};
  }

  // Per-channel inputs belong to convolutions in which every output channel reads one channel.
  ScaleAndZero input_step(const ConvolutionCall& call, int channel) const {
    if (call.dynamic_input != nullptr) return *call.dynamic_input;
    return step(input_, channel / (shape_.out.channels / shape_.groups));
  }

  void store_float(const std::int32_t* sums, int channel, float input_scale, float* out) const {
    const float multiplier =
        dequantize_multiplier(input_scale, weight_scale_[static_cast<std::size_t>(channel)]);
    for (int i = 0; i < shape_.out.width; ++i) {
      out[i] = activate(activation_, static_cast<float>(sums[i]) * multiplier);
    }
  }

  void store_int8(const std::int32_t* sums, int channel, float input_scale,
                  std::int8_t* out) const {
    const float weight_scale = weight_scale_[static_cast<std::size_t>(channel)];
    const ScaleAndZero y = step(output_, channel);
    if (is_foldable(activation_)) {
      const float multiplier = requantize_multiplier(input_scale, weight_scale, y.scale);
      const float six = relu6_limit(y.scale);
      for (int i = 0; i < shape_.out.width; ++i) {
        const float value = static_cast<float>(sums[i]) * multiplier;
        out[i] = saturate_int8(activate_folded(activation_, value, six), y.zero_point);
      }
      return;
    }
    const float multiplier = dequantize_multiplier(input_scale, weight_scale);
    const float inverse = inverse_scale(y.scale);
    const ActivationLine* lines = activation_lines(activation_);
    for (int i = 0; i < shape_.out.width; ++i) {
      const float value = activate_by_lines(lines, static_cast<float>(sums[i]) * multiplier);
      out[i] = saturate_int8(value * inverse, y.zero_point);
    }
  }

  Quantization input_;
  Quantization output_;  // empty: the output is float
  std::vector<std::int8_t> weights_;
  std::vector<float> weight_scale_;
};

// int16 activations and int8 weights, summed in int64; writes float.
class Int16Convolution final : public ReferenceConvolution {
 public:
  explicit Int16Convolution(const ConvolutionRequest& request)
      : ReferenceConvolution(request, sizeof(std::int64_t)),
        input_scale_(request.input->scale.front()) {
    for (int channel = 0; channel < shape_.out.channels; ++channel) {
      weight_scale_.push_back(request.weight_scale(channel));
      for (const float weight : request.filter(channel)) {
        weights_.push_back(quantize_weight(weight, weight_scale_.back()));
      }
    }
  }

  std::size_t weight_bytes() const override {
    return weights_.size() + (bias_.size() + weight_scale_.size()) * sizeof(float);
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const auto* input = static_cast<const std::int16_t*>(call.input);
    for_rows<std::int64_t>(call, pool, [&](std::int64_t* sums, int channel, int row) {
      for_products(shape_, channel, row,
                   [&](int column, int count, std::int64_t first, std::int64_t position) {
                     const std::int32_t weight = weights_[static_cast<std::size_t>(position)];
                     const std::int16_t* in = input + first;
                     for (int i = 0; i < count; ++i) {
                       sums[column + i] += weight * in[i * shape_.stride_x];
                     }
                   });
      const auto c = static_cast<std::size_t>(channel);
      const float multiplier = dequantize_multiplier(input_scale_, weight_scale_[c]);
      float* out = static_cast<float*>(call.output) + output_offset(channel, row);
      for (int i = 0; i < shape_.out.width; ++i) {
        out[i] = activate(activation_, static_cast<float>(sums[i]) * multiplier + bias_[c]);
      }
    });
  }

 private:
  float input_scale_;
  std::vector<std::int8_t> weights_;
  std::vector<float> weight_scale_;
};

}  // namespace

std::unique_ptr<Convolution> make_reference_convolution(const ConvolutionRequest& request) {
  switch (request.precision) {
    case Precision::kFp16:
      return std::make_unique<FloatConvolution<Half>>(request);
    case Precision::kInt8:
      return std::make_unique<Int8Convolution>(request);
    case Precision::kInt16:
      return std::make_unique<Int16Convolution>(request);
    default:
      return std::make_unique<FloatConvolution<float>>(request);
  }
}

}  // namespace mpe
