#include "kernels/classical/im2col_convolution.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "half.h"
#include "kernels/aligned_buffer.h"
#include "kernels/geometry.h"
#include "kernels/sizes.h"

namespace mpe {
namespace {

// The product sees the matrix as a map of one pixel a patch, with a channel for every term of a
// sum.
ConvolutionShape matrix_shape(const ConvolutionShape& shape) {
  ConvolutionShape matrix;
  matrix.in = {shape.groups * shape.depth(), shape.out.height, shape.out.width};
  matrix.out = shape.out;
  matrix.groups = shape.groups;
  return matrix;
}

class Im2colConvolution final : public Convolution {
 public:
  Im2colConvolution(
      const ConvolutionRequest& request,
      const std::function<std::unique_ptr<Convolution>(const ConvolutionRequest&)>& multiply)
      : shape_(request.shape),
        value_size_(value_size(request.precision)),
        geometry_(request.shape, MapRows::kKept) {
    ConvolutionRequest product = request;
    product.shape = matrix_shape(request.shape);
    if (request.input != nullptr) zero_points_ = request.input->zero_point;
    product_ = multiply(product);
  }

  std::string_view isa() const override { return product_->isa(); }
  std::string_view algorithm() const override { return "im2col"; }
  std::size_t weight_bytes() const override { return product_->weight_bytes(); }
  std::size_t scratch_bytes(int threads) const override {
    return matrix_bytes() + product_->scratch_bytes(threads);
  }

  void run(const ConvolutionCall& call, ThreadPool& pool) const override {
    const int terms = shape_.groups * shape_.depth();
    pool.parallel_for(terms, [&](int, int begin, int end) {
      for (int term = begin; term < end; ++term) write_row(call, term);
    });
    ConvolutionCall product = call;
    product.input = call.scratch;
    product.scratch = call.scratch + matrix_bytes();
    product_->run(product, pool);
  }

 private:
  std::size_t matrix_bytes() const {
    const auto terms = static_cast<std::size_t>(shape_.groups * shape_.depth());
    return round_up(terms * static_cast<std::size_t>(geometry_->pixels()) * value_size_,
                    kCacheLine);
  }

  // One term's value for every patch: the input channel, shifted by the tap.
  void write_row(const ConvolutionCall& call, int term) const {
    const auto pixels = static_cast<std::size_t>(geometry_->pixels());
    std::byte* to = call.scratch + static_cast<std::size_t>(term) * pixels * value_size_;
    switch (value_size_) {
      case sizeof(float):
        return write_row(call.input, reinterpret_cast<float*>(to), term, 0.0F);
      case sizeof(Half):
        return write_row(call.input, reinterpret_cast<Half*>(to), term, Half{});
      default:
        return write_row(call.input, reinterpret_cast<std::int8_t*>(to), term,
                         outside_value(call, term / shape_.depth()));
    }
  }

  // What int8 reads outside the map: the zero point.
  std::int8_t outside_value(const ConvolutionCall& call, int group) const {
    if (call.dynamic_input != nullptr) {
      return static_cast<std::int8_t>(call.dynamic_input->zero_point);
    }
    const auto i = zero_points_.size() > 1 ? static_cast<std::size_t>(group) : 0;
    return static_cast<std::int8_t>(zero_points_[i]);
  }

  template <typename T>
  void write_row(const void* input, T* to, int term, T outside) const {
    const ConvolutionGeometry& g = *geometry_;
    const int channel = term / g.taps();
    const int ky = term % g.taps() / g.kernel_x;
    const int kx = term % g.kernel_x;
    const T* map = static_cast<const T*>(input) +
                   static_cast<std::int64_t>(channel) * g.in_height * g.in_width;
    const ColumnRange inside = g.inside[kx];
    const int offset = kx * g.dilation_x - g.padding_x;
    for (int row = 0; row < g.out_height; ++row, to += g.out_width) {
      const int y = row * g.stride_y + ky * g.dilation_y - g.padding_y;
      if (y < 0 || y >= g.in_height) {
        std::fill_n(to, g.out_width, outside);
        continue;
      }
      const T* line = map + static_cast<std::int64_t>(y) * g.in_width;
      std::fill_n(to, inside.begin, outside);
      if (g.stride_x == 1 && inside.begin < inside.end) {
        std::memcpy(to + inside.begin, line + (inside.begin + offset),
                    static_cast<std::size_t>(inside.end - inside.begin) * sizeof(T));
      } else {
        for (int x = inside.begin; x < inside.end; ++x) to[x] = line[x * g.stride_x + offset];
      }
      std::fill_n(to + inside.end, g.out_width - inside.end, outside);
    }
  }

  const ConvolutionShape shape_;
  const std::size_t value_size_;
  GroupGeometry geometry_;
  std::vector<std::int32_t> zero_points_;  // int8: of the input, or of the channel that a group is
  std::unique_ptr<Convolution> product_;
};

}  // namespace

std::unique_ptr<Convolution> make_im2col_convolution(
    const ConvolutionRequest& request,
    const std::function<std::unique_ptr<Convolution>(const ConvolutionRequest&)>& multiply) {
  return std::make_unique<Im2colConvolution>(request, multiply);
}

}  // namespace mpe
