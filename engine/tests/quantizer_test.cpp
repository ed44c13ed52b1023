// Quantizers: each gives the builtin one's bits. TensorFlow's are tested where the system's loader
// finds libtensorflow, and must be with MPE_REQUIRE_TENSORFLOW=1.
#include "quant/quantizer.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "check.h"
#include "half.h"
#include "kernels/aligned_buffer.h"
#include "quant/quantization.h"

using namespace mpe;

namespace {

constexpr int kChannels = 3;
constexpr std::int64_t kPlanes[] = {1, 5, 4096, 30000};
// From a tensor of almost nothing to one that has diverged.
constexpr float kWidths[] = {1e-31F, 1e-20F, 1e-8F, 1e-3F, 0.7F, 1.0F, 6.0F, 254.9F, 1e5F, 1e20F};

std::unique_ptr<Quantizer> tensorflow(int threads) {
  try {
    return make_quantizer("tensorflow", threads);
  } catch (const std::exception& error) {
    const char* required = std::getenv("MPE_REQUIRE_TENSORFLOW");
    CHECK(required == nullptr || std::string_view(required) != "1");
    CHECK_THROWS(make_quantizer("tensorflow", threads), "libtensorflow_cc.so.2", "LD_LIBRARY_PATH");
    return nullptr;
  }
}

// Values over a range, among them its ends, exact halves of a step, and what lies beyond.
std::vector<float> values_over(float width, std::int64_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> spread(-0.3F * width, 0.7F * width);
  std::vector<float> values(static_cast<std::size_t>(count));
  const float step = quantization_of({-0.3F * width, 0.7F * width}).scale;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto halves = static_cast<float>(static_cast<int>(random() % 1024) - 512) * 0.5F;
    values[i] = i % 3 == 0 ? halves * step : spread(random);
  }
  values[0] = std::numeric_limits<float>::infinity();
  values[values.size() - 1] = -1e30F;
  return values;
}

template <typename T>
AlignedBuffer aligned(const std::vector<T>& values) {
  AlignedBuffer buffer(values.size() * sizeof(T));
  std::memcpy(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

void compare_quantized(Quantizer& one, Quantizer& other, const TensorView& from,
                       ScaleAndZero quantization, std::int64_t plane, const Workers& workers) {
  const std::int64_t count = kChannels * plane;
  std::vector<std::int8_t> expected(static_cast<std::size_t>(count), 1);
  std::vector<std::int8_t> found(expected.size(), 2);
  for (Quantizer* quantizer : {&one, &other}) quantizer->prepare(from, count);
  one.quantize(from, expected.data(), quantization, kChannels, plane, workers);
  other.quantize(from, found.data(), quantization, kChannels, plane, workers);
  CHECK(expected == found);
}

template <typename T>
void compare_dequantized(Quantizer& one, Quantizer& other, const TensorView& from,
                         Precision precision, std::int64_t plane, const Workers& workers) {
  const std::int64_t count = kChannels * plane;
  const std::vector<T> nothing(static_cast<std::size_t>(count));
  const AlignedBuffer first = aligned(nothing);
  const AlignedBuffer second = aligned(nothing);
  for (Quantizer* quantizer : {&one, &other}) quantizer->prepare(from, count);
  const void* expected =
      one.dequantize(from, {first.data(), precision, nullptr}, kChannels, plane, workers);
  const void* found =
      other.dequantize(from, {second.data(), precision, nullptr}, kChannels, plane, workers);
  CHECK_EQUAL(std::memcmp(expected, found, nothing.size() * sizeof(T)), 0);
}

}  // namespace

TEST(an_unknown_quantizer_is_an_error_that_names_the_known_ones) {
  CHECK_THROWS(make_quantizer("", 1), "builtin", "tensorflow");
  CHECK_THROWS(make_quantizer("tensor", 1), "'tensor'");
}

TEST(tensorflow_quantises_to_the_same_bits) {
  const auto builtin = make_quantizer("builtin", 2);
  const auto other = tensorflow(2);
  if (other == nullptr) return;
  ThreadPool pool(2);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  std::mt19937 random(7);
  for (const float width : kWidths) {
    const ScaleAndZero step = quantization_of({-0.3F * width, 0.7F * width});
    for (const std::int64_t plane : kPlanes) {
      const std::vector<float> values = values_over(width, kChannels * plane, random);
      const AlignedBuffer floats = aligned(values);
      compare_quantized(*builtin, *other, {floats.data(), Precision::kFp32, nullptr}, step, plane,
                        workers);
      // As a network's input lies: anywhere.
      std::vector<float> moved(values.size() + 1);
      std::memcpy(moved.data() + 1, values.data(), values.size() * sizeof(float));
      compare_quantized(*builtin, *other, {moved.data() + 1, Precision::kFp32, nullptr}, step,
                        plane, workers);
      std::vector<Half> halves;
      for (const float value : values) halves.push_back(half_from_float(value));
      const AlignedBuffer narrow = aligned(halves);
      compare_quantized(*builtin, *other, {narrow.data(), Precision::kFp16, nullptr}, step, plane,
                        workers);
    }
  }
}

TEST(tensorflow_dequantises_to_the_same_bits) {
  const auto builtin = make_quantizer("builtin", 1);
  const auto other = tensorflow(1);
  if (other == nullptr) return;
  ThreadPool pool(1);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  std::mt19937 random(8);
  for (const float width : kWidths) {
    const ScaleAndZero step = quantization_of({-0.3F * width, 0.7F * width});
    const Quantization quantization{{step.scale}, {step.zero_point}};
    for (const std::int64_t plane : kPlanes) {
      std::vector<std::int8_t> values(static_cast<std::size_t>(kChannels * plane));
      for (std::int8_t& value : values) value = static_cast<std::int8_t>(random());
      const TensorView from{values.data(), Precision::kInt8, &quantization};
      compare_dequantized<float>(*builtin, *other, from, Precision::kFp32, plane, workers);
      compare_dequantized<Half>(*builtin, *other, from, Precision::kFp16, plane, workers);
    }
  }
}
