// TensorFlow's int8 modes are symmetric, or place their zero point by rules of their own; the
// engine's activations have a zero point of 8 bits. So TensorFlow converts between float and steps
// of the engine's scale in qint16, mode SCALED, and the zero point is added in int16:
//
//   quantize    q = clamp(QuantizeV2(x) + z)      dequantize    x = Dequantize(q - z)
//
// With min_range = -32768 * s and max_range = 0, both operations derive their factor from the lower
// side alone: -32768 / (-32768 * s) is float(1 / s), and (-32768 * s) / -32768 is s, exactly, since
// multiplying by 2^15 only changes the exponent. With round_mode HALF_TO_EVEN one product and one
// rounding remain, which is the engine's own rule.
#include "quant/tensorflow_quantizer.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "error.h"
#include "kernels/aligned_buffer.h"
#include "quant/tensorflow_library.h"

namespace mpe {
namespace {

namespace tf = tensorflow;

// Owns an object of TensorFlow's.
template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

template <typename T>
Owned<T> own(T* object, void (*remove)(T*)) {
  return {object, remove};
}

class TensorflowQuantizer : public Quantizer {
 public:
  explicit TensorflowQuantizer(int threads)
      : api_(tf::library()),
        context_(tf::context(threads)),
        status_(own(api_.new_status(), api_.delete_status)) {}

  void prepare(const TensorView& from, std::int64_t elements) override {
    if (from.precision == Precision::kFp32) return;  // read where it lies
    const std::size_t size = from.precision == Precision::kFp16 ? sizeof(float) : sizeof(Steps);
    const std::size_t bytes = static_cast<std::size_t>(elements) * size;
    if (bytes > staging_.size()) staging_ = AlignedBuffer(bytes);
  }

  void quantize(const TensorView& from, std::int8_t* to, ScaleAndZero quantization, int channels,
                std::int64_t plane, const Workers& workers) override {
    const std::int64_t count = channels * plane;
    const void* values = from.data;
    if (from.precision == Precision::kFp16) {  // QuantizeV2 takes nothing narrower than float
      convert_tensor(from, {staging_.data(), Precision::kFp32, nullptr}, channels, plane, workers);
      values = staging_.data();
    }
    const auto* steps =
        static_cast<const Steps*>(run(Direction::kQuantize, values, count, quantization.scale));
    for_pieces(count, workers, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t q = steps[i] + quantization.zero_point;
        to[i] = static_cast<std::int8_t>(std::clamp(q, -128, 127));
      }
    });
  }

  const void* dequantize(const TensorView& from, const MutableTensorView& to, int channels,
                         std::int64_t plane, const Workers& workers) override {
    const std::int64_t count = channels * plane;
    const auto* q = static_cast<const std::int8_t*>(from.data);
    auto* steps = staging_.as<Steps>();
    const std::int32_t zero_point = from.quantization->zero_point[0];
    for_pieces(count, workers, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) steps[i] = static_cast<Steps>(q[i] - zero_point);
    });
    const void* values = run(Direction::kDequantize, steps, count, from.quantization->scale[0]);
    if (to.precision == Precision::kFp32) return values;
    convert_tensor({values, Precision::kFp32, nullptr}, to, channels, plane, workers);
    return to.data;
  }

 private:
  using Steps = std::int16_t;
  enum class Direction { kQuantize, kDequantize };

  // Runs the operation on `count` values and returns its first result, which stays until the next
  // run.
  const void* run(Direction direction, const void* values, std::int64_t count, float scale) {
    const bool quantize = direction == Direction::kQuantize;
    const auto size = static_cast<std::size_t>(count);
    const tf::DataType from = quantize ? tf::kFloat : tf::kQint16;
    const float low = -32768.0F * scale;
    const float high = 0.0F;
    const auto input = handle(from, &count, 1, values, size * (quantize ? 4 : sizeof(Steps)));
    const auto min_range = handle(tf::kFloat, nullptr, 0, &low, sizeof low);
    const auto max_range = handle(tf::kFloat, nullptr, 0, &high, sizeof high);

    const auto operation =
        own(api_.new_operation(context_, quantize ? "QuantizeV2" : "Dequantize", status_.get()),
            api_.delete_operation);
    tf::check(status_.get());
    for (tf::TensorHandle* argument : {input.get(), min_range.get(), max_range.get()}) {
      api_.add_input(operation.get(), argument, status_.get());
      tf::check(status_.get());
    }
    api_.set_type(operation.get(), "T", tf::kQint16);
    set(operation.get(), "mode", "SCALED");
    if (quantize) {
      set(operation.get(), "round_mode", "HALF_TO_EVEN");
      // Else ranges below 0.01 are widened, and the factor with them.
      api_.set_float(operation.get(), "ensure_minimum_range", 0.0F);
    }

    tf::TensorHandle* results[3] = {};
    int results_made = quantize ? 3 : 1;  // QuantizeV2 also returns the range
    api_.execute(operation.get(), results, &results_made, status_.get());
    std::array<Owned<tf::TensorHandle>, 3> owned = {own(results[0], api_.delete_handle),
                                                    own(results[1], api_.delete_handle),
                                                    own(results[2], api_.delete_handle)};
    tf::check(status_.get());
    result_ = own(api_.tensor_of(owned[0].get(), status_.get()), api_.delete_tensor);
    tf::check(status_.get());
    const std::size_t expected = size * (quantize ? sizeof(Steps) : sizeof(float));
    if (api_.bytes_of(result_.get()) != expected) {
      throw Error("TensorFlow " + std::string(api_.version()) + " returned " +
                  std::to_string(api_.bytes_of(result_.get())) + " bytes instead of " +
                  std::to_string(expected));
    }
    return api_.data_of(result_.get());
  }

  void set(tf::Operation* operation, const char* attribute, std::string_view value) {
    api_.set_string(operation, attribute, value.data(), value.size());
  }

  // Values as TensorFlow takes them: where they lie if they are aligned as it wants them (to 64
  // bytes, as the arena's tensors are), else in a copy that it makes.
  Owned<tf::TensorHandle> handle(tf::DataType type, const std::int64_t* sizes, int dimensions,
                                 const void* values, std::size_t bytes) {
    const auto keep = [](void*, std::size_t, void*) {};
    const auto tensor = own(
        api_.new_tensor(type, sizes, dimensions, const_cast<void*>(values), bytes, keep, nullptr),
        api_.delete_tensor);
    auto made = own(api_.new_handle(tensor.get(), status_.get()), api_.delete_handle);
    tf::check(status_.get());
    return made;
  }

  template <typename Body>
  static void for_pieces(std::int64_t count, const Workers& workers, Body&& body) {
    constexpr std::int64_t kPiece = 4096;
    const auto pieces = static_cast<int>((count + kPiece - 1) / kPiece);
    workers.pool.parallel_for(pieces, [&](int, int begin, int end) {
      body(begin * kPiece, std::min(end * kPiece, count));
    });
  }

  const tf::Library& api_;
  tf::Context* context_;
  Owned<tf::Status> status_;
  Owned<tf::Tensor> result_ = own<tf::Tensor>(nullptr, api_.delete_tensor);
  AlignedBuffer staging_;  // floats of an fp16 tensor, or the steps of an int8 one
};

}  // namespace

std::unique_ptr<Quantizer> make_tensorflow_quantizer(int threads) {
  return std::make_unique<TensorflowQuantizer>(threads);
}

}  // namespace mpe
