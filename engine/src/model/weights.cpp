#include "model/weights.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>

#include "error.h"

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

std::unique_ptr<std::istream> open_file(const std::string& path) {
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream) throw Error(path + ": cannot open: " + std::strerror(errno));
  return stream;
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
void fold(const BatchNorm& norm, float epsilon, LayerWeights& layer) {
  const std::size_t channels = layer.biases.size();
  const std::size_t depth = layer.weights.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    const double factor =
        norm.scales[c] / std::sqrt(static_cast<double>(norm.variances[c]) + epsilon);
    layer.biases[c] = static_cast<float>(layer.biases[c] - norm.means[c] * factor);
    for (float& weight : std::span(layer.weights).subspan(c * depth, depth)) {
      weight = static_cast<float>(weight * factor);
    }
  }
}

bool all_finite(const std::vector<float>& values) {
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

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
                " bytes or more; the file is truncated or not a regular file");
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
  stream_->seekg(header);
}

std::vector<float> WeightsReader::read(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(float));
  stream_->read(reinterpret_cast<char*>(values.data()), bytes);
  if (stream_->gcount() != bytes) throw Error(name_ + ": cannot read: the file has shrunk");
  return values;
}

LayerWeights WeightsReader::next(const Layer& layer) {
  const bool connected = layer.kind == LayerKind::kConnected;
  const std::int64_t channels = layer.out.channels;
  const std::int64_t weights = layer.parameters - channels * (layer.batch_normalize ? 4 : 1);
  LayerWeights result;
  BatchNorm norm;
  const auto read_norm = [&] {
    if (layer.batch_normalize) norm = {read(channels), read(channels), read(channels)};
  };
  result.biases = read(channels);
  if (!connected) read_norm();
  result.weights = read(weights);
  if (connected) read_norm();

  if (connected && transposed_) {
    result.weights = transpose(result.weights, static_cast<std::size_t>(weights / channels),
                               static_cast<std::size_t>(channels));
  }
  if (layer.batch_normalize) fold(norm, epsilon_, result);
  if (!all_finite(result.weights) || !all_finite(result.biases)) {
    throw Error(name_ + ": layer " + std::to_string(layer.index) + " (" +
                std::string(name_of(layer.kind)) + ") has a weight that is not finite" +
                (layer.batch_normalize ? " once batch normalisation is folded in" : "") +
                "; the file is corrupt or belongs to another cfg");
  }
  return result;
}

}  // namespace mpe
