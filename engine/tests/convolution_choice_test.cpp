// Which kernel a convolution gets, and which of them a machine has.
#include <algorithm>
#include <span>
#include <vector>

#include "check.h"
#include "convolution_problem.h"
#include "kernels/cpu.h"
#include "kernels/kernel_sets.h"

namespace {

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

// Filters in memory that count how often they are asked for.
class CountedFilters final : public mpe::FilterSource {
 public:
  CountedFilters(std::span<const float> all, int depth)
      : all_(all), depth_(static_cast<std::size_t>(depth)) {}
  std::span<const float> filter(int channel) override {
    ++reads;
    return all_.subspan(static_cast<std::size_t>(channel) * depth_, depth_);
  }
  int reads = 0;

 private:
  std::span<const float> all_;
  std::size_t depth_;
};

TEST(filters_are_not_quantised_for_an_algorithm_that_a_set_lacks) {
  Random random(31);
  Problem problem;
  make_problem(random, problem, Form::kThree, Precision::kInt8);
  const auto reads_of = [&](std::string_view isa, std::string_view algorithm) {
    CountedFilters filters(problem.weights, problem.request.shape.depth());
    ConvolutionRequest request = problem.request;
    request.weights = filters;
    mpe::make_convolution(request, {.isa = isa, .algorithm = algorithm});
    return filters.reads;
  };
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    const bool has_winograd = std::ranges::any_of(set.kernels, [](const mpe::KernelUse& use) {
      return use.precision == Precision::kInt8 && use.algorithm == "winograd4";
    });
    if (!set.supported || has_winograd) continue;
    for (const std::string_view wish : {"", "winograd4", "winograd4-on-the-fly"}) {
      CHECK_EQUAL(reads_of(set.name, wish), reads_of(set.name, "gemm"));
    }
  }
}

// A layer of 3x3 with as many channels before as after it.
class ThreeByThree {
 public:
  ThreeByThree(Precision precision, int channels, int size)
      : weights_(static_cast<std::size_t>(channels) * static_cast<std::size_t>(channels) * 9) {
    Random random(32);
    make_problem(random, problem_, Form::kThree, precision);
    for (float& weight : weights_) weight = random.real(-1.0F, 1.0F);
    request = problem_.request;
    request.shape = {};
    request.shape.in = request.shape.out = {channels, size, size};
    request.shape.kernel_y = request.shape.kernel_x = 3;
    request.shape.padding_y = request.shape.padding_x = 1;
    request.weights = weights_;
    request.bias = std::span(weights_).first(static_cast<std::size_t>(channels));
    request.input = nullptr;
    request.output = nullptr;
    request.output_precision = Precision::kFp32;
  }
  ConvolutionRequest request;

 private:
  Problem problem_;
  std::vector<float> weights_;
};

// To transform a wide vector of weights takes less time than to read it.
TEST(wide_vectors_transform_weights_on_the_fly_on_one_thread) {
  const ThreeByThree layer(Precision::kFp32, 128, 12);
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    if (!set.supported || set.name == "reference") continue;
    ConvolutionChoice choice{.isa = set.name, .algorithm = {}};
    choice.scratch_bytes = 4U << 20U;
    const bool wide = set.name.starts_with("avx");
    const bool on_the_fly =
        mpe::make_convolution(layer.request, choice)->algorithm().ends_with("-on-the-fly");
    CHECK_EQUAL(on_the_fly, wide);
  }
}

// With stride 2, several threads do so on arm64, whose blocks of output channels are whole vectors.
TEST(strided_winograd_transforms_on_the_fly_on_several_threads) {
  ThreeByThree layer(Precision::kFp32, 128, 80);
  ConvolutionRequest& request = layer.request;
  request.shape.in.channels = 64;
  request.shape.stride_y = request.shape.stride_x = 2;
  request.shape.out.height = request.shape.out.width = 40;
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    if (!set.supported || set.name == "reference") continue;
    ConvolutionChoice choice{.isa = set.name, .algorithm = "winograd2-on-the-fly"};
    choice.scratch_bytes = 4U << 20U;
    const bool offered = set.name.starts_with("neon");
    CHECK_EQUAL(mpe::make_convolution(request, choice)->algorithm(),
                offered ? "winograd2-on-the-fly" : "gemm");
    if (!offered) continue;
    choice.algorithm = {};
    choice.threads = 4;
    const auto shared = mpe::make_convolution(request, choice);
    choice.threads = 1;
    const auto alone = mpe::make_convolution(request, choice);
    CHECK_EQUAL(alone->algorithm(), "winograd2");
    const bool slow = mpe::cpu_caches().shared_byte_price > 0.2;
    CHECK_EQUAL(shared->algorithm(), slow ? "winograd2-on-the-fly" : "winograd2");
    if (slow) CHECK(shared->weight_bytes() * 5 < alone->weight_bytes() * 2);
  }
  request.shape.stride_y = request.shape.stride_x = 1;
  request.shape.out.height = request.shape.out.width = 80;
  const ConvolutionChoice choice{.isa = {}, .algorithm = "winograd2-on-the-fly"};
  CHECK_EQUAL(mpe::make_convolution(request, choice)->algorithm(), "gemm");
}

// Several threads share the memory, which brings transformed weights slowly on most boards.
TEST(int8_winograd_transforms_on_the_fly_on_several_threads) {
  const ThreeByThree layer(Precision::kInt8, 256, 13);
  const ConvolutionRequest& request = layer.request;
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    const auto made = [&](int threads) {
      ConvolutionChoice choice{.isa = set.name, .algorithm = {}};
      choice.threads = threads;
      choice.scratch_bytes = 4U << 20U;
      return mpe::make_convolution(request, choice);
    };
    const bool has_winograd = std::ranges::any_of(set.kernels, [&](const mpe::KernelUse& use) {
      return use.isa == set.name && use.precision == Precision::kInt8 &&
             use.algorithm == "winograd4";
    });
    if (!set.supported || !has_winograd) continue;
    const bool slow = mpe::cpu_caches().shared_byte_price > 0.2;  // a Jetson Nano's is not
    CHECK_EQUAL(made(4)->algorithm(), slow ? "winograd4-on-the-fly" : "winograd4");
    if (set.name == "avx2") {  // transforms two channels at once: always
      CHECK_EQUAL(made(1)->algorithm(), "winograd4-on-the-fly");
      continue;
    }
    CHECK_EQUAL(made(1)->algorithm(), "winograd4");
    if (slow) CHECK(made(4)->weight_bytes() * 7 < made(1)->weight_bytes());
  }
}

// With little memory, blocks are as large as the scratch allows, and weights stay as they are.
TEST(int8_winograd_takes_no_more_scratch_than_is_allowed) {
  const ThreeByThree layer(Precision::kInt8, 128, 26);
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    const auto made = [&](std::size_t scratch_bytes, int threads) {
      ConvolutionChoice choice{.isa = set.name, .algorithm = {}};
      choice.small_scratch = true;
      choice.scratch_bytes = scratch_bytes;
      choice.threads = threads;
      return mpe::make_convolution(layer.request, choice);
    };
    const bool has_winograd = std::ranges::any_of(set.kernels, [&](const mpe::KernelUse& use) {
      return use.isa == set.name && use.precision == Precision::kInt8 &&
             use.algorithm == "winograd4";
    });
    if (!set.supported || !has_winograd) continue;
    const std::size_t plain = made(1, 1)->weight_bytes();
    CHECK(!made(1, 1)->algorithm().starts_with("winograd"));
    for (const int threads : {1, 3}) {
      for (const std::size_t allowed : {512U << 10U, 700U << 10U, 4U << 20U}) {
        const auto convolution = made(allowed, threads);
        CHECK_EQUAL(convolution->algorithm(), "winograd4-on-the-fly");
        CHECK(convolution->scratch_bytes(threads) <= allowed);
        CHECK(convolution->weight_bytes() < plain + plain / 8);
      }
    }
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
  wide.shape.padding_y = wide.shape.padding_x = 1;
  const std::vector<float> weights(128 * 128 * 9);
  wide.weights = weights;
  wide.bias = std::span(weights).first(128);
  const auto choose = [&](std::string_view technique) {
    return mpe::make_convolution(wide, {.isa = "", .algorithm = technique});
  };
  CHECK_EQUAL(choose("in-place")->algorithm(), "im2col");
  CHECK(choose("winograd")->algorithm().starts_with("winograd"));
}

// Copies of rows under large strides hold few values that a tap reads.
TEST(depthwise_gives_way_to_gemm_where_it_copies_far_more_than_it_reads) {
  ConvolutionRequest request;
  request.shape.in = {8, 96, 96};
  request.shape.groups = 8;
  request.shape.kernel_y = request.shape.kernel_x = 3;
  const std::vector<float> weights(8 * 9);
  request.weights = weights;
  request.bias = std::span(weights).first(8);
  const auto algorithm_of = [&](int stride, int dilation, mpe::Shape out) {
    request.shape.stride_y = request.shape.stride_x = stride;
    request.shape.dilation_y = request.shape.dilation_x = dilation;
    request.shape.padding_y = request.shape.padding_x = dilation;
    request.shape.out = out;
    return mpe::make_convolution(request, {.isa = "", .algorithm = ""})->algorithm();
  };
  CHECK_EQUAL(algorithm_of(1, 1, {8, 96, 96}), "depthwise");
  CHECK_EQUAL(algorithm_of(2, 1, {8, 48, 48}), "depthwise");
  CHECK_EQUAL(algorithm_of(1, 36, {8, 96, 96}), "depthwise");
  CHECK_EQUAL(algorithm_of(32, 1, {8, 3, 3}), "gemm");
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
