// Scales, rounding, and conversions of whole tensors.
#include "quant/quantization.h"

#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "quant/convert.h"
#include "quant/requantize.h"

using namespace mpe;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::int8_t> quantized(const std::vector<float>& values, const Quantization& to,
                                   int channels = 1, int threads = 1) {
  std::vector<std::int8_t> result(values.size());
  ThreadPool pool(threads);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  convert_tensor({values.data(), Precision::kFp32, nullptr}, {result.data(), Precision::kInt8, &to},
                 channels, static_cast<std::int64_t>(values.size()) / channels, workers);
  return result;
}

std::vector<float> dequantized(const std::vector<std::int8_t>& values, const Quantization& from,
                               int channels = 1) {
  std::vector<float> result(values.size());
  ThreadPool pool(1);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  convert_tensor({values.data(), Precision::kInt8, &from},
                 {result.data(), Precision::kFp32, nullptr}, channels,
                 static_cast<std::int64_t>(values.size()) / channels, workers);
  return result;
}

}  // namespace

TEST(a_range_is_widened_to_zero_which_is_exact) {
  for (const Range range :
       {Range{-1, 3}, Range{2, 5}, Range{-7, -1}, Range{0, 6}, Range{-0.1F, 90}}) {
    const ScaleAndZero step = quantization_of(range);
    const float low = std::min(range.min, 0.0F);
    const float high = std::max(range.max, 0.0F);
    CHECK_EQUAL(step.scale, static_cast<float>((static_cast<double>(high) - low) / 255.0));
    CHECK(step.zero_point >= -128 && step.zero_point <= 127);
    const Quantization whole{{step.scale}, {step.zero_point}};
    const std::vector<float> back = dequantized(quantized({0.0F, low, high}, whole), whole);
    CHECK_EQUAL(back[0], 0.0F);
    CHECK(std::fabs(back[1] - low) <= step.scale / 2 * 1.0001F);
    CHECK(std::fabs(back[2] - high) <= step.scale / 2 * 1.0001F);
  }
}

TEST(ranges_without_width_or_end_give_usable_scales) {
  CHECK_EQUAL(quantization_of({0, 0}).scale, 1.0F);
  CHECK_EQUAL(quantization_of({0, 0}).zero_point, 0);
  for (const Range range :
       {Range{-kInfinity, kInfinity}, Range{0, 1e-44F}, Range{kNan, kNan}, Range{-3e38F, 3e38F}}) {
    const ScaleAndZero step = quantization_of(range);
    CHECK(step.scale > 0 && std::isfinite(step.scale));
    CHECK(std::isfinite(inverse_scale(step.scale)));
  }
}

TEST(int16_steps_are_symmetric_and_those_of_published_ranges) {
  constexpr float kStep = 0.00123F;
  const Range published{-32768 * kStep, 32767 * kStep};
  CHECK(std::fabs(int16_quantization_of(published).scale - kStep) <= 1e-7F * kStep);
  CHECK_EQUAL(int16_quantization_of(published).zero_point, 0);
  CHECK_EQUAL(int16_quantization_of({0.0F, 32767.0F}).scale, 1.0F);
  CHECK_EQUAL(int16_quantization_of({-65536.0F, 3.0F}).scale, 2.0F);
  CHECK_EQUAL(int16_quantization_of({0.0F, 0.0F}).scale, 1.0F);
  CHECK_EQUAL(int16_quantization_of({kNan, kNan}).scale, 1.0F);
  CHECK_EQUAL(saturate_int16(1e30F, 0), 32767);
  CHECK_EQUAL(saturate_int16(-1e30F, 0), -32768);
  CHECK_EQUAL(saturate_int16(-32768.0F, 0), -32768);
  CHECK_EQUAL(saturate_int16(1234.5F, 0), 1234);
  CHECK_EQUAL(saturate_int16(kNan, 0), -32768);
}

TEST(rounding_is_to_nearest_with_ties_to_even) {
  for (int twice = -8000; twice <= 8000; ++twice) {
    const float value = static_cast<float>(twice) / 2;
    CHECK_EQUAL(round_half_even(value), static_cast<std::int32_t>(std::nearbyint(value)));
  }
  CHECK_EQUAL(round_half_even(0.49999997F), 0);
  CHECK_EQUAL(round_half_even(-2.5000002F), -3);
}

TEST(saturation_covers_every_float) {
  CHECK_EQUAL(int{saturate_int8(kInfinity, -128)}, 127);
  CHECK_EQUAL(int{saturate_int8(-kInfinity, 127)}, -128);
  CHECK_EQUAL(int{saturate_int8(kNan, 127)}, -128);
  CHECK_EQUAL(int{saturate_int8(3e9F, 0)}, 127);
  CHECK_EQUAL(int{saturate_int8(-254.5F, 127)}, -127);
  CHECK_EQUAL(int{saturate_int8(-255.5F, 127)}, -128);
}

TEST(weights_use_their_channels_largest_value) {
  const std::vector<float> weights = {0.5F, -1.27F, 0.0F};
  const float scale = weight_scale_of(weights, 0.0F);
  CHECK_EQUAL(scale, 1.27F / 127.0F);
  CHECK_EQUAL(int{quantize_weight(-1.27F, scale)}, -127);
  CHECK_EQUAL(int{quantize_weight(0.5F, scale)}, 50);
  CHECK_EQUAL(int{quantize_weight(kNan, scale)}, 0);
  CHECK_EQUAL(weight_scale_of(std::vector<float>{0.0F, 0.0F}, 0.0F), 1.0F);
}

TEST(a_bias_survives_beside_weights_that_are_nearly_zero) {
  const float bias = 0.75F;
  const float input_scale = 0.01F;
  for (const float weight : {0.0F, 1e-30F, 1e-12F, 1e-6F}) {
    const float scale = weight_scale_of(std::vector<float>{weight, -weight}, bias);
    const std::int32_t steps = quantize_bias(bias, input_scale, scale);
    const float back = static_cast<float>(steps) * dequantize_multiplier(input_scale, scale);
    CHECK(std::fabs(back - bias) < 1e-4F);
  }
  CHECK_EQUAL(quantize_bias(1e30F, 1e-9F, 1e-9F), kBiasLimit);
  CHECK_EQUAL(quantize_bias(-1e30F, 1e-9F, 1e-9F), -kBiasLimit);
}

TEST(channels_have_steps_of_their_own) {
  const Quantization by_channel{{0.5F, 0.01F}, {0, -128}};
  const std::vector<float> values = {1.0F, -3.0F, 0.02F, 1.5F};
  CHECK(quantized(values, by_channel, 2) == (std::vector<std::int8_t>{2, -6, -126, 22}));
  CHECK(dequantized({2, -6, -126, 22}, by_channel, 2) ==
        (std::vector<float>{1.0F, -3.0F, 2 * 0.01F, 150 * 0.01F}));
}

TEST(requantisation_goes_through_one_rounding) {
  const Quantization from{{0.1F}, {3}};
  const Quantization to{{0.2F}, {-5}};
  const std::vector<std::int8_t> values = {3, 4, 5, 6, 127, -128};
  std::vector<std::int8_t> result(values.size());
  ThreadPool pool(2);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  convert_tensor({values.data(), Precision::kInt8, &from}, {result.data(), Precision::kInt8, &to},
                 1, static_cast<std::int64_t>(values.size()), workers);
  // 0, 0.5, 1, 1.5, 62, -65.5 steps of 0.2, ties to even, less 5
  CHECK(result == (std::vector<std::int8_t>{-5, -5, -4, -3, 57, -71}));
}

TEST(conversions_do_not_depend_on_the_number_of_threads) {
  std::vector<float> values(30011);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 1013) * 0.37F - 90;
  }
  const ScaleAndZero step = quantization_of({-90, 300});
  const Quantization whole{{step.scale}, {step.zero_point}};
  CHECK(quantized(values, whole, 1, 1) == quantized(values, whole, 1, 3));
  ThreadPool pool(3);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  const Range range = measure_range({values.data(), Precision::kFp32, nullptr}, 1, 30011, workers);
  CHECK_EQUAL(range.min, -90.0F);
  CHECK_EQUAL(range.max, 1012 * 0.37F - 90);
}

TEST(a_measured_range_passes_over_nan) {
  ThreadPool pool(2);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  const std::vector<float> values = {kNan, 2.0F, kNan, -1.0F};
  const Range range = measure_range({values.data(), Precision::kFp32, nullptr}, 2, 2, workers);
  CHECK_EQUAL(range.min, -1.0F);
  CHECK_EQUAL(range.max, 2.0F);
  const std::vector<float> nothing = {kNan, kNan};
  CHECK_EQUAL(measure_range({nothing.data(), Precision::kFp32, nullptr}, 1, 2, workers).max, 0.0F);
}

// Runs of many lengths, for whole vectors and remainders, with infinities, NaN, and values at the
// limits and halfway between two roundings.
TEST(long_runs_have_the_bits_of_single_values) {
  ThreadPool pool(1);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  const std::vector<float> special = {kNan,   -kNan, kInfinity, -kInfinity, 0.0F, -0.0F, 1e30F,
                                      -1e30F, 0.5F,  -0.5F,     1.5F,       2.5F, 1e-40F};
  for (const std::size_t count : {1, 3, 4, 7, 15, 16, 31, 63, 64, 65, 200, 1021}) {
    const Quantization step{{0.37F}, {-11}};
    const Quantization other{{0.21F}, {90}};
    std::vector<float> values(count);
    std::vector<std::int8_t> bytes(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = i % 5 == 2 ? special[i / 5 % special.size()]
                             : (static_cast<float>(i * 7919 % 2003) - 1001) * 0.0925F;
      bytes[i] = static_cast<std::int8_t>(i * 37 % 256);
    }
    const auto size = static_cast<std::int64_t>(count);
    const std::vector<std::int8_t> steps = quantized(values, step);
    const std::vector<float> back = dequantized(bytes, step);
    std::vector<std::int8_t> again(count);
    convert_tensor({bytes.data(), Precision::kInt8, &step},
                   {again.data(), Precision::kInt8, &other}, 1, size, workers);
    // A step so fine that hardly a value is not at a limit.
    const Quantization fine{{1e-4F}, {3}};
    std::vector<std::int8_t> limits(count);
    convert_tensor({bytes.data(), Precision::kInt8, &step},
                   {limits.data(), Precision::kInt8, &fine}, 1, size, workers);
    const Range range = measure_range({values.data(), Precision::kFp32, nullptr}, 1, size, workers);
    float low = std::numeric_limits<float>::max();
    float high = -low;
    for (std::size_t i = 0; i < count; ++i) {
      CHECK_EQUAL(int{steps[i]}, int{saturate_int8(values[i] * inverse_scale(0.37F), -11)});
      CHECK_EQUAL(back[i], static_cast<float>(bytes[i] + 11) * 0.37F);
      const float ratio = requantize_multiplier(0.37F, 1.0F, 0.21F);
      CHECK_EQUAL(int{again[i]}, int{saturate_int8(static_cast<float>(bytes[i] + 11) * ratio, 90)});
      CHECK_EQUAL(int{limits[i]}, bytes[i] < -11 ? -128 : bytes[i] == -11 ? 3 : 127);
      low = values[i] < low ? values[i] : low;
      high = values[i] > high ? values[i] : high;
    }
    CHECK_EQUAL(range.min, low);
    CHECK_EQUAL(range.max, high);
  }
}

TEST(halves_convert_to_and_from_every_precision) {
  ThreadPool pool(1);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  const std::vector<float> values = {1.0F, -0.3F, 70000.0F};
  std::vector<Half> halves(3);
  convert_tensor({values.data(), Precision::kFp32, nullptr},
                 {halves.data(), Precision::kFp16, nullptr}, 1, 3, workers);
  CHECK_EQUAL(halves[0].bits, 0x3C00);
  CHECK_EQUAL(halves[1].bits, 0xB4CD);
  CHECK_EQUAL(halves[2].bits, 0x7C00);
  const Quantization step{{0.1F}, {0}};
  std::vector<std::int8_t> bytes(3);
  convert_tensor({halves.data(), Precision::kFp16, nullptr},
                 {bytes.data(), Precision::kInt8, &step}, 1, 3, workers);
  CHECK(bytes == (std::vector<std::int8_t>{10, -3, 127}));
}
