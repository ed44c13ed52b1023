#include "convolution_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "half.h"
#include "kernels/convolution.h"
#include "layers/operation.h"
#include "model/weights.h"

namespace {

using mpe::Activation;
using mpe::Layer;
using mpe::Precision;

constexpr double kLargestHalf = 65504.0;
// The longest run of products that is summed in half.
constexpr int kHalfTerms = 128;
// Between these, Winograd's sums of halves neither overflow nor lose accuracy.
constexpr double kLargestInput = 256.0;
constexpr double kLeastInput = 0x1p-9;

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kLinear:
      return x;
    case Activation::kLeaky:
      return x < 0 ? 0.1 * x : x;
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kRelu6:
      return std::clamp(x, 0.0, 6.0);
    case Activation::kLogistic:
      return 1 / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kMish:
      // As e^x is limited: below -87 the result is zero to within the bounds of any tensor.
      return x * std::tanh(std::log1p(std::exp(std::min(x, 87.0))));
    case Activation::kSwish:
      return x / (1 + std::exp(-x));
    case Activation::kHardMish:
      return x > 0 ? x : x > -2 ? x * x / 2 + x : 0;
    case Activation::kHardSwish:
      return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case Activation::kHardSigmoid:
      return std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case Activation::kGelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return x /
             (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x)));
    case Activation::kElu:
      return x > 0 ? x : std::expm1(x);
  }
  return x;
}

// The most by which an error of a sum grows.
double steepness(Activation activation) {
  switch (activation) {
    case Activation::kHardSwish:
      return 1.5;
    case Activation::kGelu:
    case Activation::kGeluTanh:
      return 1.13;
    default:
      return 1.1;
  }
}

// NaN stays.
void raise(double& largest, double value) {
  if (!(value <= largest) && !std::isnan(largest)) largest = value;
}

std::vector<double> largest_by_channel(const std::vector<double>& values, int channels) {
  std::vector<double> largest(static_cast<std::size_t>(channels), 0.0);
  const std::size_t plane = values.size() / largest.size();
  for (std::size_t i = 0; i < values.size(); ++i) raise(largest[i / plane], std::fabs(values[i]));
  return largest;
}

bool is_winograd(const Kernel& kernel) { return kernel.algorithm.starts_with("winograd"); }

bool half_arithmetic(std::string_view isa) { return isa.find("fp16") != std::string_view::npos; }

double scale_of(const Kernel& kernel, const Sums& sums) {
  if (!is_winograd(kernel)) return sums.magnitude;
  if (!sums_halves(kernel)) return sums.mixed_magnitude;
  return std::max(sums.mixed_magnitude, sums.weights * kLeastInput);
}

// Of scale_of().
double tolerance(const Kernel& kernel, int terms) {
  const bool winograd = is_winograd(kernel);
  if (kernel.precision == Precision::kFp32) {
    // Every one of n additions may round in the same direction.
    return std::max(winograd ? 1e-4 : 1e-5, terms * 0x1p-24);
  }
  if (!half_arithmetic(kernel.isa)) return winograd ? 1e-2 : 1e-3;
  if (winograd) return std::max(2e-2, (kHalfTerms + terms / kHalfTerms) * 0x1p-12);
  return std::max(1e-3, std::min(terms, kHalfTerms) * 0x1p-12);
}

// Transformed weights that are stored without a scale may be below the normal halves: each is off
// by up to 2^-25, and the transforms add 36 of them, times up to 32 for the input's.
double below_normal(const Kernel& kernel, const Sums& sums) {
  const bool stored = kernel.precision == Precision::kFp16 && !sums_halves(kernel);
  return stored && is_winograd(kernel) ? 0x1p-15 * sums.inputs : 0.0;
}

// Sums of smaller magnitudes do not overflow, nor do their terms.
double overflow_of(const Kernel& kernel) {
  if (kernel.precision == Precision::kFp32) return 1e36;
  return sums_halves(kernel) ? kLargestHalf : std::numeric_limits<double>::infinity();
}

// Whether sums or their terms may be infinite.
bool may_overflow(const Kernel& kernel, const Sums& sums) {
  if (!std::isfinite(scale_of(kernel, sums))) return true;
  if (sums_halves(kernel)) {
    if (is_winograd(kernel) && !(sums.largest_input <= kLargestInput)) return true;
    return !(sums.magnitude < overflow_of(kernel));
  }
  return !(scale_of(kernel, sums) < overflow_of(kernel));
}

}  // namespace

bool sums_halves(const Kernel& kernel) {
  return kernel.precision == Precision::kFp16 && half_arithmetic(kernel.isa);
}

LoadedWeights load_weights(const mpe::Network& network, const std::string& path) {
  LoadedWeights all;
  mpe::WeightsReader reader(path, network);
  for (const Layer& layer : network.layers) {
    all.filters.emplace_back();
    all.biases.emplace_back();
    if (layer.rules.weights == mpe::WeightsRule::kValues) reader.values(layer);
    if (!layer.has_filters()) continue;
    const mpe::LayerWeights loaded = reader.next(layer);
    all.biases.back() = loaded.biases;
    for (int channel = 0; channel < layer.out.channels; ++channel) {
      const std::span<const float> filter = loaded.filters->filter(channel);
      all.filters.back().insert(all.filters.back().end(), filter.begin(), filter.end());
    }
  }
  return all;
}

Sums sums_of(const Layer& layer, Precision precision, std::span<const float> filters,
             std::span<const float> biases, std::span<const float> input) {
  const auto stored = [&](float value) {
    const bool half = precision == Precision::kFp16;
    return static_cast<double>(half ? mpe::half_to_float(mpe::half_from_float(value)) : value);
  };
  std::vector<double> values(input.size());
  std::transform(input.begin(), input.end(), values.begin(), stored);
  std::vector<double> weights(filters.size());
  std::transform(filters.begin(), filters.end(), weights.begin(), stored);
  const mpe::ConvolutionShape& shape = *layer.operation->convolution();
  const mpe::Shape& in = shape.in;

  Sums result;
  const int depth = in.channels / shape.groups;
  result.terms = depth * shape.kernel_y * shape.kernel_x;
  const std::vector<double> largest = largest_by_channel(values, in.channels);
  for (const double value : largest) {
    raise(result.largest_input, value);
    result.inputs += value;
  }
  result.sums.reserve(static_cast<std::size_t>(layer.out.elements()));
  for (int channel = 0; channel < layer.out.channels; ++channel) {
    const int first = channel / (layer.out.channels / shape.groups) * depth;
    double mixed = std::fabs(biases[static_cast<std::size_t>(channel)]);
    double weight = 0.0;
    for (int term = 0; term < result.terms; ++term) {
      const auto w = static_cast<std::size_t>(std::int64_t{channel} * result.terms + term);
      weight += std::fabs(weights[w]);
      mixed += std::fabs(weights[w]) *
               largest[static_cast<std::size_t>(first + term / (shape.kernel_y * shape.kernel_x))];
    }
    raise(result.mixed_magnitude, mixed);
    raise(result.weights, weight);
    for (int row = 0; row < layer.out.height; ++row) {
      for (int column = 0; column < layer.out.width; ++column) {
        double sum = biases[static_cast<std::size_t>(channel)];
        double magnitude = std::fabs(sum);
        std::int64_t w = std::int64_t{channel} * result.terms;
        for (int c = first; c < first + depth; ++c) {
          for (int ky = 0; ky < shape.kernel_y; ++ky) {
            const std::int64_t y =
                std::int64_t{row} * shape.stride_y + ky * shape.dilation_y - shape.padding_y;
            if (y < 0 || y >= in.height) {
              w += shape.kernel_x;
              continue;
            }
            for (int kx = 0; kx < shape.kernel_x; ++kx, ++w) {
              const std::int64_t x =
                  std::int64_t{column} * shape.stride_x + kx * shape.dilation_x - shape.padding_x;
              if (x < 0 || x >= in.width) continue;
              const auto at = static_cast<std::size_t>((c * in.height + y) * in.width + x);
              const double term = weights[static_cast<std::size_t>(w)] * values[at];
              sum += term;
              magnitude += std::fabs(term);
            }
          }
        }
        result.sums.push_back(sum);
        result.magnitudes.push_back(magnitude);
        raise(result.magnitude, magnitude);
      }
    }
  }
  return result;
}

bool mixes_windows(const Layer& layer, const Kernel& kernel) {
  const mpe::ConvolutionShape& shape = *layer.operation->convolution();
  const bool one_input_channel = shape.groups > 1 && shape.groups == shape.in.channels;
  return is_winograd(kernel) || (one_input_channel && shape.kernel_y * shape.kernel_x % 2 == 1);
}

std::string outside_bounds(const Layer& layer, const Kernel& kernel, const Sums& sums,
                           std::span<const float> actual) {
  const bool each_by_itself = may_overflow(kernel, sums);
  if (each_by_itself && mixes_windows(layer, kernel)) return {};
  const bool half = kernel.precision == Precision::kFp16;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double bound = 0.0;
    if (each_by_itself) {
      if (!(sums.magnitudes[i] < overflow_of(kernel))) continue;
      // Halves below the normal ones are off by up to 2^-25, each.
      bound = tolerance(kernel, sums.terms) * sums.magnitudes[i] +
              (sums_halves(kernel) ? sums.terms * 0x1p-24 : 0.0);
    } else {
      bound = tolerance(kernel, sums.terms) * scale_of(kernel, sums) + below_normal(kernel, sums);
    }
    const double expected = activated(layer.activation, sums.sums[i]);
    const double value = actual[i];
    // The second term is the activation's own rounding, the third that of the result.
    const double allowed = steepness(layer.activation) * bound + 4e-6 * std::fabs(expected) +
                           (half ? std::fabs(expected) * 0x1p-11 + 0x1p-24 : 1e-44);
    if (std::fabs(value - expected) <= allowed) continue;
    // Rounded to infinity, or just not: an error that is allowed may lead beyond what a half holds.
    const double furthest = (value > 0 ? expected : -expected) + allowed;
    if (half && std::isinf(value) && furthest >= kLargestHalf) continue;
    char text[160];
    std::snprintf(text, sizeof text, "value %zu is %.9g instead of %.9g, allowed is %.3g", i, value,
                  expected, allowed);
    return text;
  }
  return {};
}
