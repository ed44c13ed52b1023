#include "model/weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "error.h"
#include "io/file.h"

namespace mpe {
namespace {

static_assert(std::endian::native == std::endian::little, "weights files are read as they lie");

constexpr std::int64_t kHeaderWithSeen32 = 16;
constexpr std::int64_t kHeaderWithSeen64 = 20;

std::int64_t parameter_bytes(const Network& network) {
  std::int64_t parameters = 0;
  for (const Layer& layer : network.layers) parameters += layer.parameters;
  return parameters * static_cast<std::int64_t>(sizeof(float));
}

// [rows][columns] to [columns][rows].
std::vector<float> transpose(const std::vector<float>& matrix, std::size_t rows,
                             std::size_t columns) {
  std::vector<float> result(matrix.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      result[column * rows + row] = matrix[row * columns + column];
    }
  }
  return result;
}

struct BatchNorm {
  std::vector<float> scales;
  std::vector<float> means;
  std::vector<float> variances;
};

// y = scale * (x - mean) / sqrt(variance + epsilon) + bias is linear in the convolution's sum x:
// the factor goes into the weights, the rest into the bias. In double, rounded once.
std::vector<double> fold(const BatchNorm& norm, float epsilon, std::vector<float>& biases) {
  std::vector<double> factors(norm.scales.size());
  for (std::size_t c = 0; c < factors.size(); ++c) {
    factors[c] = norm.scales[c] / std::sqrt(static_cast<double>(norm.variances[c]) + epsilon);
    biases[c] = static_cast<float>(biases[c] - norm.means[c] * factors[c]);
  }
  return factors;
}

void read_floats(std::istream& stream, const std::string& name, std::int64_t offset,
                 std::span<float> values) {
  const auto bytes = static_cast<std::streamsize>(values.size_bytes());
  stream.clear();
  stream.seekg(offset);
  stream.read(reinterpret_cast<char*>(values.data()), bytes);
  if (stream.gcount() != bytes) throw Error(name + ": cannot read: the file has shrunk");
}

// What folding and a corrupt file may leave.
void check_finite(std::span<const float> values, const std::string& name, const Layer& layer) {
  for (const float value : values) {
    if (std::isfinite(value)) continue;
    throw Error(name + ": layer " + std::to_string(layer.index) + " (" +
                std::string(name_of(layer.kind)) + ") has a weight that is not finite" +
                (layer.batch_normalize ? " once batch normalisation is folded in" : "") +
                "; the file is corrupt or belongs to another cfg");
  }
}

// A weight that is infinite as half makes NaN of the zeros that it meets.
void check_halves(std::span<const float> filters, const std::string& name, const Layer& layer) {
  constexpr float kInfinite = 65520.0F;  // rounded to half
  if (layer.precision != Precision::kFp16) return;
  for (const float value : filters) {
    if (std::fabs(value) < kInfinite) continue;
    char number[32];
    std::snprintf(number, sizeof number, "%.3g", static_cast<double>(value));
    throw Error(name + ": layer " + std::to_string(layer.index) + " (" +
                std::string(name_of(layer.kind)) + ") has the weight " + number +
                (layer.batch_normalize ? " once batch normalisation is folded in" : "") +
                ", but fp16 holds 65504 at most; let this layer run in fp32 or int8");
  }
}

// The place of a layer's filters in the file, and their factors.
struct FilterFile {
  std::istream* stream;
  std::string name;
  const Layer* layer;
  std::int64_t offset;
  std::size_t channels;
  std::size_t depth;
  std::vector<double> factors;  // one a channel; empty: 1

  // Filters from `first` on, folded.
  void finish(std::size_t first, std::span<float> filters) const {
    for (std::size_t i = 0; i < filters.size() && !factors.empty(); ++i) {
      filters[i] = static_cast<float>(filters[i] * factors[first + i / depth]);
    }
    check_finite(filters, name, *layer);
    check_halves(filters, name, *layer);
  }
};

// Reads a few filters at a time.
class StreamedFilters final : public FilterSource {
 public:
  explicit StreamedFilters(FilterFile file)
      : file_(std::move(file)),
        at_once_(std::min(file_.channels, std::max<std::size_t>(kLeastRead / file_.depth, 1))) {}

  std::span<const float> filter(int channel) override {
    const auto wanted = static_cast<std::size_t>(channel);
    if (wanted < first_ || wanted >= first_ + buffer_.size() / file_.depth) read(wanted);
    return std::span(buffer_).subspan((wanted - first_) * file_.depth, file_.depth);
  }

 private:
  static constexpr std::size_t kLeastRead = 16 * 1024;  // values

  void read(std::size_t first) {
    first_ = first;
    buffer_.resize(std::min(at_once_, file_.channels - first) * file_.depth);
    const auto skipped = static_cast<std::int64_t>(first * file_.depth * sizeof(float));
    read_floats(*file_.stream, file_.name, file_.offset + skipped, buffer_);
    file_.finish(first, buffer_);
  }

  const FilterFile file_;
  const std::size_t at_once_;
  std::size_t first_ = 0;
  std::vector<float> buffer_;
};

// [in][out] in the file: a filter lies all over it, so all are kept.
class TransposedFilters final : public FilterSource {
 public:
  explicit TransposedFilters(const FilterFile& file) : depth_(file.depth) {
    std::vector<float> lying(file.channels * file.depth);
    read_floats(*file.stream, file.name, file.offset, lying);
    all_ = transpose(lying, file.depth, file.channels);
    file.finish(0, all_);
  }

  std::span<const float> filter(int channel) override {
    return std::span(all_).subspan(static_cast<std::size_t>(channel) * depth_, depth_);
  }

 private:
  const std::size_t depth_;
  std::vector<float> all_;
};

}  // namespace

std::int64_t weights_file_bytes(const Network& network) {
  return kHeaderWithSeen64 + parameter_bytes(network);
}

WeightsReader::WeightsReader(const std::string& path, const Network& network, float epsilon)
    : WeightsReader(open_file(path), path, network, epsilon) {}

WeightsReader::WeightsReader(std::unique_ptr<std::istream> stream, std::string name,
                             const Network& network, float epsilon)
    : stream_(std::move(stream)), name_(std::move(name)), epsilon_(epsilon) {
  if (!(epsilon_ >= 0.0F) || !std::isfinite(epsilon_)) {
    throw Error("the batch-norm epsilon must be a finite number that is not below 0");
  }
  open(network);
}

void WeightsReader::open(const Network& network) {
  std::array<std::int32_t, 3> version{};
  stream_->seekg(0, std::ios::end);
  const std::int64_t size = stream_->tellg();
  stream_->seekg(0);
  stream_->read(reinterpret_cast<char*>(version.data()), sizeof version);
  if (!*stream_ || size < kHeaderWithSeen32) {
    throw Error(name_ + ": cannot read a weights header of " + std::to_string(kHeaderWithSeen32) +
                " bytes or more; the file is truncated");
  }
  const auto [major, minor, revision] = version;
  transposed_ = major > 1000 || minor > 1000;
  const bool seen64 = std::int64_t{major} * 10 + minor >= 2;
  const std::int64_t bytes = parameter_bytes(network);
  // Darknets disagree on the header of transposed files; their size tells.
  const bool old_header = !seen64 || (transposed_ && size == kHeaderWithSeen32 + bytes);
  const std::int64_t header = old_header ? kHeaderWithSeen32 : kHeaderWithSeen64;
  if (size != header + bytes) {
    throw Error(name_ + ": " + (size < header + bytes ? "truncated: " : "too long: ") +
                network.file + " needs " + std::to_string(header + bytes) + " bytes (version " +
                std::to_string(major) + "." + std::to_string(minor) + "." +
                std::to_string(revision) + "), the file has " + std::to_string(size) +
                "; check that cfg and weights belong together");
  }
  offset_ = header;
}

std::vector<float> WeightsReader::take(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  read_floats(*stream_, name_, offset_, values);
  offset_ += count * static_cast<std::int64_t>(sizeof(float));
  return values;
}

std::vector<float> WeightsReader::values(const Layer& layer) {
  std::vector<float> values = take(layer.parameters);
  check_finite(values, name_, layer);
  return values;
}

LayerWeights WeightsReader::next(const Layer& layer) {
  const bool connected = layer.rules.weights == WeightsRule::kConnected;
  const std::int64_t channels = layer.out.channels;
  const std::int64_t weights = layer.parameters - channels * (layer.batch_normalize ? 4 : 1);
  LayerWeights result;
  BatchNorm norm;
  const auto take_norm = [&] {
    if (layer.batch_normalize) norm = {take(channels), take(channels), take(channels)};
  };
  result.biases = take(channels);
  if (!connected) take_norm();
  FilterFile file{stream_.get(),
                  name_,
                  &layer,
                  offset_,
                  static_cast<std::size_t>(channels),
                  static_cast<std::size_t>(weights / channels),
                  {}};
  offset_ += weights * static_cast<std::int64_t>(sizeof(float));
  if (connected) take_norm();
  if (layer.batch_normalize) file.factors = fold(norm, epsilon_, result.biases);
  check_finite(result.biases, name_, layer);
  if (connected && transposed_) {
    result.filters = std::make_unique<TransposedFilters>(file);
  } else {
    result.filters = std::make_unique<StreamedFilters>(std::move(file));
  }
  return result;
}

}  // namespace mpe
