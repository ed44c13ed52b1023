// Direct convolutions in exactly the scratch memory that they ask for, so that AddressSanitizer
// reports accesses beyond it.
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "check.h"
#include "convolution_problem.h"
#include "kernels/classical/technique.h"
#include "kernels/kernel_sets.h"

namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
};

std::vector<std::byte> run_exactly(const mpe::Convolution& convolution, const Problem& problem,
                                   mpe::ThreadPool& pool) {
  const std::size_t size = convolution.scratch_bytes(pool.threads());
  const std::unique_ptr<std::byte[], Free> scratch(new (kAlignment) std::byte[size]);
  const auto outputs = static_cast<std::size_t>(problem.request.shape.out.elements());
  std::vector<std::byte> output(outputs * value_size(problem.request.output_precision));
  mpe::ConvolutionCall call;
  call.input = problem.input.data();
  call.output = output.data();
  call.scratch = scratch.get();
  convolution.run(call, pool);
  return output;
}

}  // namespace

// With padding the first vector begins at the second column, and the last one ends beyond the row.
TEST(vectors_of_sums_stay_within_the_scratch) {
  for (const int width : {15, 17, 24, 31, 33}) {
    Random random(static_cast<unsigned>(width));
    Problem problem;
    ConvolutionRequest& request = problem.request;
    request.shape.in = {22, width, width};
    request.shape.out = {2, (width + 1) / 2, (width + 1) / 2};
    request.shape.kernel_y = request.shape.kernel_x = 3;
    request.shape.stride_y = request.shape.stride_x = 2;
    request.shape.padding_y = request.shape.padding_x = 1;
    for (int i = 0; i < 2 * 22 * 9; ++i) problem.weights.push_back(random.real(-1.0F, 1.0F));
    problem.bias.assign(2, 0.0F);
    request.weights = problem.weights;
    request.bias = problem.bias;
    for (std::int64_t i = 0; i < request.shape.in.elements(); ++i) {
      const float value = random.real(-1.0F, 1.0F);
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      problem.input.insert(problem.input.end(), bytes, bytes + sizeof value);
    }
    for (const int threads : {1, 3}) {
      mpe::ThreadPool pool(threads);
      const auto expected = run_exactly(*mpe::make_reference_convolution(request), problem, pool);
      for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
        if (!set.supported) continue;
        for (const std::string_view technique : mpe::kTechniques) {
          const auto convolution =
              mpe::make_convolution(request, {.isa = set.name, .algorithm = technique});
          const auto actual = run_exactly(*convolution, problem, pool);
          CHECK(relative_error(actual, expected, Precision::kFp32, 1e-6) < 1e-5);
        }
      }
    }
  }
}
