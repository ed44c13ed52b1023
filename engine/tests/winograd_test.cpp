// Winograd's sums where they are formed in half: what could overflow does not, and small values
// lose nothing by that. Weights that are transformed on the fly.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "convolution_problem.h"
#include "kernels/kernel_sets.h"

namespace {

// A 3x3 convolution of a map that is 21 wide, to 11 channels.
void ask_for_halves(ConvolutionRequest& request, int depth, int height, int stride) {
  request.shape.in = {depth, height, 21};
  request.shape.out.channels = 11;
  request.shape.kernel_y = request.shape.kernel_x = 3;
  request.shape.padding_y = request.shape.padding_x = 1;
  request.shape.stride_y = request.shape.stride_x = stride;
  CHECK(set_output(request.shape));
  request.precision = request.output_precision = Precision::kFp16;
}

void add_half(std::vector<std::byte>& bytes, float value) {
  const mpe::Half half = mpe::half_from_float(value);
  const auto* first = reinterpret_cast<const std::byte*>(&half);
  bytes.insert(bytes.end(), first, first + sizeof(half));
}

bool offers(const mpe::KernelSetInfo& set, std::string_view algorithm, Precision precision) {
  return std::ranges::any_of(set.kernels, [&](const mpe::KernelUse& use) {
    return use.algorithm == algorithm && use.precision == precision;
  });
}

// For halves.
std::vector<const char*> algorithms_for(const mpe::KernelSetInfo& set, int stride) {
  if (stride == 1) return {"winograd2", "winograd4", "winograd4-on-the-fly"};
  if (!offers(set, "winograd2-on-the-fly", Precision::kFp16)) return {"winograd2"};
  return {"winograd2", "winograd2-on-the-fly"};
}

}  // namespace

// Inputs as large as Winograd's sums of halves are made for, by weights of which so many have the
// same sign that sums over a part of the channels are far beyond a half's range, though no output
// is: what overflows on the way would make it infinite or no number at all.
TEST(winograds_sums_of_halves_do_not_overflow) {
  Random random(32);
  mpe::ThreadPool pool(2);
  constexpr float kLargest = 256.0F;
  for (const int depth : {8, 128, 600}) {
    for (int turn = 0; turn < 8; ++turn) {
      const int pattern = turn % 4;
      const int stride = 1 + turn / 4;
      Problem problem;
      ConvolutionRequest& request = problem.request;
      ask_for_halves(request, depth, 9, stride);
      const auto terms = static_cast<std::size_t>(request.shape.depth());
      // Channels cancel: those of the second half of them repeat the first half's with other signs.
      for (std::size_t i = 0; i < 11 * terms; ++i) {
        const bool second = i % terms >= terms / 2;
        const float weight = pattern < 2 ? 0.5F : random.real(-4.0F, 4.0F);
        problem.weights.push_back(second ? -problem.weights[i - terms / 2] : weight);
      }
      problem.bias.assign(11, 1.0F);
      request.weights = problem.weights;
      request.bias = problem.bias;
      const auto half_the_map = static_cast<std::size_t>(request.shape.in.elements()) / 2;
      for (std::size_t i = 0; i < half_the_map; ++i) {
        // Of one sign, of signs that turn from pixel to pixel, or of any.
        const bool negative = pattern % 2 == 1 && (pattern == 1 ? i % 2 == 1 : random.chance(50));
        add_half(problem.input, negative ? -kLargest : kLargest);
      }
      const std::vector<std::byte> first = problem.input;
      problem.input.insert(problem.input.end(), first.begin(), first.end());
      const auto expected = run(*mpe::make_reference_convolution(request), problem, pool);
      double magnitudes = 0.0;
      for (std::size_t i = 0; i < terms; ++i) {
        magnitudes += std::abs(double{problem.weights[i]}) * double{kLargest};
      }
      for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
        if (!set.supported || set.name == "reference") continue;
        for (const char* algorithm : algorithms_for(set, stride)) {
          const auto convolution =
              mpe::make_convolution(request, {.isa = set.name, .algorithm = algorithm});
          CHECK_EQUAL(convolution->algorithm(), algorithm);
          const auto actual = run(*convolution, problem, pool);
          const double error = relative_error(actual, expected, Precision::kFp16, magnitudes);
          if (!(error < 1e-2)) {
            check::fail(__FILE__, __LINE__,
                        "error " + std::to_string(error) + ": " + std::string(set.name) + " " +
                            algorithm + ", pattern " + std::to_string(pattern) + ", " +
                            described(problem));
          }
        }
      }
    }
  }
}

// Inputs as large as halves can be, by weights so small that every sum of magnitudes fits into a
// half: the transforms of the input multiply by up to 32, and its sums are made for 256.
TEST(winograds_halves_do_not_overflow_for_any_input_whose_outputs_are_finite) {
  Random random(34);
  mpe::ThreadPool pools[] = {mpe::ThreadPool(1), mpe::ThreadPool(3)};
  for (const int depth : {1, 3, 24}) {
    for (const float largest : {4000.0F, 65504.0F}) {
      for (int turn = 0; turn < 8; ++turn) {
        const int pattern = turn % 4;
        const int stride = 1 + turn / 4;
        Problem problem;
        ConvolutionRequest& request = problem.request;
        ask_for_halves(request, depth, 10, stride);
        request.activation = pattern == 2 ? Activation::kRelu : Activation::kSwish;
        const auto terms = static_cast<std::size_t>(request.shape.depth());
        const float share = 0.9F / static_cast<float>(terms);
        for (std::size_t i = 0; i < 11 * terms; ++i) {
          problem.weights.push_back(pattern == 0 ? share : random.real(-share, share));
        }
        problem.bias.assign(11, 1.0F);
        request.weights = problem.weights;
        request.bias = problem.bias;
        for (std::int64_t i = 0; i < request.shape.in.elements(); ++i) {
          // Of one sign, of signs that turn from pixel to pixel, of any, or in one place alone.
          const bool negative = pattern == 1 ? i % 2 == 1 : pattern == 2 && random.chance(50);
          const bool small = pattern == 3 && i % request.shape.in.plane() != 45;
          add_half(problem.input, small ? random.real(-1.0F, 1.0F) : negative ? -largest : largest);
        }
        const auto expected = run(*mpe::make_reference_convolution(request), problem, pools[0]);
        for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
          if (!set.supported || set.name == "reference") continue;
          for (const char* algorithm : algorithms_for(set, stride)) {
            const auto convolution =
                mpe::make_convolution(request, {.isa = set.name, .algorithm = algorithm});
            CHECK_EQUAL(convolution->algorithm(), algorithm);
            for (mpe::ThreadPool& pool : pools) {
              const auto actual = run(*convolution, problem, pool);
              const double error =
                  relative_error(actual, expected, Precision::kFp16, double{largest});
              if (!(error < 2e-2)) {
                check::fail(__FILE__, __LINE__,
                            "error " + std::to_string(error) + ": " + std::string(set.name) + " " +
                                algorithm + ", inputs of " + std::to_string(largest) +
                                ", pattern " + std::to_string(pattern) + ", " + described(problem));
              }
            }
          }
        }
      }
    }
  }
}

// What overflows is computed twice, which nothing that is in range must cause: not the activations
// either, on the way to outputs that are finite.
TEST(winograds_halves_are_not_taken_for_an_overflow) {
  mpe::ThreadPool pool(1);
  for (const Activation activation : kActivations) {
    for (const auto& [channels, largest] :
         {std::pair{8, 1.0F}, std::pair{8, 256.0F}, std::pair{3, 256.0F}}) {
      Random random(35);
      Problem problem;
      make_problem(random, problem, Form::kThree, Precision::kFp16);
      ConvolutionRequest& request = problem.request;
      request.activation = activation;
      request.shape.in = {channels, 13, 13};
      request.shape.out = {16, 13, 13};
      request.shape.padding_y = request.shape.padding_x = 1;
      problem.weights.clear();
      for (int i = 0; i < 16 * request.shape.depth(); ++i) {
        problem.weights.push_back(random.real(-0.02F, 0.02F));
      }
      problem.bias.assign(16, 0.0F);
      request.weights = problem.weights;
      request.bias = problem.bias;
      problem.input.clear();
      for (std::int64_t i = 0; i < request.shape.in.elements(); ++i) {
        const mpe::Half half = mpe::half_from_float(random.real(-largest, largest));
        const auto* bytes = reinterpret_cast<const std::byte*>(&half);
        problem.input.insert(problem.input.end(), bytes, bytes + sizeof(half));
      }
      for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
        if (!set.supported || !set.name.starts_with("neon_")) continue;
        for (const char* algorithm : algorithms_for(set, 1)) {
          const auto convolution =
              mpe::make_convolution(request, {.isa = set.name, .algorithm = algorithm});
          std::feclearexcept(FE_OVERFLOW);
          run(*convolution, problem, pool);
          if (std::fetestexcept(FE_OVERFLOW) != 0) {
            check::fail(__FILE__, __LINE__,
                        "overflow: " + std::string(set.name) + " " + algorithm + ", inputs up to " +
                            std::to_string(largest) + ", " + described(problem));
          }
        }
      }
    }
  }
}

// Scaled by powers of two, weights and inputs of any ordinary size are as accurate as others.
TEST(winograds_sums_of_halves_are_as_accurate_for_small_values) {
  mpe::ThreadPool pool(1);
  for (const auto& [input_size, weight_size] :
       {std::pair{1.0F, 1.0F}, std::pair{30.0F, 1.0F}, std::pair{1.0F / 64.0F, 1.0F},
        std::pair{1.0F / 16.0F, 1.0F / 16.0F}, std::pair{1.0F, 1.0F / 256.0F},
        std::pair{1.0F / 64.0F, 32.0F}}) {
    Random random(33);
    Problem problem;
    make_problem(random, problem, Form::kThree, Precision::kFp16);
    ConvolutionRequest& request = problem.request;
    request.activation = Activation::kLinear;
    request.shape.in = {300, 13, 13};
    request.shape.out = {20, 13, 13};
    request.shape.padding_y = request.shape.padding_x = 1;
    const float reach = weight_size / std::sqrt(static_cast<float>(request.shape.depth()));
    problem.weights.clear();
    for (int i = 0; i < 20 * request.shape.depth(); ++i) {
      problem.weights.push_back(2.0F * random.real(-reach, reach));
    }
    problem.bias.assign(20, 0.0F);
    request.weights = problem.weights;
    request.bias = problem.bias;
    fill_input(random, problem);
    for (std::size_t i = 0; i < problem.input.size(); i += 2) {
      const float value = value_at(problem.input, Precision::kFp16, i / 2) * input_size;
      const mpe::Half half = mpe::half_from_float(value);
      std::memcpy(&problem.input[i], &half, sizeof half);
    }
    const auto expected = run(*mpe::make_reference_convolution(request), problem, pool);
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      for (const char* algorithm : algorithms_for(set, 1)) {
        const auto convolution =
            mpe::make_convolution(request, {.isa = set.name, .algorithm = algorithm});
        CHECK_EQUAL(convolution->algorithm(), algorithm);
        const auto actual = run(*convolution, problem, pool);
        const double error = relative_error(actual, expected, Precision::kFp16);
        std::printf("%s %s: error %.1e, inputs up to %g, weights of %g\n",
                    std::string(set.name).c_str(), algorithm, error, double{input_size},
                    double{weight_size});
        CHECK(error < 2e-2);
      }
    }
  }
}

// Transformed weights are up to 2.25 times as large as the largest weight. Where they or the
// factors that undo their scale would be infinite as halves, the product takes over.
TEST(transformed_weights_beyond_half_are_left_to_the_product) {
  mpe::ThreadPool pool(1);
  for (const float weight : {8000.0F, 20000.0F, 65504.0F}) {
    Problem problem;
    ConvolutionRequest& request = problem.request;
    request.shape.in = request.shape.out = {1, 8, 8};
    request.shape.kernel_y = request.shape.kernel_x = 3;
    request.shape.padding_y = request.shape.padding_x = 1;
    request.precision = request.output_precision = Precision::kFp16;
    problem.weights.assign(9, weight);
    problem.bias.assign(1, 0.0F);
    request.weights = problem.weights;
    request.bias = problem.bias;
    for (int i = 0; i < 64; ++i) {
      const mpe::Half half = mpe::half_from_float(0.0625F);
      const auto* bytes = reinterpret_cast<const std::byte*>(&half);
      problem.input.insert(problem.input.end(), bytes, bytes + sizeof(half));
    }
    const auto expected = run(*mpe::make_reference_convolution(request), problem, pool);
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      for (const char* algorithm : algorithms_for(set, 1)) {
        const auto convolution =
            mpe::make_convolution(request, {.isa = set.name, .algorithm = algorithm});
        const auto actual = run(*convolution, problem, pool);
        CHECK(relative_error(actual, expected, Precision::kFp16, 1e-9) < 2e-2);
        if (weight < 10000.0F) CHECK_EQUAL(convolution->algorithm(), algorithm);
      }
    }
  }
}

// So that a network's outputs do not depend on the number of threads, by which this is chosen.
TEST(weights_transformed_on_the_fly_give_the_bits_of_stored_ones) {
  Random random(41);
  int compared = 0;
  constexpr Form kForms[] = {Form::kThree, Form::kDeep, Form::kStridedThree};
  for (int i = 0; i < 36; ++i) {
    Problem problem;
    make_problem(random, problem, kForms[i % 3], Precision::kFp32);
    const bool strided = problem.request.shape.stride_x == 2;
    problem.request.may_pool = false;
    mpe::ThreadPool pool(1 + i % 4);
    for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
      if (!set.supported || set.name == "reference") continue;
      for (const std::string algorithm : {"winograd2", "winograd4", "winograd5"}) {
        if (strided != (algorithm == "winograd2")) continue;
        if (!offers(set, algorithm + "-on-the-fly", Precision::kFp32)) continue;
        ConvolutionChoice choice{.isa = set.name, .algorithm = algorithm};
        choice.threads = pool.threads();
        const auto stored = mpe::make_convolution(problem.request, choice);
        const std::string name = algorithm + "-on-the-fly";
        choice.algorithm = name;
        if (i / 3 % 3 == 0) choice.scratch_bytes = 0;  // the smallest blocks
        const auto on_the_fly = mpe::make_convolution(problem.request, choice);
        if (stored->algorithm() != algorithm) continue;
        CHECK_EQUAL(on_the_fly->algorithm(), name);
        if (run(*on_the_fly, problem, pool) != run(*stored, problem, pool)) {
          check::fail(__FILE__, __LINE__,
                      "other bits: " + std::string(set.name) + ", " + described(problem));
        }
        ++compared;
      }
    }
  }
  CHECK(compared >= 12);
}

// Where little memory is preferred: as little for the weights as any other algorithm takes.
TEST(small_memory_is_spent_on_plain_weights_only) {
  ConvolutionRequest request;
  request.shape.in = request.shape.out = {256, 13, 13};
  request.shape.kernel_y = request.shape.kernel_x = 3;
  request.shape.padding_y = request.shape.padding_x = 1;
  const std::vector<float> weights(256 * 256 * 9, 0.5F);
  request.weights = weights;
  request.bias = std::span(weights).first(256);
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    if (!set.supported || set.name == "reference") continue;
    ConvolutionChoice choice{.isa = set.name, .algorithm = {}, .small_scratch = true};
    choice.scratch_bytes = 4U << 20U;
    const auto roomy = mpe::make_convolution(request, choice);
    const bool larger_tiles = offers(set, "winograd5", Precision::kFp32);
    CHECK_EQUAL(roomy->algorithm(), larger_tiles ? "winograd5-on-the-fly" : "winograd4-on-the-fly");
    CHECK(roomy->scratch_bytes(1) <= choice.scratch_bytes);
    choice.scratch_bytes = 0;
    const auto tight = mpe::make_convolution(request, choice);
    CHECK_EQUAL(tight->algorithm(), "gemm");
    CHECK(roomy->weight_bytes() < tight->weight_bytes() * 11 / 10);
  }
}
