// The weights file: headers, order, folding, sizes.
#include "model/weights.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "model/network.h"

using namespace mpe;

namespace {

Network network() {
  return parse_network(
      "[net]\nwidth=2\nheight=1\nchannels=1\n"
      "[convolutional]\nfilters=2\nbatch_normalize=1\nactivation=linear\n"
      "[maxpool]\nsize=1\n"
      "[connected]\noutput=2\nactivation=linear\n",
      "a.cfg");
}

struct File {
  std::string bytes;

  File(int major, int minor, int seen_bytes) {
    for (const int part : {major, minor, 0}) append(part);
    bytes.append(static_cast<std::size_t>(seen_bytes), '\x7f');
  }
  template <typename Value>
  void append(Value value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  File& floats(const std::vector<float>& values) {
    for (const float value : values) append(value);
    return *this;
  }
  WeightsReader reader(const Network& of, float epsilon = 0.0F) const {
    return {std::make_unique<std::istringstream>(bytes), "a.weights", of, epsilon};
  }
};

std::vector<float> all_of(const LayerWeights& layer) {
  std::vector<float> all;
  for (int channel = 0; channel < static_cast<int>(layer.biases.size()); ++channel) {
    const auto filter = layer.filters->filter(channel);
    all.insert(all.end(), filter.begin(), filter.end());
  }
  return all;
}

// biases, scales, means, variances, weights; then biases and weights.
const std::vector<float> kConvolution = {1, 2, 3, 4, 5, 6, 4, 16, 10, 20};
const std::vector<float> kConnected = {7, 8, 1, 2, 3, 4, 5, 6, 7, 8};

void check_contents(WeightsReader reader, const std::vector<float>& connected_weights) {
  const Network of = network();
  const LayerWeights first = reader.next(of.layers[0]);
  CHECK(all_of(first) == (std::vector<float>{10 * 3 / 2.0F, 20 * 4 / 4.0F}));
  CHECK(first.biases == (std::vector<float>{1 - 5 * 3 / 2.0F, 2 - 6 * 4 / 4.0F}));
  const LayerWeights second = reader.next(of.layers[2]);
  CHECK(second.biases == (std::vector<float>{7, 8}));
  CHECK(all_of(second) == connected_weights);
}

const std::vector<float> kPlain = {1, 2, 3, 4, 5, 6, 7, 8};
const std::vector<float> kTransposed = {1, 3, 5, 7, 2, 4, 6, 8};

}  // namespace

TEST(both_header_versions) {
  check_contents(File(0, 1, 4).floats(kConvolution).floats(kConnected).reader(network()), kPlain);
  check_contents(File(0, 2, 8).floats(kConvolution).floats(kConnected).reader(network()), kPlain);
  check_contents(File(1, 0, 8).floats(kConvolution).floats(kConnected).reader(network()), kPlain);
}

TEST(very_old_files_hold_connected_weights_transposed) {
  for (const int seen_bytes : {4, 8}) {
    check_contents(
        File(0, 1001, seen_bytes).floats(kConvolution).floats(kConnected).reader(network()),
        kTransposed);
  }
}

TEST(batch_norm_of_a_connected_layer_comes_after_its_weights) {
  const Network of = parse_network(
      "[net]\nwidth=1\nheight=1\nchannels=2\n"
      "[connected]\noutput=1\nbatch_normalize=1\n",
      "a.cfg");
  File file(0, 2, 8);
  file.floats({1, 2, 3, /*scale*/ 5, /*mean*/ 7, /*variance*/ 0.99F});
  WeightsReader reader = file.reader(of, 0.01F);
  const LayerWeights layer = reader.next(of.layers[0]);
  const auto filter = layer.filters->filter(0);
  CHECK(std::fabs(filter[0] - 10) < 1e-5F);
  CHECK(std::fabs(filter[1] - 15) < 1e-5F);
  CHECK(std::fabs(layer.biases[0] - (1 - 35)) < 1e-5F);
}

// More than is read at once.
TEST(filters_are_read_in_any_order) {
  constexpr int kFilters = 700;
  constexpr int kDepth = 50 * 9;
  const Network of = parse_network(
      "[net]\nwidth=4\nheight=4\nchannels=50\n"
      "[convolutional]\nfilters=" +
          std::to_string(kFilters) + "\nsize=3\npad=1\nactivation=linear\n",
      "a.cfg");
  std::vector<float> values(kFilters + kFilters * kDepth);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  WeightsReader reader = File(0, 2, 8).floats(values).reader(of);
  const LayerWeights layer = reader.next(of.layers[0]);
  for (const int channel : {0, 1, 699, 350, 349, 0, 698}) {
    const auto filter = layer.filters->filter(channel);
    CHECK_EQUAL(filter.size(), static_cast<std::size_t>(kDepth));
    CHECK_EQUAL(filter[0], static_cast<float>(kFilters + channel * kDepth));
    CHECK_EQUAL(filter[kDepth - 1], static_cast<float>(kFilters + channel * kDepth + kDepth - 1));
  }
}

TEST(sizes_must_match_exactly) {
  File file(0, 2, 8);
  file.floats(kConvolution).floats(kConnected);
  CHECK_EQUAL(weights_file_bytes(network()), static_cast<std::int64_t>(file.bytes.size()));
  File longer = file;
  longer.bytes += 'x';
  CHECK_THROWS(longer.reader(network()), "too long", "needs 100 bytes", "has 101", "a.cfg");
  File shorter = file;
  shorter.bytes.pop_back();
  CHECK_THROWS(shorter.reader(network()), "truncated", "needs 100 bytes", "has 99");
  for (std::size_t size = 0; size < 16; ++size) {
    File cut = file;
    cut.bytes.resize(size);
    CHECK_THROWS(cut.reader(network()), "a.weights", "truncated");
  }
}

TEST(values_that_are_not_finite_name_their_layer) {
  const Network of = network();
  std::vector<float> bad = kConvolution;
  bad[6] = -1;  // a negative variance
  WeightsReader folded = File(0, 2, 8).floats(bad).floats(kConnected).reader(of);
  CHECK_THROWS(folded.next(of.layers[0]), "layer 0 (convolutional)", "not finite");

  bad = kConvolution;
  bad[9] = std::numeric_limits<float>::quiet_NaN();
  WeightsReader weighted = File(0, 2, 8).floats(bad).floats(kConnected).reader(of);
  const LayerWeights first = weighted.next(of.layers[0]);
  CHECK_THROWS(all_of(first), "layer 0 (convolutional)", "not finite");

  bad = kConnected;
  bad.back() = std::numeric_limits<float>::infinity();
  WeightsReader plain = File(0, 2, 8).floats(kConvolution).floats(bad).reader(of);
  plain.next(of.layers[0]);
  const LayerWeights connected = plain.next(of.layers[2]);
  CHECK_THROWS(all_of(connected), "layer 2 (connected)", "not finite");
}

TEST(weights_beyond_half_are_refused_for_fp16_alone) {
  const std::string head = "[net]\nwidth=1\nheight=1\nchannels=1\n[convolutional]\nfilters=2\n";
  const std::string norm = "batch_normalize=1\n";
  // Biases, weights; 65519 is rounded to the largest half, 65520 to infinity.
  const auto reads = [&](const std::string& keys, const std::vector<float>& values) {
    const Network of = parse_network(head + keys, "a.cfg");
    WeightsReader reader = File(0, 2, 8).floats(values).reader(of);
    return static_cast<int>(all_of(reader.next(of.layers[0])).size());
  };
  CHECK_EQUAL(reads("fp16=1\n", {1e6F, 0, 65519, -65519}), 2);
  CHECK_EQUAL(reads("int8=1\nquantize=1\n", {0, 0, 1, 65520}), 2);
  CHECK_EQUAL(reads("", {0, 0, 1, 65520}), 2);
  CHECK_THROWS(reads("fp16=1\n", {0, 0, 1, -65520}), "a.weights", "layer 0 (convolutional)",
               "weight -6.55e+04, but", "65504", "fp32");
  CHECK_THROWS(reads(norm + "fp16=1\n", {0, 0, 1000, 1, 0, 0, 0.01F, 1, 10, 1}),
               "weight 1e+05 once batch normalisation is folded in");
}

TEST(a_missing_file_and_a_bad_epsilon) {
  CHECK_THROWS(WeightsReader("/nonexistent/a.weights", network()), "cannot open");
  CHECK_THROWS(WeightsReader("/", network()), "is a folder");
  CHECK_THROWS(File(0, 2, 8).reader(network(), -1.0F), "epsilon");
}
