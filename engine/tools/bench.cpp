// mpe bench: every sample of repeated inferences as JSON.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "commands.h"
#include "exec/resident_memory.h"
#include "exec/session.h"
#include "instruction_counter.h"
#include "io/json_writer.h"
#include "model/limits.h"

namespace mpe {
namespace {

// Closing these descriptors, which are never open, is a system call that a profiler from outside
// can see and nothing else does.
enum Mark : int {
  kWarmupBegins = 7777776,
  kLastRunBegins = 7777777,
  kLastRunEnded = 7777778,
  // With --profile, + the layer's index:
  kLayerEnded = 7780000,
  kInputConverted = 7785000,  // between precisions; not in layers whose input has theirs
  // With --profile and several threads, whose parts one thread then executes: + the thread whose
  // part of a parallel loop has ended. kPartEnded + kAlone: a loop begins.
  kPartEnded = 7790001,
};
static_assert(kLayerEnded + NetworkLimits::kLayers <= kInputConverted);
static_assert(kInputConverted + NetworkLimits::kLayers <= kPartEnded + kAlone);

Options session_options(const RunArguments& arguments) {
  Options options = arguments.session;
  if (arguments.mark && options.profile && options.threads > 1) {
    options.part_ended = [](int thread) { close(kPartEnded + thread); };
  }
  return options;
}

// Values between 0 and 1 that are the same on every machine.
std::vector<float> test_image(const Network& network) {
  std::vector<float> image(static_cast<std::size_t>(network.input_elements()));
  std::uint32_t state = 1;
  for (float& value : image) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) * 0x1p-24F;
  }
  return image;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

struct Samples {
  std::vector<std::int64_t> nanoseconds;  // one a run
  // Of an average run on one thread; several wait for each other by instructions that chance
  // counts.
  std::optional<std::int64_t> instructions;
  // [layer][run], with --profile
  std::vector<std::vector<std::int64_t>> layer_nanoseconds;
  std::vector<std::vector<std::int64_t>> conversion_nanoseconds;
};

class Bench {
 public:
  explicit Bench(const RunArguments& arguments)
      : arguments_(arguments),
        session_(arguments.cfg, arguments.weights, session_options(arguments)),
        image_(test_image(session_.network())) {}

  const Session& session() const { return session_; }

  Samples measure() {
    using Clock = std::chrono::steady_clock;
    if (arguments_.mark && arguments_.warmup > 0) close(kWarmupBegins);
    for (int i = 0; i < arguments_.warmup; ++i) session_.run(image_);

    std::function<void(int)> mark_of_layer;
    std::function<void(int)> mark_of_conversion;
    if (arguments_.mark && arguments_.session.profile) {
      mark_of_layer = [](int layer) { close(kLayerEnded + layer); };
      mark_of_conversion = [](int layer) { close(kInputConverted + layer); };
    }
    Samples samples;
    const std::size_t profiled = arguments_.session.profile ? session_.reports().size() : 0;
    samples.layer_nanoseconds.resize(profiled);
    samples.conversion_nanoseconds.resize(profiled);
    const InstructionCounter counter;
    const std::optional<std::int64_t> before = counter.read();
    const Clock::time_point begin = Clock::now();
    const std::chrono::duration<double> least(arguments_.min_seconds);
    const auto runs = static_cast<std::size_t>(arguments_.runs);
    bool last = false;
    while (!last) {
      // The last run has to be known before it starts: it is the one that is marked.
      const std::size_t done = samples.nanoseconds.size();
      last = done + 1 >= runs && Clock::now() - begin >= least - mean_of(samples);
      if (last && arguments_.mark) close(kLastRunBegins);
      const Clock::time_point start = Clock::now();
      session_.run(image_, last ? mark_of_layer : nullptr, last ? mark_of_conversion : nullptr);
      const Clock::time_point end = Clock::now();
      if (last && arguments_.mark) close(kLastRunEnded);
      samples.nanoseconds.push_back(
          std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
      for (std::size_t i = 0; i < profiled; ++i) {
        const LayerReport& row = session_.reports()[i];
        samples.layer_nanoseconds[i].push_back(row.nanoseconds);
        samples.conversion_nanoseconds[i].push_back(row.conversion_nanoseconds);
      }
    }
    const std::optional<std::int64_t> after = counter.read();
    if (before && after && session_.threads() == 1) {
      const auto count = static_cast<std::int64_t>(samples.nanoseconds.size());
      samples.instructions = (*after - *before) / count;
    }
    return samples;
  }

 private:
  static std::chrono::duration<double> mean_of(const Samples& samples) {
    double sum = 0.0;
    for (const std::int64_t sample : samples.nanoseconds) sum += static_cast<double>(sample);
    const auto count = static_cast<double>(std::max<std::size_t>(samples.nanoseconds.size(), 1));
    return std::chrono::duration<double, std::nano>(sum / count);
  }

  const RunArguments& arguments_;
  Session session_;
  std::vector<float> image_;
};

void write_layers(JsonWriter& json, const Session& session, const Samples& samples) {
  json.key("layers").begin_array();
  for (std::size_t i = 0; i < samples.layer_nanoseconds.size(); ++i) {
    const Layer& layer = session.network().layers[i];
    const LayerReport& report = session.reports()[i];
    json.begin_object().field("index", layer.index).field("type", name_of(layer.kind));
    json.field("precision", name_of(layer.precision)).field("executed", name_of(report.executed));
    json.field("isa", report.isa).field("algorithm", report.algorithm);
    json.field("ns", median(samples.layer_nanoseconds[i]));
    json.field("conversion_ns", median(samples.conversion_nanoseconds[i]));
    json.field("bytes", report.bytes).field("by_rows", report.by_rows);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

int run_bench(std::span<char*> arguments) {
  const RunArguments parsed = parse_arguments(Command::kBench, arguments);
  Bench bench(parsed);
  const Session& session = bench.session();
  print_warnings(session.warnings());
  const Samples samples = bench.measure();

  JsonWriter json;
  json.begin_object();
  json.key("samples_ns").begin_array();
  for (const std::int64_t sample : samples.nanoseconds) json.value(sample);
  json.end_array();
  json.field("median_ns", median(samples.nanoseconds));
  json.field("min_ns", *std::min_element(samples.nanoseconds.begin(), samples.nanoseconds.end()));
  json.field("arena_bytes", session.arena_bytes()).field("live_bytes", session.live_bytes());
  json.field("weight_bytes", session.weight_bytes());
  if (samples.instructions) {
    json.field("instructions", *samples.instructions);
  } else {
    json.key("instructions").null();
  }
  json.field("peak_rss_bytes", peak_resident_bytes());
  json.field("threads", session.threads()).field("isa", session.isa());
  json.field("quantizer", parsed.session.quantizer).field("warmup", parsed.warmup);
  write_layers(json, session, samples);
  json.end_object();
  std::printf("%s\n", json.text().c_str());
  return 0;
}

}  // namespace mpe
