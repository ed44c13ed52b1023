#include "kernels/winograd_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "half.h"
#include "kernels/sizes.h"
#include "kernels/winograd_tiles.h"

namespace mpe {
namespace {

constexpr std::size_t kTaps = 9;

// A weight in the transforms: in float, by the same operations as in the kernels that transform on
// the fly, so that both have the same bits.
struct Weight {
  float value = 0.0F;
  Weight() = default;
  explicit Weight(float v) : value(v) {}
};
Weight operator+(Weight a, Weight b) { return Weight(a.value + b.value); }
Weight operator-(Weight a, Weight b) { return Weight(a.value - b.value); }
Weight operator*(Weight a, Weight b) { return Weight(a.value * b.value); }
Weight multiply_add(Weight sum, Weight a, Weight b) {
  return Weight(std::fma(a.value, b.value, sum.value));
}

// G g G^T: a kernel's values at every position of a tile.
template <typename Tiles>
void transform_weights(const float* weights, float* transformed) {
  constexpr int kInput = Tiles::kInput;
  Weight columns[3][kInput];
  for (int x = 0; x < 3; ++x) {
    const Weight taps[3] = {Weight(weights[x]), Weight(weights[3 + x]), Weight(weights[6 + x])};
    Tiles::transform_weights(taps, columns[x]);
  }
  for (int a = 0; a < kInput; ++a) {
    const Weight taps[3] = {columns[0][a], columns[1][a], columns[2][a]};
    Weight values[kInput];
    Tiles::transform_weights(taps, values);
    for (int b = 0; b < kInput; ++b) transformed[a * kInput + b] = values[b].value;
  }
}

// The largest magnitude that a value can have, computed by the transforms themselves.
struct Magnitude {
  double value = 0.0;
  Magnitude() = default;
  explicit Magnitude(double v) : value(std::abs(v)) {}
};
Magnitude operator+(Magnitude a, Magnitude b) { return Magnitude(a.value + b.value); }
Magnitude operator-(Magnitude a, Magnitude b) { return Magnitude(a.value + b.value); }
Magnitude operator*(Magnitude a, Magnitude b) { return Magnitude(a.value * b.value); }
Magnitude multiply_add(Magnitude sum, Magnitude a, Magnitude b) { return sum + a * b; }
void settle(Magnitude&) {}

// How large anything can become while outputs are computed from inputs of magnitude 1, whatever
// their signs: `totals` are the sums over the channels of the magnitudes of the transformed
// weights, of every value of a tile. No intermediate of the output's transform exceeds the largest
// output, as every sum takes part in one of them with a factor of at least 1.
template <typename Tiles>
double largest_output(const std::vector<double>& totals) {
  constexpr int kInput = Tiles::kInput;
  constexpr int kTile = Tiles::kOutput;
  Magnitude ones[kInput];
  for (Magnitude& one : ones) one = Magnitude(1.0);
  Magnitude input[kInput];
  Tiles::transform_input(ones, input);
  Magnitude sums[Tiles::kPositions * Tiles::kPositions];
  for (int a = 0; a < kInput; ++a) {
    for (int b = 0; b < kInput; ++b) {
      const Magnitude total(totals[static_cast<std::size_t>(a * kInput + b)]);
      Magnitude& sum = sums[winograd_value<Tiles>(a, b).position];
      sum = sum + total * input[a] * input[b];
    }
  }
  const auto load = [&](auto column, Magnitude(&values)[Tiles::kPositions]) {
    for (int i = 0; i < Tiles::kPositions; ++i) {
      values[i] = sums[i * Tiles::kPositions + column.value];
    }
  };
  Magnitude output[kTile][kTile];
  Tiles::transform_output(load, output);
  double largest = 0.0;
  for (const auto& row : output) {
    for (const Magnitude& value : row) largest = std::max(largest, value.value);
  }
  return largest;
}

// The bound: with inputs up to this magnitude, whatever their signs, no transformed input, sum or
// output before it is unscaled exceeds a half's range. A larger bound would make small values less
// accurate, because their sums would be subnormal halves: with this one, errors grow where the
// largest input is below 2^-6. Larger inputs can exceed the range; the processor tells when one
// has. The block of tiles is then computed again with an input times kSmallerInput.
constexpr double kLargestInput = 256.0;
static_assert(65504.0 * kSmallerInput <= kLargestInput);
// Of a half's 65,504, as rounding may add to a sum.
constexpr double kLargestHalf = 57344.0;
template <typename Value>
constexpr float kLargestOnTheFly =
    std::is_same_v<Value, Half> ? static_cast<float>(kLargestHalf)
                                : std::numeric_limits<float>::max() / 2;
// A power of two that is a half. Where an output would need a larger one, its sum is below 2, of a
// sum of magnitudes of half of kLargestHalf or more: nothing but rounding errors.
constexpr float kLargestUnscale = 0x1p15F;

// By which power of two an output channel's weights are multiplied.
double scale_of(double largest_output) {
  const double room = kLargestHalf / (kLargestInput * largest_output);
  if (!std::isfinite(room)) return 1.0;
  return std::exp2(std::clamp(std::floor(std::log2(room)), -24.0, 24.0));
}

class Packer {
 public:
  Packer(const ConvolutionRequest& request, const WinogradKernel& kernel, const WinogradPlan& plan)
      : request_(request),
        kernel_(kernel),
        form_(*plan.form),
        of_image_(plan.of_image),
        on_the_fly_(plan.transformed_blocks > 0),
        channels_(request.shape.in.channels),
        rows_(request.shape.out.channels),
        blocks_(divide_up(rows_, kernel.rows)) {}

  WinogradWeights pack() {
    if (kernel_.sum_bytes == sizeof(Half)) {
      packed_.unscales.resize(static_cast<std::size_t>(rows_));
      packed_.unscales_of_smaller.resize(static_cast<std::size_t>(rows_));
    }
    packed_.values = AlignedBuffer(block_weights() * static_cast<std::size_t>(blocks_) *
                                   weight_size(weight_format()));
    if (form_.stride == 2) {
      pack_tiles<WinogradTiles<2, 2>>();
    } else if (form_.tile == 2) {
      pack_tiles<WinogradTiles<2, 1>>();
    } else if (form_.tile == 4) {
      pack_tiles<WinogradTiles<4, 1>>();
    } else {
      pack_tiles<WinogradTiles<5, 1>>();
    }
    return std::move(packed_);
  }

 private:
  // Every filter, scaled where sums are halves.
  template <typename Tiles, typename Value>
  void pack_filters() {
    const auto values = static_cast<std::size_t>(form_.all_values());
    std::vector<float> transformed(static_cast<std::size_t>(channels_) * values);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows_); ++row) {
      const std::span<const float> filter = request_.filter(static_cast<int>(row));
      for (std::size_t i = 0, from = 0; i < transformed.size(); i += values, from += kTaps) {
        transform_weights<Tiles>(&filter[from], &transformed[i]);
      }
      const float scale = packed_.unscales.empty() ? 1.0F : choose_scale<Tiles>(transformed, row);
      for (float& value : transformed) value *= scale;
      if (on_the_fly_) {
        pack_plain<Value>(filter, scale, row);
        // Rounding may add to these.
        for (const float value : transformed) {
          packed_.in_range &= std::abs(value) <= kLargestOnTheFly<Value>;
        }
      } else if (of_image_) {
        pack_of_image<Value>(transformed, row);
      } else {
        pack_transformed<Tiles, Value>(transformed, row);
      }
    }
  }

  template <typename Value>
  void pack_of_image(const std::vector<float>& transformed, std::size_t row) {
    const auto positions = static_cast<std::size_t>(form_.positions);
    const std::size_t values = positions * positions;
    for (std::size_t i = 0; i < transformed.size(); ++i) {
      const std::size_t column = i % positions;
      const std::size_t place = i / values * positions + i % values / positions;
      put<Value>((row * positions + column) * kImageColumn + place, transformed[i]);
    }
  }

  template <typename Tiles, typename Value>
  void pack_transformed(const std::vector<float>& transformed, std::size_t row) {
    constexpr int kInput = Tiles::kInput;
    const auto depth = static_cast<std::size_t>(channels_);
    const auto rows = static_cast<std::size_t>(kernel_.rows);
    const auto values = static_cast<std::size_t>(form_.all_values());
    for (int a = 0; a < kInput; ++a) {
      for (int b = 0; b < kInput; ++b) {
        const WinogradValue value = winograd_value<Tiles>(a, b);
        const auto position = static_cast<std::size_t>(value.position);
        const auto first = static_cast<std::size_t>(form_.first_values[position]);
        const auto count = static_cast<std::size_t>(form_.first_values[position + 1]) - first;
        const std::size_t block = first * static_cast<std::size_t>(blocks_) + row / rows * count;
        std::size_t to =
            (block * depth + static_cast<std::size_t>(value.place)) * rows + row % rows;
        auto from = static_cast<std::size_t>(a * kInput + b);
        for (; from < transformed.size(); from += values, to += count * rows) {
          put<Value>(to, transformed[from]);
        }
      }
    }
  }

  template <typename Value>
  void pack_plain(std::span<const float> filter, float scale, std::size_t row) {
    const auto rows = static_cast<std::size_t>(kernel_.rows);
    const auto lanes = static_cast<std::size_t>(kernel_.weight_lanes);
    const std::size_t block = row / rows * plain_block();
    for (std::size_t i = 0; i < filter.size(); ++i) {
      const std::size_t place = i / kTaps * rows + row % rows;
      put<Value>(block + (place / lanes * kTaps + i % kTaps) * lanes + place % lanes,
                 filter[i] * scale);
    }
  }

  // Weights of a block of output channels as they are, in whole vectors.
  std::size_t plain_block() const {
    const auto places = static_cast<std::size_t>(channels_ * kernel_.rows);
    return round_up(places, static_cast<std::size_t>(kernel_.weight_lanes)) * kTaps;
  }

  template <typename Value>
  void put(std::size_t i, float value) {
    if constexpr (std::is_same_v<Value, Half>) {
      const Half half = half_from_float(value);
      packed_.in_range &= std::isfinite(half_to_float(half));
      packed_.values.as<Half>()[i] = half;
    } else {
      packed_.in_range &= std::isfinite(value);
      packed_.values.as<float>()[i] = value;
    }
  }

  template <typename Tiles>
  float choose_scale(const std::vector<float>& transformed, std::size_t row) {
    const auto values = static_cast<std::size_t>(form_.all_values());
    std::vector<double> totals(values);
    for (std::size_t i = 0; i < transformed.size(); ++i) {
      totals[i % values] += static_cast<double>(std::abs(transformed[i]));
    }
    const double scale = scale_of(largest_output<Tiles>(totals));
    packed_.unscales[row] = static_cast<float>(1.0 / scale);
    packed_.unscales_of_smaller[row] =
        std::min(packed_.unscales[row] / kSmallerInput, kLargestUnscale);
    packed_.in_range &= std::isfinite(half_to_float(half_from_float(packed_.unscales[row])));
    return static_cast<float>(scale);
  }

  template <typename Tiles>
  void pack_tiles() {
    if (weight_format() == WeightFormat::kHalf) {
      pack_filters<Tiles, Half>();
    } else {
      pack_filters<Tiles, float>();
    }
  }

  // The weights of an image are so few that they are stored widened.
  WeightFormat weight_format() const {
    return of_image_ && kernel_.multiplier_bytes > 0 ? WeightFormat::kFloat : kernel_.weights;
  }

  std::size_t block_weights() const {
    const auto rows = static_cast<std::size_t>(kernel_.rows);
    if (on_the_fly_) return plain_block();
    if (of_image_) return rows * static_cast<std::size_t>(form_.positions) * kImageColumn;
    return static_cast<std::size_t>(form_.all_values()) * rows *
           static_cast<std::size_t>(channels_);
  }

  const ConvolutionRequest& request_;
  const WinogradKernel& kernel_;
  const WinogradForm& form_;
  const bool of_image_;
  const bool on_the_fly_;
  const int channels_;
  const int rows_;
  const int blocks_;  // of rows
  WinogradWeights packed_;
};

}  // namespace

WinogradWeights pack_winograd_weights(const ConvolutionRequest& request,
                                      const WinogradKernel& kernel, const WinogradPlan& plan) {
  return Packer(request, kernel, plan).pack();
}

}  // namespace mpe
