// Every kernel set that this machine can run against the plain loops, over seeded random shapes:
// fp32 and fp16 within a tolerance, int8 bit by bit.
#include "kernels/convolution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "check.h"
#include "error.h"
#include "half.h"
#include "kernels/classical/technique.h"
#include "kernels/kernel_sets.h"

namespace {

using mpe::Activation;
using mpe::ConvolutionChoice;
using mpe::ConvolutionRequest;
using mpe::ConvolutionShape;
using mpe::Precision;

constexpr Activation kActivations[] = {
    Activation::kLinear, Activation::kLeaky,    Activation::kRelu,
    Activation::kRelu6,  Activation::kLogistic, Activation::kTanh,
    Activation::kMish,   Activation::kSwish,    Activation::kHardMish};

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

std::string described(const Problem& problem) {
  const ConvolutionShape& s = problem.request.shape;
  std::string text = std::string(mpe::name_of(problem.request.precision)) + " to " +
                     std::string(mpe::name_of(problem.request.output_precision)) + " " +
                     std::string(mpe::name_of(problem.request.activation));
  for (const int value :
       {s.in.channels, s.in.height, s.in.width, s.out.channels, s.out.height, s.out.width,
        s.kernel_y, s.kernel_x, s.stride_y, s.stride_x, s.padding, s.dilation, s.groups}) {
    text += " " + std::to_string(value);
  }
  if (problem.dynamic) text += " dynamic";
  if (problem.input_quantization.per_channel()) text += " per-channel input";
  if (problem.output_quantization.per_channel()) text += " per-channel output";
  return text;
}

bool set_output(ConvolutionShape& s) {
  const int span_y = s.in.height + 2 * s.padding - (s.kernel_y - 1) * s.dilation - 1;
  const int span_x = s.in.width + 2 * s.padding - (s.kernel_x - 1) * s.dilation - 1;
  if (span_y < 0 || span_x < 0) return false;
  s.out.height = span_y / s.stride_y + 1;
  s.out.width = span_x / s.stride_x + 1;
  return true;
}

enum class Form {
  kGeneral,
  kPointwise,
  kDepthwise,
  kConnected,
  kDeep,
  kThree,
  kSquareDepthwise,
  kFewChannels
};

ConvolutionShape random_shape(Random& random, Form form) {
  for (;;) {
    ConvolutionShape s;
    s.in = {random.integer(1, 20), random.integer(1, 30), random.integer(1, 60)};
    s.out.channels = random.integer(1, 40);
    s.kernel_y = s.kernel_x = random.integer(1, 4);
    if (random.chance(20)) s.kernel_x = random.integer(1, 7);
    s.stride_y = s.stride_x = random.integer(1, 2);
    if (random.chance(20)) s.stride_x = random.integer(1, 4);
    s.padding = random.integer(0, 4);
    s.dilation = random.chance(25) ? random.integer(2, 3) : 1;
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
        s.padding = 0;
        s.in.channels = random.integer(1, 100);
        break;
      case Form::kDepthwise:
        s.groups = s.in.channels = random.integer(2, 20);
        s.out.channels = s.groups * (random.chance(20) ? random.integer(2, 3) : 1);
        break;
      case Form::kSquareDepthwise:  // what is computed by blocks of rows, also of maps in strips
        s.in = {random.integer(2, 6), random.integer(1, 70), random.integer(1, 200)};
        s.groups = s.in.channels;
        s.out.channels = s.groups * (random.chance(20) ? 2 : 1);
        s.kernel_y = s.kernel_x = random.chance(50) ? 3 : 5;
        s.stride_y = s.stride_x = random.integer(1, 2);
        s.dilation = 1;
        break;
      case Form::kConnected:
        s.in = {random.integer(1, 500), 1, 1};
        s.out.channels = random.integer(1, 300);
        s.kernel_y = s.kernel_x = 1;
        s.padding = 0;
        if (random.chance(30)) {  // one pixel made from a whole map
          s.in = {random.integer(1, 20), random.integer(1, 6), random.integer(1, 6)};
          s.kernel_y = s.in.height;
          s.kernel_x = s.in.width;
          s.dilation = 1;
        }
        break;
      case Form::kThree:  // what Winograd's algorithm computes
        s.in = {random.integer(1, 40), random.integer(1, 24), random.integer(1, 40)};
        s.out.channels = random.integer(1, 40);
        if (random.chance(5)) {  // several blocks of tiles and of channels
          s.in = {random.integer(40, 70), random.integer(20, 40), random.integer(40, 70)};
          s.out.channels = random.integer(40, 100);
        }
        s.kernel_y = s.kernel_x = 3;
        s.stride_y = s.stride_x = s.dilation = 1;
        break;
      case Form::kFewChannels:  // panels made from lines of the padded input
        // Many outputs, so that relu leaves some that are as large as the sums.
        s.in = {random.integer(1, 4), random.integer(8, 40), random.integer(30, 200)};
        s.out.channels = random.integer(8, 40);
        s.kernel_y = s.kernel_x = random.integer(2, 5);
        s.stride_y = s.stride_x = random.integer(1, 3);
        s.dilation = 1;
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
        s.padding = 1;
        s.dilation = 1;
        break;
    }
    if (set_output(s)) return s;
  }
}

mpe::Quantization random_quantization(Random& random, int channels, float typical) {
  mpe::Quantization quantization;
  for (int c = 0; c < channels; ++c) {
    quantization.scale.push_back(typical * random.real(0.5F, 2.0F));
    quantization.zero_point.push_back(random.integer(-128, 127));
  }
  return quantization;
}

void fill_input(Random& random, Problem& problem) {
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

void make_problem(Random& random, Problem& problem, Form form, Precision precision) {
  ConvolutionRequest& request = problem.request;
  request.shape = random_shape(random, form);
  request.precision = precision;
  request.activation = kActivations[random.integer(0, 8)];
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
    const float typical = 0.02F * std::sqrt(static_cast<float>(depth));
    problem.output_quantization =
        random_quantization(random, random.chance(20) ? request.shape.out.channels : 1, typical);
    request.output = &problem.output_quantization;
  }
}

std::size_t value_size(Precision precision) {
  return precision == Precision::kFp32 ? 4 : precision == Precision::kFp16 ? 2 : 1;
}

// Runs with guard bytes round output and scratch, which must come back untouched.
std::vector<std::byte> run(const mpe::Convolution& convolution, const Problem& problem,
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

float value_at(const std::vector<std::byte>& values, Precision precision, std::size_t index) {
  if (precision == Precision::kFp32) {
    float value;
    std::memcpy(&value, &values[index * 4], 4);
    return value;
  }
  mpe::Half half;
  std::memcpy(&half, &values[index * 2], 2);
  return mpe::half_to_float(half);
}

// The largest difference, as a fraction of the largest expected value (or of `largest`).
double relative_error(const std::vector<std::byte>& actual, const std::vector<std::byte>& expected,
                      Precision precision, double largest = 1e-6) {
  double difference = 0.0;
  for (std::size_t i = 0; i < expected.size() / value_size(precision); ++i) {
    const double want = value_at(expected, precision, i);
    const double got = value_at(actual, precision, i);
    largest = std::max(largest, std::abs(want));
    const double distance = std::abs(got - want);
    if (!(distance <= difference)) difference = distance;  // catches NaN as well
  }
  return difference / largest;
}

// The longest run of products that is summed in half before float takes over.
constexpr int kHalfTerms = 128;

double tolerance(Precision precision, std::string_view isa, std::string_view algorithm) {
  const bool winograd = algorithm.starts_with("winograd");
  if (precision == Precision::kFp32) return winograd ? 1e-4 : 1e-5;
  // Half arithmetic has 11 bits, and up to kHalfTerms terms are added in it.
  if (isa.find("fp16") != std::string_view::npos) return 2e-2;
  // Transformed weights are rounded to half, and their errors meet the sums' own magnitude.
  return winograd ? 1e-2 : 1e-3;
}

// The largest value before the activation.
double largest_sum(const Problem& problem, mpe::ThreadPool& pool) {
  Problem linear = problem;
  linear.request.activation = Activation::kLinear;
  const auto sums = run(*mpe::make_reference_convolution(linear.request), linear, pool);
  double largest = 0.0;
  for (std::size_t i = 0; i < sums.size() / value_size(problem.request.precision); ++i) {
    largest = std::max(largest, std::abs(double{value_at(sums, problem.request.precision, i)}));
  }
  return largest;
}

struct Tally {
  int compared = 0;
  int own_kernels = 0;
  std::map<std::string, double> worst;  // error by instruction set and algorithm
};

void compare(const Problem& problem, std::string_view isa, std::string_view algorithm,
             const std::vector<std::byte>& expected, mpe::ThreadPool& pool, bool small_scratch,
             Tally& tally) {
  ConvolutionChoice choice;
  choice.isa = isa;
  choice.algorithm = algorithm;
  // Little of it, or as little as can be.
  choice.small_scratch = small_scratch && tally.compared % 2 == 0;
  if (small_scratch && !choice.small_scratch) choice.scratch_bytes = 0;
  choice.threads = pool.threads();
  const auto convolution = mpe::make_convolution(problem.request, choice);
  const auto actual = run(*convolution, problem, pool);
  ++tally.compared;
  if (convolution->algorithm() != "reference") ++tally.own_kernels;
  const std::string where = std::string(isa) + " (" + std::string(convolution->isa()) + " " +
                            std::string(convolution->algorithm()) + "), " +
                            std::to_string(pool.threads()) + " threads: " + described(problem);
  if (problem.request.precision == Precision::kInt8) {
    if (actual != expected) check::fail(__FILE__, __LINE__, "other bits: " + where);
    return;
  }
  // Winograd's sums of halves are as wrong as the largest ones make them, whatever an activation
  // leaves of those.
  const bool by_sums = problem.request.precision == Precision::kFp16 &&
                       convolution->algorithm().starts_with("winograd");
  const double error = relative_error(actual, expected, problem.request.precision,
                                      by_sums ? largest_sum(problem, pool) : 1e-6);
  double& worst =
      tally.worst[std::string(convolution->isa()) + " " + std::string(convolution->algorithm())];
  worst = std::max(worst, error);
  if (!(error <=
        tolerance(problem.request.precision, convolution->isa(), convolution->algorithm()))) {
    check::fail(__FILE__, __LINE__, "error " + std::to_string(error) + ": " + where);
  }
}

// Each technique on one of the sets, in turn.
void compare_techniques(const Problem& problem, int turn, const std::vector<std::byte>& expected,
                        mpe::ThreadPool& pool, Tally& tally) {
  std::vector<std::string_view> names;
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    if (set.supported && set.name != "reference") names.push_back(set.name);
  }
  for (std::size_t i = 0; i < std::size(mpe::kTechniques); ++i) {
    const std::string_view isa = names[(static_cast<std::size_t>(turn) + i) % names.size()];
    compare(problem, isa, mpe::kTechniques[i], expected, pool, false, tally);
  }
}

void compare_everywhere(Form form, Precision precision, int count, unsigned seed) {
  Random random(seed);
  mpe::ThreadPool pools[] = {mpe::ThreadPool(1), mpe::ThreadPool(2), mpe::ThreadPool(3)};
  Tally tally;
  for (int i = 0; i < count; ++i) {
    Problem problem;
    make_problem(random, problem, form, precision);
    const auto reference = mpe::make_reference_convolution(problem.request);
    const auto expected = run(*reference, problem, pools[0]);
    mpe::ThreadPool& pool = pools[i % 3];
    if (i % 4 == 0) compare_techniques(problem, i / 4, expected, pool, tally);
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      compare(problem, set.name, "", expected, pool, random.chance(30), tally);
      compare(problem, set.name, "gemm", expected, pool, random.chance(30), tally);
      if (precision == Precision::kInt8) {
        compare(problem, set.name, "interleaved", expected, pool, random.chance(30), tally);
      }
      if (form != Form::kThree && form != Form::kDeep) continue;
      compare(problem, set.name, "winograd2", expected, pool, random.chance(30), tally);
      compare(problem, set.name, "winograd4", expected, pool, random.chance(30), tally);
    }
  }
  CHECK(tally.compared > 0);
  CHECK_EQUAL(tally.own_kernels, tally.compared);
  for (const auto& [kernel, error] : tally.worst) {
    std::printf("%s %s: error at most %.1e\n", std::string(mpe::name_of(precision)).c_str(),
                kernel.c_str(), error);
  }
}

TEST(general_shapes_fp32) { compare_everywhere(Form::kGeneral, Precision::kFp32, 100, 1); }
TEST(general_shapes_fp16) { compare_everywhere(Form::kGeneral, Precision::kFp16, 100, 2); }
TEST(general_shapes_int8) { compare_everywhere(Form::kGeneral, Precision::kInt8, 120, 3); }
TEST(pointwise_fp32) { compare_everywhere(Form::kPointwise, Precision::kFp32, 50, 4); }
TEST(pointwise_fp16) { compare_everywhere(Form::kPointwise, Precision::kFp16, 50, 5); }
TEST(pointwise_int8) { compare_everywhere(Form::kPointwise, Precision::kInt8, 60, 6); }
TEST(depthwise_fp32) { compare_everywhere(Form::kDepthwise, Precision::kFp32, 100, 7); }
TEST(depthwise_fp16) { compare_everywhere(Form::kDepthwise, Precision::kFp16, 80, 8); }
TEST(depthwise_int8) { compare_everywhere(Form::kDepthwise, Precision::kInt8, 100, 9); }
TEST(square_depthwise_fp32) {
  compare_everywhere(Form::kSquareDepthwise, Precision::kFp32, 40, 18);
}
TEST(square_depthwise_fp16) {
  compare_everywhere(Form::kSquareDepthwise, Precision::kFp16, 40, 19);
}
TEST(connected_fp32) { compare_everywhere(Form::kConnected, Precision::kFp32, 60, 10); }
TEST(connected_fp16) { compare_everywhere(Form::kConnected, Precision::kFp16, 60, 11); }
TEST(connected_int8) { compare_everywhere(Form::kConnected, Precision::kInt8, 80, 12); }
TEST(deep_fp32) { compare_everywhere(Form::kDeep, Precision::kFp32, 6, 13); }
TEST(deep_fp16) { compare_everywhere(Form::kDeep, Precision::kFp16, 6, 14); }
TEST(deep_int8) { compare_everywhere(Form::kDeep, Precision::kInt8, 8, 15); }

TEST(three_by_three_fp32) { compare_everywhere(Form::kThree, Precision::kFp32, 60, 19); }
TEST(three_by_three_fp16) { compare_everywhere(Form::kThree, Precision::kFp16, 40, 20); }
TEST(three_by_three_int8) { compare_everywhere(Form::kThree, Precision::kInt8, 40, 21); }

TEST(few_channels_fp32) { compare_everywhere(Form::kFewChannels, Precision::kFp32, 40, 23); }
TEST(few_channels_fp16) { compare_everywhere(Form::kFewChannels, Precision::kFp16, 30, 24); }

// Halves as they compare: none of these is NaN.
struct Half {
  std::uint16_t bits;
  friend bool operator<(Half a, Half b) {
    return mpe::half_to_float({a.bits}) < mpe::half_to_float({b.bits});
  }
};

// The largest of each 2x2 outputs.
template <typename T>
std::vector<std::byte> pooled(const std::vector<std::byte>& outputs, const mpe::Shape& shape) {
  std::vector<std::byte> result(outputs.size() / 4);
  const auto* in = reinterpret_cast<const T*>(outputs.data());
  auto* out = reinterpret_cast<T*>(result.data());
  const auto width = static_cast<std::size_t>(shape.width);
  for (std::size_t i = 0; i < result.size() / sizeof(T); ++i) {
    const T* window = in + i / (width / 2) * 2 * width + i % (width / 2) * 2;
    out[i] = std::max({window[0], window[1], window[width], window[width + 1]});
  }
  return result;
}

TEST(int8_outputs_are_pooled_as_they_would_be_by_themselves) {
  Random random(22);
  mpe::ThreadPool pools[] = {mpe::ThreadPool(1), mpe::ThreadPool(2), mpe::ThreadPool(3)};
  Tally tally;
  int compared = 0;
  for (int i = 0; i < 400; ++i) {
    Problem problem;
    const Form forms[] = {Form::kThree, Form::kThree, Form::kGeneral, Form::kPointwise,
                          Form::kDeep};
    make_problem(random, problem, forms[i % 5], Precision::kInt8);
    mpe::Shape& out = problem.request.shape.out;
    if (out.height < 2 || out.width < 2 || problem.request.shape.groups > 1) continue;
    out.height -= out.height % 2;
    out.width -= out.width % 2;
    auto expected = run(*mpe::make_reference_convolution(problem.request), problem, pools[0]);
    expected = problem.request.output_precision == Precision::kInt8
                   ? pooled<std::int8_t>(expected, out)
                   : pooled<float>(expected, out);
    problem.request.may_pool = true;
    const bool keeps_order = problem.request.activation == Activation::kLinear ||
                             problem.request.activation == Activation::kLeaky ||
                             problem.request.activation == Activation::kRelu ||
                             problem.request.activation == Activation::kRelu6;
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      for (const char* algorithm : {"", "interleaved", "winograd4"}) {
        const auto convolution =
            mpe::make_convolution(problem.request, {.isa = set.name, .algorithm = algorithm});
        if (convolution->algorithm() == "gemm") continue;
        CHECK_EQUAL(convolution->pools(), keeps_order);
        if (!keeps_order) continue;
        ++compared;
        compare(problem, set.name, algorithm, expected, pools[i % 3], random.chance(30), tally);
      }
    }
  }
  CHECK(compared > 200);
}

// Whatever the activation: it comes first.
TEST(outputs_of_winograd_are_pooled_as_they_would_be_by_themselves) {
  Random random(25);
  mpe::ThreadPool pools[] = {mpe::ThreadPool(1), mpe::ThreadPool(2), mpe::ThreadPool(3)};
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    Problem problem;
    const Precision precision = i % 2 == 0 ? Precision::kFp32 : Precision::kFp16;
    make_problem(random, problem, Form::kThree, precision);
    mpe::Shape& out = problem.request.shape.out;
    if (out.height < 2 || out.width < 2) continue;
    out.height -= out.height % 2;
    out.width -= out.width % 2;
    mpe::ThreadPool& pool = pools[i % 3];
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      for (const char* algorithm : {"winograd2", "winograd4"}) {
        const ConvolutionChoice choice{.isa = set.name, .algorithm = algorithm};
        problem.request.may_pool = false;
        const auto whole = run(*mpe::make_convolution(problem.request, choice), problem, pool);
        const std::vector<std::byte> expected =
            precision == Precision::kFp32 ? pooled<float>(whole, out) : pooled<Half>(whole, out);
        problem.request.may_pool = true;
        const auto convolution = mpe::make_convolution(problem.request, choice);
        CHECK(convolution->pools());
        const auto actual = run(*convolution, problem, pool);
        CHECK_EQUAL(actual.size(), expected.size());
        for (std::size_t k = 0; k < expected.size() / value_size(precision); ++k) {
          CHECK(value_at(actual, precision, k) == value_at(expected, precision, k));
        }
        ++compared;
      }
    }
  }
  CHECK(compared > 100);
}

// Sums of nothing but positive terms, where every addition in half rounds a number as large as it
// can be: n of them are off by at most n 2^-12 of their sum.
TEST(sums_of_halves_stay_within_their_bound) {
  Random random(22);
  mpe::ThreadPool pool(1);
  for (const int depth : {kHalfTerms, 3 * kHalfTerms + 5}) {
    Problem problem;
    ConvolutionRequest& request = problem.request;
    request.shape.in = {depth, 5, 11};
    request.shape.out = {9, 5, 11};
    request.precision = request.output_precision = Precision::kFp16;
    const auto channels = static_cast<std::size_t>(request.shape.out.channels);
    for (std::size_t i = 0; i < channels * static_cast<std::size_t>(depth); ++i) {
      problem.weights.push_back(random.real(0.1F, 1.0F));
    }
    problem.bias.assign(channels, 0.0F);
    request.weights = problem.weights;
    request.bias = problem.bias;
    for (std::int64_t i = 0; i < request.shape.in.elements(); ++i) {
      const mpe::Half half = mpe::half_from_float(random.real(0.1F, 1.0F));
      const auto* bytes = reinterpret_cast<const std::byte*>(&half);
      problem.input.insert(problem.input.end(), bytes, bytes + sizeof(half));
    }
    const auto expected = run(*mpe::make_reference_convolution(request), problem, pool);
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported) continue;
      const auto convolution =
          mpe::make_convolution(request, {.isa = set.name, .algorithm = "gemm"});
      const auto actual = run(*convolution, problem, pool);
      for (std::size_t i = 0; i < expected.size() / 2; ++i) {
        const double want = value_at(expected, Precision::kFp16, i);
        const double error = std::abs(value_at(actual, Precision::kFp16, i) - want) / want;
        // Both results are rounded to half once more.
        CHECK(error <= (kHalfTerms + 8) / 4096.0);
      }
    }
  }
}

TEST(unknown_names_are_errors) {
  Random random(16);
  Problem problem;
  make_problem(random, problem, Form::kPointwise, Precision::kFp32);
  CHECK_THROWS(mpe::make_convolution(problem.request, {.isa = "sse9", .algorithm = ""}),
               "no instruction set 'sse9'");
  CHECK_THROWS(mpe::make_convolution(problem.request, {.isa = "", .algorithm = "guess"}),
               "no algorithm 'guess'");
}

TEST(reference_can_be_forced) {
  Random random(17);
  Problem problem;
  make_problem(random, problem, Form::kPointwise, Precision::kFp32);
  const auto by_algorithm =
      mpe::make_convolution(problem.request, {.isa = "", .algorithm = "reference"});
  const auto by_set = mpe::make_convolution(problem.request, {.isa = "reference", .algorithm = ""});
  CHECK_EQUAL(by_algorithm->isa(), "reference");
  CHECK_EQUAL(by_set->algorithm(), "reference");
}

TEST(in_place_gives_the_same_bits) {
  Random random(23);
  mpe::ThreadPool pools[] = {mpe::ThreadPool(1), mpe::ThreadPool(3)};
  int tried = 0;
  for (int i = 0; i < 30; ++i) {
    Problem problem;
    const auto precision = static_cast<Precision>(i % 3);
    do {
      problem = {};
      make_problem(random, problem, Form::kDepthwise, precision);
    } while (problem.request.shape.in != problem.request.shape.out ||
             problem.request.output_precision != precision);
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported) continue;
      const auto convolution = mpe::make_convolution(
          problem.request, {.isa = set.name, .algorithm = "", .small_scratch = false});
      if (!convolution->works_in_place()) continue;
      ++tried;
      mpe::ThreadPool& pool = pools[i % 2];
      const auto expected = run(*convolution, problem, pool);
      std::vector<std::byte> map = problem.input;
      std::vector<float> scratch(convolution->scratch_bytes(pool.threads()) / 4 + 16);
      const auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
      mpe::ConvolutionCall call;
      call.input = call.output = map.data();
      call.scratch = reinterpret_cast<std::byte*>(scratch.data()) + (64 - address % 64) % 64;
      if (problem.dynamic) call.dynamic_input = &problem.dynamic_input;
      convolution->run(call, pool);
      if (map != expected) check::fail(__FILE__, __LINE__, "other bits: " + described(problem));
    }
  }
  CHECK(tried > 10);
  Problem problem;
  make_problem(random, problem, Form::kDepthwise, Precision::kFp32);
  for (const std::string_view technique : {"plain", "channel-major"}) {
    const auto convolution =
        mpe::make_convolution(problem.request, {.isa = "", .algorithm = technique});
    CHECK(!convolution->works_in_place());
  }
}

// A technique shows in the layers that it concerns; others keep the last one that concerns them.
TEST(techniques_apply_by_kind_of_layer) {
  const auto algorithm_of = [](Form form, std::string_view technique, Precision precision) {
    Random random(22);
    Problem problem;
    make_problem(random, problem, form, precision);
    return mpe::make_convolution(problem.request, {.isa = "", .algorithm = technique})->algorithm();
  };
  constexpr Precision kFp32 = Precision::kFp32;
  for (const std::string_view loops : {"plain", "reordered", "tiled", "unrolled", "simd"}) {
    for (const Form form : {Form::kGeneral, Form::kPointwise, Form::kDepthwise, Form::kThree}) {
      CHECK_EQUAL(algorithm_of(form, loops, kFp32), loops);
    }
  }
  CHECK_EQUAL(algorithm_of(Form::kDepthwise, "simd", Precision::kInt8), "unrolled");
  for (const Form form : {Form::kPointwise, Form::kDepthwise, Form::kThree}) {
    CHECK_EQUAL(algorithm_of(form, "im2col", kFp32), "im2col");
  }
  CHECK_EQUAL(algorithm_of(Form::kPointwise, "channel-last", kFp32), "gemm");
  CHECK_EQUAL(algorithm_of(Form::kDepthwise, "channel-last", kFp32), "im2col");
  CHECK_EQUAL(algorithm_of(Form::kDepthwise, "channel-major", kFp32), "depthwise");
  CHECK_EQUAL(algorithm_of(Form::kDepthwise, "winograd", kFp32), "depthwise");

  ConvolutionRequest wide;
  wide.shape.in = wide.shape.out = {128, 26, 26};
  wide.shape.kernel_y = wide.shape.kernel_x = 3;
  wide.shape.padding = 1;
  const std::vector<float> weights(128 * 128 * 9);
  wide.weights = weights;
  wide.bias = std::span(weights).first(128);
  const auto choose = [&](std::string_view technique) {
    return mpe::make_convolution(wide, {.isa = "", .algorithm = technique});
  };
  CHECK_EQUAL(choose("in-place")->algorithm(), "im2col");
  CHECK(choose("winograd")->algorithm().starts_with("winograd"));
}

TEST(sets_end_with_the_reference) {
  const auto sets = mpe::kernel_sets();
  CHECK_EQUAL(sets.back().name, "reference");
  CHECK(sets.back().supported);
  for (const auto& set : sets) {
    for (const std::string_view kind : {"convolutional", "depthwise", "connected"}) {
      for (const Precision precision : {Precision::kFp32, Precision::kFp16, Precision::kInt8}) {
        CHECK(std::ranges::any_of(set.kernels, [&](const mpe::KernelUse& use) {
          return use.kind == kind && use.precision == precision;
        }));
      }
    }
  }
}

TEST(every_set_has_a_kernel_of_its_own) {
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    const auto own = [&](const mpe::KernelUse& use) { return use.isa == set.name; };
    CHECK(std::any_of(set.kernels.begin(), set.kernels.end(), own));
    if (!set.supported) continue;
    for (const Precision precision : {Precision::kFp32, Precision::kFp16, Precision::kInt8}) {
      Random random(18);
      Problem problem;
      make_problem(random, problem, Form::kPointwise, precision);
      const auto convolution =
          mpe::make_convolution(problem.request, {.isa = set.name, .algorithm = ""});
      const auto announced =
          std::find_if(set.kernels.begin(), set.kernels.end(), [&](const mpe::KernelUse& use) {
            return use.kind == "convolutional" && use.precision == precision;
          });
      CHECK_EQUAL(convolution->isa(), announced->isa);
    }
  }
}

}  // namespace
