// Every kernel set that this machine can run against the plain loops, over seeded random shapes:
// fp32 and fp16 within a tolerance, int8 bit by bit.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "check.h"
#include "convolution_problem.h"
#include "kernels/classical/technique.h"
#include "kernels/kernel_sets.h"

namespace {

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

// The kernels that have run on a problem. A set without a kernel of its own takes that of a set
// below it, which would compute the same once more: under QEMU that is a third of the time.
class Kernels {
 public:
  bool is_new(const mpe::Convolution& convolution, const ConvolutionChoice& choice, int threads) {
    return ran_
        .emplace(convolution.isa(), convolution.algorithm(), convolution.scratch_bytes(threads),
                 convolution.weight_bytes(), choice.small_scratch)
        .second;
  }

 private:
  std::set<std::tuple<std::string, std::string, std::size_t, std::size_t, bool>> ran_;
};

// What the plain loops compute for a problem, and which kernels were compared with it.
class Expected {
 public:
  Expected(const Problem& problem, std::vector<std::byte> outputs)
      : outputs(std::move(outputs)), problem_(&problem) {}
  Expected(const Problem& problem, mpe::ThreadPool& pool)
      : Expected(problem, run(*mpe::make_reference_convolution(problem.request), problem, pool)) {}

  // The largest value before the activation; computed at the first call.
  double largest_sum(mpe::ThreadPool& pool) const {
    if (!largest_) {
      const Precision precision = problem_->request.precision;
      const bool is_linear = problem_->request.activation == Activation::kLinear;
      const std::vector<std::byte> sums = is_linear ? outputs : linear_outputs(pool);
      largest_ = 0.0;
      for (std::size_t i = 0; i < sums.size() / value_size(precision); ++i) {
        largest_ = std::max(*largest_, std::abs(double{value_at(sums, precision, i)}));
      }
    }
    return *largest_;
  }

  std::vector<std::byte> outputs;
  mutable Kernels compared;

 private:
  std::vector<std::byte> linear_outputs(mpe::ThreadPool& pool) const {
    Problem linear = *problem_;
    linear.request.activation = Activation::kLinear;
    return run(*mpe::make_reference_convolution(linear.request), linear, pool);
  }

  const Problem* problem_;
  mutable std::optional<double> largest_;
};

struct Tally {
  int compared = 0;
  int own_kernels = 0;
  std::map<std::string, double> worst;  // error by instruction set and algorithm
};

void compare(const Problem& problem, std::string_view isa, std::string_view algorithm,
             const Expected& expected, mpe::ThreadPool& pool, bool small_scratch, Tally& tally) {
  ConvolutionChoice choice;
  choice.isa = isa;
  choice.algorithm = algorithm;
  // Little of it, or as little as can be.
  choice.small_scratch = small_scratch && tally.compared % 2 == 0;
  if (small_scratch && !choice.small_scratch) choice.scratch_bytes = 0;
  choice.threads = pool.threads();
  const auto convolution = mpe::make_convolution(problem.request, choice);
  ++tally.compared;
  if (convolution->algorithm() != "reference") ++tally.own_kernels;
  if (!expected.compared.is_new(*convolution, choice, pool.threads())) return;
  const auto actual = run(*convolution, problem, pool);
  const std::string where = std::string(isa) + " (" + std::string(convolution->isa()) + " " +
                            std::string(convolution->algorithm()) + "), " +
                            std::to_string(pool.threads()) + " threads: " + described(problem);
  if (problem.request.precision == Precision::kInt8) {
    if (actual != expected.outputs) check::fail(__FILE__, __LINE__, "other bits: " + where);
    return;
  }
  // Sums of halves are as wrong as the largest ones make them, whatever an activation leaves of
  // those.
  const bool halves = problem.request.precision == Precision::kFp16;
  const bool winograd = convolution->algorithm().starts_with("winograd");
  const double allowed =
      tolerance(problem.request.precision, convolution->isa(), convolution->algorithm());
  const auto error_of = [&](double least) {
    return relative_error(actual, expected.outputs, problem.request.precision, least);
  };
  double error = error_of(halves && winograd ? expected.largest_sum(pool) : 1e-6);
  if (halves && !winograd && !(error <= allowed)) error = error_of(expected.largest_sum(pool));
  double& worst =
      tally.worst[std::string(convolution->isa()) + " " + std::string(convolution->algorithm())];
  worst = std::max(worst, error);
  if (!(error <= allowed)) {
    check::fail(__FILE__, __LINE__, "error " + std::to_string(error) + ": " + where);
  }
}

// Each technique on one of the sets, in turn.
void compare_techniques(const Problem& problem, int turn, const Expected& expected,
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
    const Expected expected(problem, pools[0]);
    mpe::ThreadPool& pool = pools[i % 3];
    if (i % 4 == 0) compare_techniques(problem, i / 4, expected, pool, tally);
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      compare(problem, set.name, "", expected, pool, random.chance(30), tally);
      compare(problem, set.name, "gemm", expected, pool, random.chance(30), tally);
      if (precision == Precision::kInt8) {
        compare(problem, set.name, "interleaved", expected, pool, random.chance(30), tally);
      }
      if (form != Form::kThree && form != Form::kImage && form != Form::kStridedThree &&
          form != Form::kDeep) {
        continue;
      }
      for (const char* algorithm : {"winograd2", "winograd2-on-the-fly", "winograd4",
                                    "winograd4-on-the-fly", "winograd5", "winograd5-on-the-fly"}) {
        compare(problem, set.name, algorithm, expected, pool, random.chance(30), tally);
      }
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
  compare_everywhere(Form::kSquareDepthwise, Precision::kFp32, 120, 18);
}
TEST(square_depthwise_fp16) {
  compare_everywhere(Form::kSquareDepthwise, Precision::kFp16, 120, 19);
}
TEST(square_depthwise_int8) {
  compare_everywhere(Form::kSquareDepthwise, Precision::kInt8, 120, 47);
}
TEST(connected_fp32) { compare_everywhere(Form::kConnected, Precision::kFp32, 60, 10); }
TEST(connected_fp16) { compare_everywhere(Form::kConnected, Precision::kFp16, 60, 11); }
TEST(connected_int8) { compare_everywhere(Form::kConnected, Precision::kInt8, 80, 12); }
TEST(deep_fp32) { compare_everywhere(Form::kDeep, Precision::kFp32, 6, 13); }
TEST(deep_fp16) { compare_everywhere(Form::kDeep, Precision::kFp16, 6, 14); }
TEST(deep_int8) { compare_everywhere(Form::kDeep, Precision::kInt8, 24, 15); }

TEST(three_by_three_fp32) { compare_everywhere(Form::kThree, Precision::kFp32, 60, 19); }
TEST(strided_winograd_fp32) { compare_everywhere(Form::kStridedThree, Precision::kFp32, 60, 41); }
TEST(strided_winograd_fp16) { compare_everywhere(Form::kStridedThree, Precision::kFp16, 60, 42); }
TEST(three_by_three_fp16) { compare_everywhere(Form::kThree, Precision::kFp16, 40, 20); }
TEST(images_fp32) { compare_everywhere(Form::kImage, Precision::kFp32, 16, 43); }
TEST(images_fp16) { compare_everywhere(Form::kImage, Precision::kFp16, 16, 44); }
TEST(images_int8) { compare_everywhere(Form::kImage, Precision::kInt8, 16, 45); }
TEST(three_by_three_int8) { compare_everywhere(Form::kThree, Precision::kInt8, 40, 21); }

TEST(kernels_that_reach_far_fp32) { compare_everywhere(Form::kFar, Precision::kFp32, 40, 27); }
TEST(kernels_that_reach_far_fp16) { compare_everywhere(Form::kFar, Precision::kFp16, 30, 28); }
TEST(kernels_that_reach_far_int8) { compare_everywhere(Form::kFar, Precision::kInt8, 50, 29); }

TEST(copies_of_padded_rows_stay_in_proportion_to_the_input) {
  Random random(30);
  for (const Precision precision : {Precision::kFp32, Precision::kFp16, Precision::kInt8}) {
    for (const auto& [size, dilation, stride] :
         {std::array{65, 1024, 1}, std::array{47, 1024, 1}, std::array{3, 60'000, 1},
          std::array{1, 1, 1024}, std::array{255, 1024, 1024}}) {
      for (const int groups : {1, 2}) {
        Problem problem;
        make_problem(random, problem, Form::kPointwise, precision);
        ConvolutionShape& shape = problem.request.shape;
        shape.in = {2, 8, 8};
        shape.out.channels = 2;
        shape.groups = groups;
        shape.kernel_y = shape.kernel_x = size;
        shape.dilation_y = shape.dilation_x = dilation;
        shape.stride_y = shape.stride_x = stride;
        shape.padding_y = shape.padding_x = size / 2 * dilation;
        CHECK(set_output(shape));
        problem.weights.assign(static_cast<std::size_t>(2 * shape.depth()), 0.01F);
        problem.bias.assign(2, 0.5F);
        problem.request.weights = problem.weights;
        problem.request.bias = problem.bias;
        if (problem.output_quantization.per_channel()) {
          problem.output_quantization = random_quantization(random, 1, 0.05F);
        }
        fill_input(random, problem);
        mpe::ThreadPool pool(2);
        const Expected expected(problem, pool);
        Tally tally;
        for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
          if (!set.supported) continue;
          for (const std::string_view algorithm : {"", "depthwise", "interleaved", "tiled"}) {
            compare(problem, set.name, algorithm, expected, pool, false, tally);
            ConvolutionChoice choice;
            choice.isa = set.name;
            choice.algorithm = algorithm;
            CHECK(mpe::make_convolution(problem.request, choice)->scratch_bytes(2) < 64U << 20U);
          }
        }
      }
    }
  }
}

TEST(few_channels_fp32) { compare_everywhere(Form::kFewChannels, Precision::kFp32, 40, 23); }
TEST(few_channels_fp16) { compare_everywhere(Form::kFewChannels, Precision::kFp16, 30, 24); }

// Compares convolutions that read floats with the same ones of halves. The number compared.
int compare_readers(Form form, std::string_view algorithm) {
  Random random(48);
  mpe::ThreadPool pools[] = {mpe::ThreadPool(1), mpe::ThreadPool(3)};
  int compared = 0;
  for (int i = 0; i < 40; ++i) {
    Problem halves;
    make_problem(random, halves, form, Precision::kFp16);
    Problem floats = halves;
    floats.request.weights = floats.weights;
    floats.request.bias = floats.bias;
    floats.request.may_read_floats = true;
    const std::size_t count = halves.input.size() / sizeof(mpe::Half);
    floats.input.resize(count * sizeof(float));
    const float largest = random.chance(10) ? 3e4F : 1.0F;  // sums may exceed a half's range
    for (std::size_t k = 0; k < count; ++k) {
      // Some become subnormal halves.
      const float value = random.real(-largest, largest) * (random.chance(10) ? 1e-6F : 1.0F);
      const mpe::Half half = mpe::half_from_float(value);
      std::memcpy(&floats.input[k * sizeof(value)], &value, sizeof(value));
      std::memcpy(&halves.input[k * sizeof(half)], &half, sizeof(half));
    }
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      mpe::ThreadPool& pool = pools[i % 2];
      ConvolutionChoice choice;
      choice.isa = set.name;
      choice.algorithm = algorithm;
      choice.threads = pool.threads();
      const auto reading = mpe::make_convolution(floats.request, choice);
      if (!reading->reads_floats()) continue;
      const auto plain = mpe::make_convolution(halves.request, choice);
      CHECK(!plain->reads_floats());
      CHECK(run(*reading, floats, pool) == run(*plain, halves, pool));
      ++compared;
    }
  }
  return compared;
}

TEST(floats_are_read_as_the_halves_nearest_to_them) {
  bool has_vectors = false;
  bool has_half_arithmetic = false;
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    has_vectors |= set.supported;
    has_half_arithmetic |= set.supported && set.name == "neon_fp16";
  }
  // Others compute products of fp16 in float, and need the input converted.
  const int by_products = compare_readers(Form::kFewChannels, "gemm");
  CHECK(has_half_arithmetic ? by_products > 20 : by_products == 0);
  const int by_winograd = compare_readers(Form::kImage, "winograd4");
  CHECK(has_vectors ? by_winograd > 20 : by_winograd == 0);
}

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
    const Form forms[] = {Form::kThree,     Form::kThree, Form::kGeneral,
                          Form::kPointwise, Form::kDeep,  Form::kImage};
    make_problem(random, problem, forms[i % 6], Precision::kInt8);
    mpe::Shape& out = problem.request.shape.out;
    if (out.height < 2 || out.width < 2 || problem.request.shape.groups > 1) continue;
    out.height -= out.height % 2;
    out.width -= out.width % 2;
    const bool keeps_order = problem.request.activation == Activation::kLinear ||
                             problem.request.activation == Activation::kLeaky ||
                             problem.request.activation == Activation::kRelu ||
                             problem.request.activation == Activation::kRelu6;
    std::vector<std::byte> wanted;
    if (keeps_order) {
      const auto whole = run(*mpe::make_reference_convolution(problem.request), problem, pools[0]);
      wanted = problem.request.output_precision == Precision::kInt8
                   ? pooled<std::int8_t>(whole, out)
                   : pooled<float>(whole, out);
    }
    const Expected expected(problem, wanted);
    problem.request.may_pool = true;
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      for (const char* algorithm : {"", "interleaved", "winograd4", "winograd4-on-the-fly"}) {
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

// Whatever the activation.
TEST(outputs_of_winograd_are_pooled_as_they_would_be_by_themselves) {
  Random random(25);
  mpe::ThreadPool pools[] = {mpe::ThreadPool(1), mpe::ThreadPool(2), mpe::ThreadPool(3)};
  int compared = 0;
  for (int i = 0; i < 100; ++i) {
    Problem problem;
    const Precision precision = i % 2 == 0 ? Precision::kFp32 : Precision::kFp16;
    const Form forms[] = {Form::kStridedThree, Form::kThree, Form::kThree, Form::kImage};
    const bool strided = i % 8 < 2;
    make_problem(random, problem, forms[i % 8 / 2], precision);
    mpe::Shape& out = problem.request.shape.out;
    if (out.height < 2 || out.width < 2) continue;
    out.height -= out.height % 2;
    out.width -= out.width % 2;
    mpe::ThreadPool& pool = pools[i % 3];
    Kernels kernels;
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      for (const std::string_view algorithm : {"winograd2", "winograd4", "winograd4-on-the-fly"}) {
        if (strided && algorithm != "winograd2") continue;
        const ConvolutionChoice choice{.isa = set.name, .algorithm = algorithm};
        problem.request.may_pool = false;
        const auto separate = mpe::make_convolution(problem.request, choice);
        if (!kernels.is_new(*separate, choice, pool.threads())) continue;
        const auto whole = run(*separate, problem, pool);
        const std::vector<std::byte> expected =
            precision == Precision::kFp32 ? pooled<float>(whole, out) : pooled<Half>(whole, out);
        problem.request.may_pool = true;
        const auto convolution = mpe::make_convolution(problem.request, choice);
        CHECK(convolution->pools());
        const auto actual = run(*convolution, problem, pool);
        CHECK_EQUAL(actual.size(), expected.size());
        CHECK_EQUAL(relative_error(actual, expected, precision), 0.0);
        ++compared;
      }
    }
  }
  CHECK(compared > 100);
}

// Tiles of five outputs do not hold whole squares of 2x2: a layer of its own pools.
TEST(outputs_of_odd_tiles_are_not_pooled) {
  Random random(26);
  mpe::ThreadPool pool(1);
  int compared = 0;
  for (int i = 0; i < 8; ++i) {
    Problem problem;
    make_problem(random, problem, Form::kThree, Precision::kFp32);
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      const ConvolutionChoice choice{.isa = set.name, .algorithm = "winograd5"};
      const auto plain = mpe::make_convolution(problem.request, choice);
      problem.request.may_pool = true;
      const auto asked = mpe::make_convolution(problem.request, choice);
      problem.request.may_pool = false;
      if (asked->algorithm() != "winograd5") continue;
      CHECK(!asked->pools());
      CHECK(run(*asked, problem, pool) == run(*plain, problem, pool));
      ++compared;
    }
  }
#if defined(__aarch64__)
  CHECK(compared > 0);
#else
  CHECK_EQUAL(compared, 0);
#endif
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

// One product by 1, so that the sums are the inputs: the activation's error alone. In half
// arithmetic it is at most 3.5 roundings, and 1e-6 where the result is next to nothing.
void check_activation_of_halves(Activation activation, double (*exact)(double)) {
  mpe::ThreadPool pool(1);
  // Whole tiles of output channels, and parts of them.
  for (const int channels : {2, 4, 8, 9}) {
    Problem problem;
    ConvolutionRequest& request = problem.request;
    request.shape.in = {1, 64, 65};
    request.shape.out = {channels, 64, 65};
    request.precision = request.output_precision = Precision::kFp16;
    request.activation = activation;
    problem.weights.assign(static_cast<std::size_t>(channels), 1.0F);
    problem.bias.assign(static_cast<std::size_t>(channels), 0.0F);
    request.weights = problem.weights;
    request.bias = problem.bias;
    std::vector<double> expected;
    for (int i = 0; i < 64 * 65; ++i) {
      const mpe::Half half = mpe::half_from_float(static_cast<float>(i - 2080) / 100.0F);
      const auto* bytes = reinterpret_cast<const std::byte*>(&half);
      problem.input.insert(problem.input.end(), bytes, bytes + sizeof(half));
      expected.push_back(exact(static_cast<double>(mpe::half_to_float(half))));
    }
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported) continue;
      const auto convolution =
          mpe::make_convolution(request, {.isa = set.name, .algorithm = "gemm"});
      const auto actual = run(*convolution, problem, pool);
      for (std::size_t i = 0; i < static_cast<std::size_t>(channels) * expected.size(); ++i) {
        const double want = expected[i % expected.size()];
        const double error = std::abs(value_at(actual, Precision::kFp16, i) - want);
        CHECK(error <= 3.5 * 0x1p-11 * std::abs(want) + 1e-6);
      }
    }
  }
}

TEST(swish_of_halves_is_off_by_few_roundings) {
  check_activation_of_halves(Activation::kSwish, [](double x) { return x / (1 + std::exp(-x)); });
}

TEST(logistic_of_halves_is_off_by_few_roundings) {
  check_activation_of_halves(Activation::kLogistic,
                             [](double x) { return 1 / (1 + std::exp(-x)); });
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

}  // namespace
