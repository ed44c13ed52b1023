// Random convolutions for tests: a request that owns what it points to, run between guard bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "half.h"
#include "kernels/convolution.h"

using mpe::Activation;
using mpe::ConvolutionChoice;
using mpe::ConvolutionRequest;
using mpe::ConvolutionShape;
using mpe::Precision;

constexpr Activation kActivations[] = {
#define SIMPLE_ACTIVATION(kind, word) Activation::k##kind,
#define ACTIVATION(kind, word, function) Activation::k##kind,
#include "model/activations.def"
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  // In [low, high]; the standard's distributions differ between libraries.
  int integer(int low, int high) {
    return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1));
  }
  bool chance(int percent) { return integer(1, 100) <= percent; }
  float real(float low, float high) {
    return low + (high - low) * static_cast<float>(engine_() % 65536U) / 65535.0F;
  }

 private:
  std::mt19937 engine_;
};

// A tensor that owns what a request points to.
struct Problem {
  ConvolutionRequest request;
  std::vector<float> weights;
  std::vector<float> bias;
  mpe::Quantization input_quantization;
  mpe::Quantization output_quantization;
  mpe::ScaleAndZero dynamic_input = {0.02F, 0};
  bool dynamic = false;
  std::vector<std::byte> input;
};

inline std::string described(const Problem& problem) {
  const ConvolutionShape& s = problem.request.shape;
  std::string text = std::string(mpe::name_of(problem.request.precision)) + " to " +
                     std::string(mpe::name_of(problem.request.output_precision)) + " " +
                     std::string(mpe::name_of(problem.request.activation));
  for (const int value : {s.in.channels, s.in.height, s.in.width, s.out.channels, s.out.height,
                          s.out.width, s.kernel_y, s.kernel_x, s.stride_y, s.stride_x, s.padding_y,
                          s.padding_x, s.dilation_y, s.dilation_x, s.groups}) {
    text += " " + std::to_string(value);
  }
  if (problem.dynamic) text += " dynamic";
  if (problem.input_quantization.per_channel()) text += " per-channel input";
  if (problem.output_quantization.per_channel()) text += " per-channel output";
  return text;
}

// With so much padding below and to the right.
inline bool set_output(ConvolutionShape& s, int below, int right) {
  const int span_y = s.in.height + s.padding_y + below - (s.kernel_y - 1) * s.dilation_y - 1;
  const int span_x = s.in.width + s.padding_x + right - (s.kernel_x - 1) * s.dilation_x - 1;
  if (span_y < 0 || span_x < 0) return false;
  s.out.height = span_y / s.stride_y + 1;
  s.out.width = span_x / s.stride_x + 1;
  return true;
}

inline bool set_output(ConvolutionShape& s) { return set_output(s, s.padding_y, s.padding_x); }

enum class Form {
  kGeneral,
  kPointwise,
  kDepthwise,
  kConnected,
  kDeep,
  kThree,
  kImage,
  kStridedThree,
  kSquareDepthwise,
  kFewChannels,
  kFar
};

inline ConvolutionShape random_shape(Random& random, Form form) {
  for (;;) {
    ConvolutionShape s;
    s.in = {random.integer(1, 20), random.integer(1, 30), random.integer(1, 60)};
    s.out.channels = random.integer(1, 40);
    s.kernel_y = s.kernel_x = random.integer(1, 4);
    if (random.chance(20)) s.kernel_x = random.integer(1, 7);
    s.stride_y = s.stride_x = random.integer(1, 2);
    if (random.chance(20)) s.stride_x = random.integer(1, 4);
    s.padding_y = s.padding_x = random.integer(0, 4);
    s.dilation_y = s.dilation_x = random.chance(25) ? random.integer(2, 3) : 1;
    if (random.chance(10)) s.dilation_x = random.integer(1, 4);
    switch (form) {
      case Form::kGeneral:
        if (random.chance(30)) {
          s.groups = random.integer(2, 4);
          s.in.channels = s.groups * random.integer(1, 6);
          s.out.channels = s.groups * random.integer(1, 20);
        }
        break;
      case Form::kPointwise:
        s.kernel_y = s.kernel_x = s.stride_y = s.stride_x = 1;
        s.padding_y = s.padding_x = 0;
        s.in.channels = random.integer(1, 100);
        break;
      case Form::kDepthwise:
        s.groups = s.in.channels = random.integer(2, 20);
        s.out.channels = s.groups * (random.chance(20) ? random.integer(2, 3) : 1);
        break;
      case Form::kSquareDepthwise:  // computed by blocks of rows, also for maps in strips
        s.in = {random.integer(2, 6), random.integer(1, random.chance(30) ? 70 : 12),
                random.integer(1, random.chance(40) ? 200 : 40)};
        s.groups = s.in.channels;
        s.out.channels = s.groups * (random.chance(20) ? 2 : 1);
        s.kernel_y = s.kernel_x = random.chance(50) ? 3 : 5;
        s.stride_y = s.stride_x = random.integer(1, 2);
        s.dilation_y = s.dilation_x = 1;
        break;
      case Form::kConnected:
        s.in = {random.integer(1, 500), 1, 1};
        s.out.channels = random.integer(1, 300);
        s.kernel_y = s.kernel_x = 1;
        s.padding_y = s.padding_x = 0;
        if (random.chance(30)) {  // one pixel made from a whole map
          s.in = {random.integer(1, 20), random.integer(1, 6), random.integer(1, 6)};
          s.kernel_y = s.in.height;
          s.kernel_x = s.in.width;
          s.dilation_y = s.dilation_x = 1;
        }
        break;
      case Form::kThree:  // what Winograd's algorithm computes
      case Form::kStridedThree:
        s.in = {random.integer(1, 40), random.integer(1, 24), random.integer(1, 40)};
        s.out.channels = random.integer(1, 40);
        if (random.chance(8)) {  // many blocks of tiles
          s.in = {random.integer(8, 16), random.integer(36, 48), random.integer(50, 80)};
          s.out.channels = random.integer(8, 24);
        } else if (random.chance(8)) {  // many blocks of channels
          s.in = {random.integer(40, 70), random.integer(8, 14), random.integer(12, 24)};
          s.out.channels = random.integer(60, 100);
        }
        s.kernel_y = s.kernel_x = 3;
        s.stride_y = s.stride_x = form == Form::kThree ? 1 : 2;
        s.dilation_y = s.dilation_x = 1;
        break;
      case Form::kImage:  // Winograd's algorithm without sums in memory
        s.in = {3, random.integer(1, 24), random.integer(1, 150)};
        s.out.channels = random.integer(1, 40);
        s.kernel_y = s.kernel_x = 3;
        s.stride_y = s.stride_x = 1;
        s.dilation_y = s.dilation_x = 1;
        break;
      case Form::kFar: {  // kernels that reach far beyond the map
        s.in = {random.integer(1, 6), random.integer(1, 12), random.integer(1, 12)};
        s.kernel_y = s.kernel_x = 2 * random.integer(1, 4) + 1;
        s.dilation_y = s.dilation_x =
            random.chance(50) ? random.integer(2, 60) : random.integer(61, 1024);
        if (random.chance(10)) {
          s.kernel_y = s.kernel_x = 65;
          s.dilation_y = s.dilation_x = random.integer(1, 60);
        }
        s.padding_y = s.padding_x = s.kernel_y / 2 * s.dilation_y;
        s.stride_y = random.integer(1, 3);
        if (random.chance(20)) s.stride_x = s.stride_y = random.integer(4, 600);
        s.out.channels = random.integer(1, 20);
        if (random.chance(40)) {
          s.groups = s.in.channels;
          s.out.channels = s.groups * random.integer(1, 2);
        }
        break;
      }
      case Form::kFewChannels:  // panels made from lines of the padded input
        // Many outputs, so that relu leaves some that are as large as the sums.
        s.in = {random.integer(1, 4), random.integer(8, 40), random.integer(30, 200)};
        s.out.channels = random.integer(8, 40);
        s.kernel_y = s.kernel_x = random.integer(2, 5);
        s.stride_y = s.stride_x = random.integer(1, 3);
        s.dilation_y = s.dilation_x = 1;
        if (random.chance(20)) {
          s.groups = 2;
          s.in.channels *= 2;
          s.out.channels *= 2;
        }
        break;
      case Form::kDeep:  // more terms than are packed at once, more pixels than a few panels
        s.in = {random.integer(150, 300), random.integer(6, 13), random.integer(6, 13)};
        s.out.channels = random.integer(8, 48);
        s.kernel_y = s.kernel_x = 3;
        s.padding_y = s.padding_x = 1;
        s.dilation_y = s.dilation_x = 1;
        break;
    }
    // Some with a side of its own: convolutions of TensorFlow have more padding below and to the
    // right.
    int below = s.padding_y;
    int right = s.padding_x;
    if (form != Form::kPointwise && form != Form::kConnected && random.chance(25)) {
      s.padding_y = random.integer(0, s.padding_y);
      s.padding_x = random.integer(0, s.padding_x);
      if (random.chance(50)) std::swap(below, right);
    }
    if (s.kernel_y == 1 && s.kernel_x == 1 && random.chance(10)) {  // pixels that no tap reads
      below += random.integer(0, 1);
      right += random.integer(0, 2);
    }
    if (set_output(s, below, right)) return s;
  }
}

inline mpe::Quantization random_quantization(Random& random, int channels, float typical) {
  mpe::Quantization quantization;
  for (int c = 0; c < channels; ++c) {
    quantization.scale.push_back(typical * random.real(0.5F, 2.0F));
    quantization.zero_point.push_back(random.integer(-128, 127));
  }
  return quantization;
}

inline void fill_input(Random& random, Problem& problem) {
  const auto count = static_cast<std::size_t>(problem.request.shape.in.elements());
  const Precision precision = problem.request.precision;
  problem.input.resize(count * (precision == Precision::kFp32   ? 4
                                : precision == Precision::kFp16 ? 2
                                                                : 1));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = random.real(-1.0F, 1.0F);
    if (precision == Precision::kFp32) {
      std::memcpy(&problem.input[i * 4], &value, 4);
    } else if (precision == Precision::kFp16) {
      const mpe::Half half = mpe::half_from_float(value);
      std::memcpy(&problem.input[i * 2], &half, 2);
    } else {
      // Extremes often: they are what saturates.
      const int q =
          random.chance(30) ? (random.chance(50) ? -128 : 127) : random.integer(-128, 127);
      problem.input[i] = static_cast<std::byte>(static_cast<std::int8_t>(q));
    }
  }
}

inline void make_problem(Random& random, Problem& problem, Form form, Precision precision) {
  ConvolutionRequest& request = problem.request;
  request.shape = random_shape(random, form);
  request.precision = precision;
  request.activation =
      kActivations[random.integer(0, static_cast<int>(std::size(kActivations)) - 1)];
  const auto depth = static_cast<std::size_t>(request.shape.depth());
  const auto channels = static_cast<std::size_t>(request.shape.out.channels);
  const bool extreme = precision == Precision::kInt8 && random.chance(20);
  // Sums stay near one, where activations bend and tolerances mean something.
  const float reach = 2.0F / std::sqrt(static_cast<float>(depth));
  for (std::size_t i = 0; i < depth * channels; ++i) {
    const float weight = random.real(-reach, reach);
    problem.weights.push_back(extreme ? (weight < 0.3F * reach ? -reach : reach) : weight);
  }
  for (std::size_t i = 0; i < channels; ++i) problem.bias.push_back(random.real(-2.0F, 2.0F));
  request.weights = problem.weights;
  request.bias = problem.bias;
  request.output_precision = precision;
  fill_input(random, problem);
  if (precision != Precision::kInt8) return;

  problem.dynamic = random.chance(25);
  const bool per_channel = form == Form::kDepthwise && !problem.dynamic && random.chance(50);
  problem.input_quantization =
      random_quantization(random, per_channel ? request.shape.in.channels : 1, 0.01F);
  if (problem.dynamic) {
    problem.dynamic_input = {problem.input_quantization.scale[0],
                             problem.input_quantization.zero_point[0]};
  } else {
    request.input = &problem.input_quantization;
  }
  if (random.chance(30)) {
    request.output_precision = Precision::kFp32;
  } else {
    // Half of them with finer steps, beyond whose range many sums are.
    const float typical =
        (random.chance(50) ? 0.02F : 0.002F) * std::sqrt(static_cast<float>(depth));
    problem.output_quantization =
        random_quantization(random, random.chance(20) ? request.shape.out.channels : 1, typical);
    request.output = &problem.output_quantization;
  }
}

inline std::size_t value_size(Precision precision) {
  return precision == Precision::kFp32 ? 4 : precision == Precision::kFp16 ? 2 : 1;
}

// Runs with guard bytes round output and scratch, which must come back untouched. The scratch holds
// what an earlier layer may have left: large halves and floats.
inline std::vector<std::byte> run(const mpe::Convolution& convolution, const Problem& problem,
                                  mpe::ThreadPool& pool) {
  constexpr std::size_t kGuard = 64;
  constexpr std::byte kMark{0xA5};
  const auto outputs = static_cast<std::size_t>(problem.request.shape.out.elements());
  const std::size_t size =
      (convolution.pools() ? outputs / 4 : outputs) * value_size(problem.request.output_precision);
  std::vector<std::byte> output(size + 2 * kGuard, kMark);
  const std::size_t scratch_size = convolution.scratch_bytes(pool.threads());
  std::vector<std::byte> memory(scratch_size + 3 * kGuard, kMark);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  std::byte* scratch = memory.data() + kGuard - address % kGuard + kGuard;
  std::fill_n(scratch, scratch_size, std::byte{0x7B});

  mpe::ConvolutionCall call;
  call.input = problem.input.data();
  call.output = output.data() + kGuard;
  call.scratch = scratch;
  if (problem.dynamic) call.dynamic_input = &problem.dynamic_input;
  convolution.run(call, pool);

  const auto untouched = [&](const std::byte* begin, const std::byte* end) {
    return std::all_of(begin, end, [&](std::byte byte) { return byte == kMark; });
  };
  CHECK(untouched(output.data(), output.data() + kGuard));
  CHECK(untouched(output.data() + kGuard + size, output.data() + output.size()));
  CHECK(untouched(memory.data(), scratch));
  CHECK(untouched(scratch + scratch_size, memory.data() + memory.size()));
  return {output.begin() + kGuard, output.begin() + static_cast<std::ptrdiff_t>(kGuard + size)};
}

inline float value_at(const std::vector<std::byte>& values, Precision precision,
                      std::size_t index) {
  if (precision == Precision::kFp32) {
    float value;
    std::memcpy(&value, &values[index * 4], 4);
    return value;
  }
  mpe::Half half;
  std::memcpy(&half, &values[index * 2], 2);
  return mpe::half_to_float(half);
}

// Without the sign, the bits of a larger value are larger as a number; those of NaN are the
// largest.
inline std::uint32_t bits_at(const std::vector<std::byte>& values, Precision precision,
                             std::size_t index) {
  std::uint32_t bits = 0;  // both formats lie in memory with the lowest byte first
  std::memcpy(&bits, &values[index * value_size(precision)], value_size(precision));
  return bits;
}

// The largest difference, as a fraction of the largest expected value (or of `largest`); NaN if any
// value is not finite. Compares bits first: an emulated core takes long for an operation on floats.
inline double relative_error(const std::vector<std::byte>& actual,
                             const std::vector<std::byte>& expected, Precision precision,
                             double largest = 1e-6) {
  const std::uint32_t magnitude = precision == Precision::kFp32 ? 0x7FFF'FFFFU : 0x7FFFU;
  std::size_t most = 0;
  double difference = 0.0;
  for (std::size_t i = 0; i < expected.size() / value_size(precision); ++i) {
    const std::uint32_t want = bits_at(expected, precision, i);
    if ((want & magnitude) > (bits_at(expected, precision, most) & magnitude)) most = i;
    if (bits_at(actual, precision, i) == want) continue;
    const double distance =
        std::abs(double{value_at(actual, precision, i)} - double{value_at(expected, precision, i)});
    if (!std::isfinite(distance)) return std::numeric_limits<double>::quiet_NaN();
    difference = std::max(difference, distance);
  }
  if (!expected.empty()) {
    const double magnitude_of_most = std::abs(double{value_at(expected, precision, most)});
    if (!std::isfinite(magnitude_of_most)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, magnitude_of_most);
  }
  return difference / largest;
}
