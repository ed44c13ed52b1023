#include "configurations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <future>
#include <utility>

#include "error.h"
#include "exec/session.h"
#include "io/sha256.h"
#include "kernels/convolution.h"
#include "kernels/kernel_sets.h"
#include "mpe.h"

namespace {

using mpe::Layer;
using mpe::Precision;

const Configuration kPlainLoops = {"reference", "reference", 1, mpe::Preference::kSpeed};

// One NaN is like another: its sign depends on the machine and on the order of operands.
bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(float)) == 0 || (std::isnan(a) && std::isnan(b));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return same_bits(x, y); });
}

bool identical(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool has_nan(const Tensors& tensors) {
  return std::ranges::any_of(tensors, [](const std::vector<float>& values) {
    return std::ranges::any_of(values, [](float value) { return std::isnan(value); });
  });
}

bool same_bits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return false;
  }
  return true;
}

std::string first_difference(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (same_bits(actual[i], expected[i])) continue;
    char text[120];
    std::snprintf(text, sizeof text, "value %zu is %.9g instead of %.9g", i,
                  static_cast<double>(actual[i]), static_cast<double>(expected[i]));
    return text;
  }
  return "another number of values";
}

// Where inputs are not finite: NaN and infinities at the same places.
std::string other_kind(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float a = actual[i];
    const float e = expected[i];
    if (std::isnan(a) == std::isnan(e) && std::isinf(a) == std::isinf(e) &&
        (!std::isinf(a) || a == e)) {
      continue;
    }
    return "value " + std::to_string(i) + " is " + std::to_string(a) + " instead of " +
           std::to_string(e);
  }
  return {};
}

std::vector<float> read(mpe::Session& session, int layer) {
  std::vector<float> values(
      static_cast<std::size_t>(session.network().output_shape(layer).elements()));
  session.read(layer, values);
  return values;
}

void append_heads(mpe::Session& session, Tensors& heads) {
  for (const int head : session.heads()) heads.push_back(read(session, head));
}

}  // namespace

std::string name_of(const Configuration& configuration) {
  const std::string algorithm =
      configuration.algorithm.empty() ? "" : " --algorithm " + configuration.algorithm;
  return "--isa " + configuration.isa + algorithm + " --threads " +
         std::to_string(configuration.threads) + " --prefer " +
         (configuration.prefer == mpe::Preference::kSpeed ? "speed" : "memory");
}

std::vector<Configuration> random_configurations(Random& random) {
  std::vector<std::string> sets;
  for (const mpe::KernelSetInfo& set : mpe::kernel_sets()) {
    if (set.supported && set.name != "reference") sets.emplace_back(set.name);
  }
  std::vector<Configuration> configurations;
  const auto add = [&](std::string_view isa, std::string_view algorithm) {
    constexpr int kThreads[] = {1, 1, 1, 2, 3, 5};
    const int threads = kThreads[random.integer(0, 5)];
    const bool speed = random.integer(0, 1) == 0;
    configurations.push_back({std::string(isa), std::string(algorithm), threads,
                              speed ? mpe::Preference::kSpeed : mpe::Preference::kMemory});
  };
  add("reference", "");
  for (const std::string& set : sets) {
    add(set, "");
    add(set, "reference");
  }
  for (const std::string_view algorithm : mpe::algorithms()) {
    if (algorithm == "reference") continue;
    const auto last = static_cast<int>(sets.size()) - 1;
    if (last >= 0) add(sets[static_cast<std::size_t>(random.integer(0, last))], algorithm);
    if (random.integer(0, 9) == 0) add("reference", algorithm);
  }
  return configurations;
}

Comparison::Comparison(NetworkFiles files, const std::vector<std::vector<float>>& images)
    : files_(std::move(files)), images_(images) {
  reference_ = outcome_of(kPlainLoops);
  if (!reference_.refusal.empty()) return;
  network_ = mpe::load_network(files_.cfg);
  picture_.assign(images_.front().begin(), images_.front().begin() + network_.input.elements());
  weights_ = load_weights(network_, files_.weights);
  compare(kPlainLoops, reference_);
}

mpe::Options Comparison::options_of(const Configuration& configuration) const {
  mpe::Options options;
  options.isa = configuration.isa;
  options.algorithm = configuration.algorithm;
  options.threads = configuration.threads;
  options.prefer = configuration.prefer;
  options.calibration = files_.calibration;
  return options;
}

void Comparison::find(const std::string& where, const std::string& what) {
  findings_.push_back(where + ": " + what);
}

Outcome Comparison::outcome_of(const Configuration& configuration) {
  Outcome outcome;
  ++runs_;
  try {
    mpe::Options options = options_of(configuration);
    options.keep_layers = true;
    mpe::Session session(files_.cfg, files_.weights, options);
    session.run(images_.front(),
                [&](int layer) { outcome.layers.push_back(read(session, layer)); });
    append_heads(session, outcome.heads);
    for (std::size_t i = 1; i < images_.size(); ++i) {
      session.run(images_[i]);
      append_heads(session, outcome.heads);
    }
    for (const mpe::LayerReport& report : session.reports()) {
      outcome.kernels.push_back({report.executed, report.isa, report.algorithm});
    }
    // Nothing of an image may be left in the session.
    session.run(images_.front());
    Tensors again;
    append_heads(session, again);
    for (std::size_t i = 0; i < again.size(); ++i) {
      if (same_bits(again[i], outcome.heads[i])) continue;
      find(name_of(configuration), "the first image gives other values the second time: " +
                                       first_difference(again[i], outcome.heads[i]));
    }
  } catch (const mpe::Error& error) {
    outcome.refusal = error.what();
  } catch (const std::exception& error) {
    find(name_of(configuration),
         "threw what is no error of the engine: " + std::string(error.what()));
  }
  return outcome;
}

Tensors Comparison::heads_of(const Configuration& configuration, bool keep_layers) const {
  mpe::Options options = options_of(configuration);
  options.keep_layers = keep_layers;
  mpe::Session session(files_.cfg, files_.weights, options);
  Tensors heads;
  for (const std::vector<float>& image : images_) {
    session.run(image);
    append_heads(session, heads);
  }
  return heads;
}

const std::vector<float>& Comparison::tensor(const Outcome& outcome, int layer) const {
  return layer == mpe::kNetworkInput ? picture_ : outcome.layers[static_cast<std::size_t>(layer)];
}

const Sums& Comparison::sums_for(const Layer& layer, const Kernel& kernel, const Outcome& outcome,
                                 bool same_input) {
  const auto index = static_cast<std::size_t>(layer.index);
  const auto compute = [&] {
    return sums_of(layer, kernel.precision, weights_.filters[index], weights_.biases[index],
                   tensor(outcome, layer.inputs[0]));
  };
  if (!same_input) return other_sums_ = compute();
  const auto found = reference_sums_.find(layer.index);
  if (found != reference_sums_.end()) return found->second;
  return reference_sums_[layer.index] = compute();
}

// With the same input, a layer must have the output of the plain loops: the same bits if it has no
// floating-point sums. These are compared with sums in double of the same input.
std::string Comparison::compare_layer(const Layer& layer, const Outcome& outcome) {
  const auto index = static_cast<std::size_t>(layer.index);
  const Kernel& kernel = outcome.kernels[index];
  const std::vector<float>& actual = outcome.layers[index];
  const std::vector<float>& expected = reference_.layers[index];
  bool same_input = true;
  for (const int input : layer.inputs) {
    same_input &= identical(tensor(outcome, input), tensor(reference_, input));
  }
  if (!layer.has_filters() || mpe::is_quantised(kernel.precision)) {
    if (!same_input || same_bits(actual, expected)) return {};
    return first_difference(actual, expected);
  }
  const Sums& sums = sums_for(layer, kernel, outcome, same_input);
  // In sums of halves, a finite term may overflow to the other infinity.
  if (!std::isfinite(sums.magnitude) && same_input && !sums_halves(kernel) &&
      !mixes_windows(layer, kernel)) {
    return other_kind(actual, expected);
  }
  return outside_bounds(layer, kernel, sums, actual);
}

void Comparison::compare(const Configuration& configuration, const Outcome& outcome) {
  // An algorithm that is asked for may need more memory than a layer may have.
  if (!configuration.algorithm.empty() && reference_.refusal.empty() &&
      outcome.refusal.ends_with("; choose another algorithm")) {
    return;
  }
  if (outcome.refusal != reference_.refusal) {
    find(name_of(configuration),
         "says '" + outcome.refusal + "', the plain loops '" + reference_.refusal + "'");
    return;
  }
  if (!outcome.refusal.empty() || outcome.kernels.empty()) return;
  for (const Layer& layer : network_.layers) {
    const Kernel& kernel = outcome.kernels[static_cast<std::size_t>(layer.index)];
    const std::string used = std::string(mpe::name_of(kernel.precision)) + " " +
                             std::string(kernel.isa) + " " + std::string(kernel.algorithm);
    if (layer.has_filters()) ++kernels_[used];
    const std::string difference = compare_layer(layer, outcome);
    if (difference.empty()) continue;
    find(name_of(configuration), "layer " + std::to_string(layer.index) + " (" +
                                     std::string(mpe::name_of(layer.kind)) + ", " + used +
                                     "): " + difference);
    return;  // what follows follows from it
  }
  if (only_int8() && !same_bits(outcome.heads, reference_.heads)) {
    find(name_of(configuration), "heads differ from the plain loops'");
  }
}

bool Comparison::run(const Configuration& configuration) {
  const Outcome outcome = outcome_of(configuration);
  compare(configuration, outcome);
  if (!outcome.refusal.empty() || outcome.kernels.empty()) {
    return outcome.refusal == reference_.refusal;
  }
  heads_[name_of(configuration)] = outcome.heads;
  // Layers computed within others, and outputs where others' were.
  ++runs_;
  if (only_int8() && !same_bits(heads_of(configuration, false), outcome.heads)) {
    find(name_of(configuration), "heads differ where layers are not kept");
  }
  return true;
}

void Comparison::run_at_once(const std::vector<Configuration>& configurations) {
  std::vector<std::future<Tensors>> running;
  running.reserve(configurations.size());
  for (const Configuration& configuration : configurations) {
    running.push_back(
        std::async(std::launch::async, [&] { return heads_of(configuration, true); }));
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    const std::string name = name_of(configurations[i]);
    ++runs_;
    try {
      if (!same_bits(running[i].get(), heads_[name])) {
        find(name, "heads differ where other sessions run at the same time");
      }
    } catch (const mpe::Error& error) {
      if (error.what() != reference_.refusal)
        find(name, "says at once with others: " + std::string(error.what()));
    }
  }
}

void Comparison::run_by_c(const Configuration& configuration) {
  ++runs_;
  mpe_options options = mpe_default_options();
  options.isa = configuration.isa.c_str();
  options.algorithm = configuration.algorithm.c_str();
  options.threads = configuration.threads;
  const bool speed = configuration.prefer == mpe::Preference::kSpeed;
  options.prefer = speed ? MPE_PREFER_SPEED : MPE_PREFER_MEMORY;
  options.calibration = files_.calibration.c_str();
  const std::string name = "by the C interface, " + name_of(configuration);
  mpe_session* session = mpe_open(files_.cfg.c_str(), files_.weights.c_str(), &options);
  if (session == nullptr) {
    if (mpe_error() != reference_.refusal) find(name, "says '" + std::string(mpe_error()) + "'");
    return;
  }
  Tensors heads;
  for (const std::vector<float>& image : images_) {
    if (mpe_run(session, image.data(), image.size()) != 0) find(name, mpe_error());
    for (int head = 0; head < mpe_head_count(session); ++head) {
      mpe_head description;
      if (mpe_describe_head(session, head, &description) != 0) find(name, mpe_error());
      heads.emplace_back(description.count);
      std::vector<float>& values = heads.back();
      if (mpe_read_head(session, head, values.data(), values.size()) != 0) find(name, mpe_error());
      // One value too few is refused.
      if (mpe_read_head(session, head, values.data(), values.size() - 1) == 0) {
        find(name, "a head is read into a buffer that is too small");
      }
    }
  }
  mpe_close(session);
  if (only_int8() && !same_bits(heads, reference_.heads)) find(name, "heads differ");
}

// Pooling in fp16 depends on the sign of NaN, and so does what follows it.
bool Comparison::only_int8() const {
  if (!reference_.refusal.empty() || has_nan(reference_.layers) || has_nan(reference_.heads)) {
    return false;
  }
  for (const Layer& layer : network_.layers) {
    const Kernel& kernel = reference_.kernels[static_cast<std::size_t>(layer.index)];
    if (layer.has_filters() && kernel.precision != Precision::kInt8) return false;
  }
  return true;
}

std::vector<std::string> Comparison::digests() const {
  std::vector<std::string> digests;
  if (!only_int8()) return digests;
  const std::size_t count = reference_.heads.size() / images_.size();
  for (std::size_t first = 0; first < reference_.heads.size(); first += count) {
    mpe::Sha256 hash;
    for (std::size_t i = first; i < first + count; ++i) {
      hash.update(std::as_bytes(std::span(reference_.heads[i])));
    }
    digests.push_back(hash.hex());
  }
  return digests;
}
