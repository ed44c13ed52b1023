// Chooses the kernels of a convolution: the best set that may be used, then its algorithm; where a
// set has no kernel of its own, the next one down.
#include <algorithm>
#include <span>
#include <string>

#include "error.h"
#include "kernels/classical/direct_convolution.h"
#include "kernels/classical/direct_kernels.h"
#include "kernels/classical/im2col_convolution.h"
#include "kernels/classical/loops.h"
#include "kernels/classical/technique.h"
#include "kernels/convolution.h"
#include "kernels/cpu.h"
#include "kernels/depthwise_convolution.h"
#include "kernels/elementwise.h"
#include "kernels/gemm_convolution.h"
#include "kernels/geometry.h"
#include "kernels/int8_winograd_convolution.h"
#include "kernels/interleaved_convolution.h"
#include "kernels/kernel_set.h"
#include "kernels/kernel_sets.h"
#include "kernels/winograd_convolution.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

constexpr std::string_view kReference = "reference";
constexpr std::string_view kGemm = "gemm";
constexpr std::string_view kGemv = "gemv";
constexpr std::string_view kDepthwise = "depthwise";
constexpr std::string_view kWinograd2 = "winograd2";
constexpr std::string_view kWinograd2OnTheFly = "winograd2-on-the-fly";
constexpr std::string_view kWinograd4 = "winograd4";
constexpr std::string_view kWinograd4OnTheFly = "winograd4-on-the-fly";
constexpr std::string_view kWinograd5 = "winograd5";
constexpr std::string_view kWinograd5OnTheFly = "winograd5-on-the-fly";
constexpr std::string_view kInterleaved = "interleaved";
constexpr std::string_view kAlgorithms[] = {kReference,
                                            kGemm,
                                            kGemv,
                                            kDepthwise,
                                            kWinograd2,
                                            kWinograd4,
                                            kWinograd5,
                                            kWinograd2OnTheFly,
                                            kWinograd4OnTheFly,
                                            kWinograd5OnTheFly,
                                            kInterleaved};

// Best first.
std::span<const KernelSet* const> all_sets() {
#if defined(__aarch64__)
  static const KernelSet* const sets[] = {
      &kNeonDotprodKernels, &kNeonFp16Kernels,
      cpu_features().in_order ? &kNeonInOrderKernels : &kNeonKernels};
#elif defined(__x86_64__)
  static constexpr const KernelSet* sets[] = {&kAvx512VnniKernels, &kAvx2Kernels};
#else
#error "the engine is written for arm64 and x86-64"
#endif
  return sets;
}

bool supported(const KernelSet& set) { return set.supported(cpu_features()); }

std::string supported_names() {
  std::string names;
  for (const KernelSet* set : all_sets()) {
    if (supported(*set)) names += std::string(set->name) + ", ";
  }
  return names + std::string(kReference);
}

// The sets that may be used, best first; none for "reference".
std::span<const KernelSet* const> allowed_sets(std::string_view isa) {
  const auto sets = all_sets();
  if (isa == kReference) return {};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (isa.empty() ? supported(*sets[i]) : isa == sets[i]->name) {
      if (supported(*sets[i])) return sets.subspan(i);
      throw Error("this machine cannot run the instruction set '" + std::string(isa) +
                  "'; it can run: " + supported_names());
    }
  }
  if (isa.empty()) return {};
  throw Error("there is no instruction set '" + std::string(isa) +
              "' for this architecture; this machine can run: " + supported_names());
}

void check_algorithm(std::string_view algorithm) {
  if (algorithm.empty() || std::ranges::count(kAlgorithms, algorithm) > 0) return;
  if (find_technique(algorithm)) {
    if (MPE_ABLATION) return;
    throw Error("this engine was built without the algorithm '" + std::string(algorithm) +
                "', which only the ablation uses; build it with `harness build --with ablation`, "
                "or with -DMPE_ABLATION=ON");
  }
  std::string names;
  for (const std::string_view name : algorithms()) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error("there is no algorithm '" + std::string(algorithm) +
              "'; the algorithms are: " + names);
}

// Winograd's algorithm by the size of its tiles.
struct WinogradNames {
  int tile;
  std::string_view stored;
  std::string_view on_the_fly;
};
constexpr WinogradNames kWinogradNames[] = {{2, kWinograd2, kWinograd2OnTheFly},
                                            {4, kWinograd4, kWinograd4OnTheFly},
                                            {5, kWinograd5, kWinograd5OnTheFly}};

bool is_on_the_fly(std::string_view algorithm) { return algorithm.ends_with("-on-the-fly"); }
// 0: not Winograd's.
int tile_of(std::string_view algorithm) {
  if (algorithm.empty()) return 0;
  for (const WinogradNames& names : kWinogradNames) {
    if (algorithm == names.stored || algorithm == names.on_the_fly) return names.tile;
  }
  return 0;
}
bool is_winograd(std::string_view algorithm) { return tile_of(algorithm) != 0; }
bool offers(const WinogradKernel& kernel, const WinogradForm& form, bool on_the_fly) {
  return kernel.transform_input[form.index] != nullptr &&
         (!on_the_fly || kernel.multiply_on_the_fly[form.index] != nullptr);
}
// For some shape.
bool offers(const WinogradKernel* kernel, std::string_view algorithm) {
  if (kernel == nullptr) return false;
  return std::ranges::any_of(kWinogradForms, [&](const WinogradForm& form) {
    return form.tile == tile_of(algorithm) && offers(*kernel, form, is_on_the_fly(algorithm));
  });
}

// Every output channel reads one input channel, and the rows that the algorithm copies are worth
// it: large strides leave out most of a copy, and large dilations surround small maps with padding.
bool suits_depthwise(const ConvolutionShape& shape) {
  constexpr std::int64_t kMostCopiedPerTap = 16;
  if (shape.groups == 1 || shape.groups != shape.in.channels) return false;
  const std::int64_t taps = std::int64_t{shape.kernel_y} * shape.kernel_x;
  const std::int64_t outputs = std::int64_t{shape.out.height} * shape.out.width;
  const std::int64_t stride_x = shape.stride_x;
  const std::int64_t rows = std::int64_t{shape.out.height - 1} * shape.stride_y + shape.extent_y();
  const std::int64_t columns = (shape.out.width + (shape.extent_x() - 1) / stride_x) * stride_x;
  return padded_rows_fit(shape, 1) && rows * columns <= kMostCopiedPerTap * taps * outputs;
}

// What suits a shape; a wish that cannot be met is passed over.
std::string_view algorithm_for(const ConvolutionShape& shape, std::string_view wish) {
  const bool single_pixel = shape.out.height == 1 && shape.out.width == 1;
  if (wish == kGemm) return kGemm;
  if (wish == kGemv && single_pixel) return kGemv;
  if (wish == kReference) return kReference;
  if (is_winograd(wish) && winograd_form(shape, tile_of(wish)) != nullptr) return wish;
  if (suits_depthwise(shape)) return kDepthwise;
  return single_pixel ? kGemv : kGemm;
}

// The first set with a kernel for the algorithm and precision; null: none.
const KernelSet* find_set(std::span<const KernelSet* const> sets, std::string_view algorithm,
                          Precision precision) {
  const auto index = static_cast<std::size_t>(precision);
  const auto found = std::ranges::find_if(sets, [&](const KernelSet* set) {
    if (algorithm == kDepthwise) return set->depthwise[index] != nullptr;
    if (is_winograd(algorithm)) return offers(set->winograd[index], algorithm);
    if (algorithm == kInterleaved) {
      return precision == Precision::kInt8 && set->interleaved != nullptr;
    }
    const GemmKernel* gemm = set->gemm[index];
    return gemm != nullptr && (algorithm == kGemm || gemm->run_vector != nullptr);
  });
  return found == sets.end() ? nullptr : *found;
}

// The set for int8 by Winograd: the one that would multiply otherwise, unless it is asked for. Null
// where it cannot be, or would not pay.
const KernelSet* int8_winograd_set(std::span<const KernelSet* const> sets,
                                   const ConvolutionRequest& request,
                                   const ConvolutionChoice& choice) {
  const bool asked = choice.algorithm == kWinograd4 || choice.algorithm == kWinograd4OnTheFly;
  if (!asked && !choice.algorithm.empty()) return nullptr;
  if (request.precision != Precision::kInt8) return nullptr;
  const auto index = static_cast<std::size_t>(Precision::kInt8);
  const auto found = std::ranges::find_if(sets, [&](const KernelSet* set) {
    return set->int8_winograd != nullptr || (!asked && set->gemm[index] != nullptr);
  });
  if (found == sets.end() || (*found)->int8_winograd == nullptr) return nullptr;
  if (!asked && !int8_winograd_pays(request.shape, *(*found)->int8_winograd)) return nullptr;
  // Last, as it quantises all weights.
  return int8_winograd_is_exact(request) ? *found : nullptr;
}

// The set for int8 from a channel-interleaved copy, the one that would multiply otherwise; null
// where it cannot be, or another algorithm is asked for.
const KernelSet* interleaved_set(std::span<const KernelSet* const> sets,
                                 const ConvolutionRequest& request,
                                 const ConvolutionChoice& choice) {
  if (!choice.algorithm.empty() && choice.algorithm != kInterleaved) return nullptr;
  if (!suits_interleaved(request.shape)) return nullptr;
  return find_set(sets, kInterleaved, request.precision);
}

KernelUse use_for(std::span<const KernelSet* const> sets, std::string_view kind,
                  std::string_view algorithm, Precision precision) {
  const KernelSet* set = find_set(sets, algorithm, precision);
  if (set == nullptr) return {kind, precision, kReference, kReference};
  return {kind, precision, set->name, algorithm};
}

KernelSetInfo describe(std::string_view name, bool is_supported,
                       std::span<const KernelSet* const> sets) {
  KernelSetInfo info{name, is_supported, {}};
  for (const Precision precision : {Precision::kFp32, Precision::kFp16, Precision::kInt8}) {
    const std::string_view product = precision == Precision::kInt8 ? kInterleaved : kGemm;
    info.kernels.push_back(use_for(sets, "convolutional", product, precision));
    info.kernels.push_back(use_for(sets, "depthwise", kDepthwise, precision));
    info.kernels.push_back(use_for(sets, "connected", kGemv, precision));
  }
  for (const Precision precision : {Precision::kFp32, Precision::kFp16}) {
    for (const WinogradNames& names : kWinogradNames) {
      for (const std::string_view algorithm : {names.stored, names.on_the_fly}) {
        if (!sets.empty() && find_set(sets, algorithm, precision) == nullptr) continue;
        info.kernels.push_back(use_for(sets, "convolutional", algorithm, precision));
      }
    }
  }
  const auto exact = std::ranges::find_if(
      sets, [](const KernelSet* set) { return set->int8_winograd != nullptr; });
  if (exact != sets.end()) {
    for (const std::string_view algorithm : {kWinograd4, kWinograd4OnTheFly}) {
      info.kernels.push_back({"convolutional", Precision::kInt8, (*exact)->name, algorithm});
    }
  }
  return info;
}

// The model of costs is no more exact. Where it finds times about equal, weights on the fly win, as
// they take a quarter of the memory or less.
constexpr double kAboutEqual = 1.05;

// Winograd's algorithm where it is cheaper than the packed product. Transformed weights take up to
// four times the memory, so that small memory is never spent on them unasked: there weights are
// transformed on the fly, where scratch allows it.
std::string_view cheapest(const ConvolutionRequest& request, const ConvolutionChoice& choice,
                          std::span<const KernelSet* const> sets) {
  if (!choice.algorithm.empty() || !suits_winograd(request.shape)) return kGemm;
  const auto index = static_cast<std::size_t>(request.precision);
  const KernelSet* gemm = find_set(sets, kGemm, request.precision);
  if (gemm == nullptr) return kGemm;
  double least = gemm_cost(request.shape, *gemm->gemm[index]);
  if (request.may_pool) least += pooling_cost(request.shape, *gemm->gemm[index]);
  double least_shared = 0.0;  // of all threads, by Winograd's algorithm
  std::string_view best = kGemm;
  for (const WinogradNames& names : kWinogradNames) {
    const KernelSet* set = find_set(sets, names.stored, request.precision);
    // Winograd saves less than a kernel of a lesser instruction set costs.
    if (set != gemm) continue;
    const WinogradForm* form = winograd_form(request.shape, names.tile);
    if (form == nullptr) continue;
    const WinogradKernel& kernel = *set->winograd[index];
    const bool pools_apart = request.may_pool && !form->pools();
    const double pooling = pools_apart ? pooling_cost(request.shape, *gemm->gemm[index]) : 0.0;
    const auto plan = [&](bool on_the_fly) {
      return choose_winograd(request.shape, kernel, *form, on_the_fly, choice);
    };
    if (choice.small_scratch) {
      // An image's weights are few.
      WinogradPlan small = plan(false);
      if (!small.of_image) {
        if (!offers(kernel, *form, true)) continue;
        small = plan(true);
      }
      if (small.scratch_bytes > choice.scratch_bytes || small.cost + pooling >= least) continue;
      least = small.cost + pooling;
      best = small.of_image ? names.stored : names.on_the_fly;
      continue;
    }
    const WinogradPlan transformed = plan(false);
    double cost = transformed.cost + pooling;
    double shared = cost_of_threads(transformed, choice.threads) + pooling;
    std::string_view name = names.stored;
    // On one thread of arm64 it is no faster.
    const bool is_wide = has_wide_vectors(kernel);
    if (offers(kernel, *form, true) && (choice.threads > 1 || is_wide)) {
      const WinogradPlan on_the_fly = plan(true);
      const double of_threads = cost_of_threads(on_the_fly, choice.threads) + pooling;
      // The model takes slices, which transform the input several times, for faster than they are.
      const double equal = on_the_fly.by_slices ? 1.0 / kAboutEqual : kAboutEqual;
      if (of_threads < equal * shared) {
        shared = of_threads;
        name = names.on_the_fly;
      }
      if (is_wide) cost = std::min(cost, on_the_fly.cost + pooling);
    }
    if (cost >= least) continue;
    // Tiles of 5x5 take fewer products than those of 4x4 and more weights, for which threads wait.
    if (choice.threads > 1 && names.tile == 5 && tile_of(best) == 4 && shared >= least_shared) {
      continue;
    }
    least = cost;
    least_shared = shared;
    best = name;
  }
  return best;
}

#if MPE_ABLATION

// A set's direct convolution; null where it has none.
DirectKernel direct_kernel(const KernelSet& set, Precision precision) {
  if (precision != Precision::kFp32) return nullptr;
#if defined(__aarch64__)
  if (&set == &kNeonKernels) return direct_neon;
  if (&set == &kNeonInOrderKernels) return direct_neon_in_order;
#elif defined(__x86_64__)
  if (&set == &kAvx2Kernels) return direct_avx2;
#endif
  return nullptr;
}

// With a technique and all that come before it; what comes after it is left out.
std::unique_ptr<Convolution> make_classical_convolution(const ConvolutionRequest& request,
                                                        const ConvolutionChoice& choice,
                                                        Technique technique) {
  const ConvolutionShape& shape = request.shape;
  const auto make = [&](const ConvolutionRequest& wanted, std::string_view algorithm) {
    ConvolutionChoice allowed = choice;
    allowed.algorithm = algorithm;
    allowed.in_place = choice.in_place && technique >= Technique::kInPlace;
    return make_convolution(wanted, allowed);
  };
  if (technique >= Technique::kWinograd && suits_winograd(shape)) {
    auto convolution = make(request, {});
    if (is_winograd(convolution->algorithm())) return convolution;
  }
  if (technique >= Technique::kChannelMajor && suits_depthwise(shape))
    return make(request, kDepthwise);
  if (technique >= Technique::kChannelLast && shape.pointwise() && shape.groups == 1) {
    return make(request, kGemm);
  }
  if (technique >= Technique::kIm2col) {
    return make_im2col_convolution(
        request, [&](const ConvolutionRequest& product) { return make(product, kGemm); });
  }
  if (technique == Technique::kSimd) {
    for (const KernelSet* set : allowed_sets(choice.isa)) {
      const DirectKernel kernel = direct_kernel(*set, request.precision);
      if (kernel == nullptr) continue;
      return make_direct_convolution(request, technique, kernel, set->name);
    }
    technique = Technique::kUnrolled;
  }
  return make_direct_convolution(request, technique, classical_loops(technique, request.precision),
                                 kReference);
}

#endif

}  // namespace

bool pools_by_sums(const ConvolutionRequest& request) {
  return request.may_pool && request.precision == Precision::kInt8 &&
         is_foldable(request.activation);
}

std::vector<KernelSetInfo> kernel_sets() {
  std::vector<KernelSetInfo> infos;
  const auto sets = all_sets();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    infos.push_back(describe(sets[i]->name, supported(*sets[i]), sets.subspan(i)));
  }
  infos.push_back(describe(kReference, true, {}));
  return infos;
}

std::span<const std::string_view> competing_algorithms() {
  // The first of them is "reference".
  return std::span(kAlgorithms).subspan(1);
}

std::vector<std::string_view> algorithms() {
  std::vector<std::string_view> names(std::begin(kAlgorithms), std::end(kAlgorithms));
  if (MPE_ABLATION) names.insert(names.end(), std::begin(kTechniques), std::end(kTechniques));
  return names;
}

std::string_view best_kernel_set() {
  const auto sets = allowed_sets({});
  return sets.empty() ? kReference : std::string_view(sets.front()->name);
}

ElementwiseChoice choose_elementwise(std::string_view isa, std::string_view algorithm) {
  const auto sets = allowed_sets(isa);
  if (algorithm != kReference) {
    for (const KernelSet* set : sets) {
      if (set->elementwise != nullptr) return {set->elementwise, set->name};
    }
  }
  return {nullptr, kReference};
}

std::unique_ptr<Convolution> make_convolution(const ConvolutionRequest& request,
                                              const ConvolutionChoice& choice) {
  check_algorithm(choice.algorithm);
  const auto sets = allowed_sets(choice.isa);
  if (request.precision == Precision::kInt16) return make_reference_convolution(request);
#if MPE_ABLATION
  if (const auto technique = find_technique(choice.algorithm)) {
    return make_classical_convolution(request, choice, *technique);
  }
#endif
  if (const KernelSet* winograd = int8_winograd_set(sets, request, choice)) {
    auto convolution =
        make_int8_winograd_convolution(request, *winograd->int8_winograd, winograd->name, choice);
    if (convolution != nullptr) return convolution;
  }
  if (const KernelSet* set = interleaved_set(sets, request, choice)) {
    return make_interleaved_convolution(request, *set->interleaved, set->name, choice);
  }
  std::string_view algorithm = algorithm_for(request.shape, choice.algorithm);
  if (algorithm == kGemm) algorithm = cheapest(request, choice.with_uniform_scratch(), sets);
  const KernelSet* set =
      algorithm == kReference ? nullptr : find_set(sets, algorithm, request.precision);
  const auto index = static_cast<std::size_t>(request.precision);
  const WinogradForm* form =
      is_winograd(algorithm) ? winograd_form(request.shape, tile_of(algorithm)) : nullptr;
  if (form != nullptr &&
      (set == nullptr || !offers(*set->winograd[index], *form, is_on_the_fly(algorithm)))) {
    algorithm = kGemm;
    set = find_set(sets, algorithm, request.precision);
  }
  if (set == nullptr) return make_reference_convolution(request);

  if (algorithm == kDepthwise) {
    return make_depthwise_convolution(request, *set->depthwise[index], set->name, choice.in_place);
  }
  if (is_winograd(algorithm)) {
    const WinogradKernel& kernel = *set->winograd[index];
    const WinogradPlan plan =
        choose_winograd(request.shape, kernel, *form, is_on_the_fly(algorithm), choice);
    auto convolution = make_winograd_convolution(request, kernel, set->name, plan, choice.threads);
    if (convolution != nullptr) return convolution;
    set = find_set(sets, kGemm, request.precision);
    if (set == nullptr) return make_reference_convolution(request);
  }
  const GemmForm product = algorithm == kGemv ? GemmForm::kVector : GemmForm::kTiles;
  return make_gemm_convolution(request, *set->gemm[index], set->name, product,
                               choice.small_scratch);
}

}  // namespace mpe
