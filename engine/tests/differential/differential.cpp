// Random networks in every configuration that this machine can run, each from a seed of its own.
//
//   differential --seed 1 --count 100 [--seconds S] [--limit 120] [--folder DIR]
//   differential --seed 17 --count 1 --only-write --folder DIR
//
// Prints "seed N" before a network and one JSON object after it. The files of a network stay in the
// folder until the next one. A network that takes more processor time than the limit, in seconds,
// or ten times as long altogether, ends the program (SIGPROF, SIGALRM). Exit status 1 where a
// configuration gives anything that it may not.
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "configurations.h"
#include "error.h"
#include "exec/session.h"
#include "io/json_writer.h"
#include "io/npy.h"
#include "random_cfg.h"
#include "random_values.h"

namespace {

using mpe::Network;

struct Arguments {
  unsigned seed = 1;
  unsigned count = 1;
  double seconds = 1e9;
  unsigned limit = 120;  // processor seconds for one network
  std::string folder = std::filesystem::temp_directory_path().string();
  bool only_write = false;
};

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--only-write") {
      arguments.only_write = true;
      continue;
    }
    if (i + 1 == count) throw std::invalid_argument(word + " needs a value");
    const char* value = words[++i];
    if (word == "--seed") {
      arguments.seed = static_cast<unsigned>(std::stoul(value));
    } else if (word == "--count") {
      arguments.count = static_cast<unsigned>(std::stoul(value));
    } else if (word == "--seconds") {
      arguments.seconds = std::stod(value);
    } else if (word == "--limit") {
      arguments.limit = static_cast<unsigned>(std::stoul(value));
    } else if (word == "--folder") {
      arguments.folder = value;
    } else {
      throw std::invalid_argument("there is no option " + word);
    }
  }
  return arguments;
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

void write_images(const std::string& path, const Network& network,
                  const std::vector<std::vector<float>>& images) {
  std::int64_t shape[] = {std::ssize(images), network.input.channels, network.input.height,
                          network.input.width};
  if (network.input_elements() != network.input.elements()) {
    shape[1] = network.input_elements();
    shape[2] = shape[3] = 1;
  }
  mpe::NpyWriter file(path, shape);
  for (const std::vector<float>& image : images) file.write(image);
  file.finish();
}

MeasuredRange measured(const std::vector<float>& values, int channels) {
  MeasuredRange range;
  const std::size_t plane = values.size() / static_cast<std::size_t>(channels);
  for (std::size_t first = 0; first < values.size(); first += plane) {
    float low = 0.0F;
    float high = 0.0F;
    for (std::size_t i = first; i < first + plane; ++i) {
      if (values[i] < low && std::isfinite(values[i])) low = values[i];
      if (values[i] > high && std::isfinite(values[i])) high = values[i];
    }
    range.channel_min.push_back(low);
    range.channel_max.push_back(high);
  }
  return range;
}

// The ranges of a run of the plain loops in fp32; none where the engine refuses the network.
std::vector<MeasuredRange> measure(const std::string& cfg, const std::string& weights,
                                   const Network& network, const std::vector<float>& image) {
  std::vector<MeasuredRange> ranges(network.layers.size() + 1);
  try {
    mpe::Options options;
    options.isa = options.algorithm = "reference";
    options.keep_layers = true;
    mpe::Session session(cfg, weights, options);
    ranges[0] =
        measured({image.begin(), image.begin() + network.input.elements()}, network.input.channels);
    session.run(image, [&](int layer) {
      const mpe::Shape& shape = network.output_shape(layer);
      std::vector<float> values(static_cast<std::size_t>(shape.elements()));
      session.read(layer, values);
      ranges[static_cast<std::size_t>(layer + 1)] = measured(values, shape.channels);
    });
  } catch (const mpe::Error&) {
  }
  return ranges;
}

// A network's files, written before the engine reads them.
struct Model {
  NetworkFiles files;
  std::vector<std::vector<float>> images;
};

Model write_model(const std::string& folder, Random& random) {
  const std::string stem = folder + "/network";
  Model model;
  model.files = {stem + ".cfg", stem + ".weights", {}};
  const RandomCfg cfg = random_differential_cfg(random);
  write(model.files.cfg, cfg.text);
  write(model.files.weights, "");
  for (const char* left : {".json", ".npy"}) std::filesystem::remove(stem + left);
  Network network;
  try {
    network = mpe::load_network(model.files.cfg);
  } catch (const mpe::Error&) {
    model.images.emplace_back();
    return model;
  }
  const Nature nature = random_nature(random);
  write(model.files.weights, random_weights(network, nature, random));
  for (int i = 0; i < 2; ++i) model.images.push_back(random_image(network, nature, random));
  write_images(stem + ".npy", network, model.images);
  // Without one, int8 with quantize=0 is refused.
  const bool given = random.integer(0, 29) > 0;
  if (cfg.policy == Policy::kFp32 || cfg.policy == Policy::kFp16 || !given) return model;
  const std::string plain = stem + ".fp32.cfg";
  write(plain, without_precisions(cfg.text));
  const std::vector<MeasuredRange> ranges =
      measure(plain, model.files.weights, network, model.images.front());
  model.files.calibration = stem + ".json";
  write(model.files.calibration, random_calibration(network, ranges, nature, random));
  return model;
}

// Returns whether all is as it must be.
bool compare(unsigned seed, const Model& model, Random& random) {
  std::vector<Configuration> configurations = random_configurations(random);
  Comparison comparison(model.files, model.images);
  std::erase_if(configurations,
                [&](const Configuration& configuration) { return !comparison.run(configuration); });
  if (configurations.empty()) configurations.emplace_back();
  const auto any = [&] {
    const auto last = static_cast<int>(configurations.size()) - 1;
    return configurations[static_cast<std::size_t>(random.integer(0, last))];
  };
  comparison.run_by_c(any());
  const Configuration first = any();
  const Configuration second = any();
  comparison.run_at_once({first, second, any()});

  mpe::JsonWriter json;
  json.begin_object().field("seed", seed).field("runs", comparison.runs());
  json.field("refused", comparison.reference().refusal);
  json.key("int8_digests").begin_array();
  for (const std::string& digest : comparison.digests()) json.value(digest);
  json.end_array().key("kernels").begin_object();
  for (const auto& [kernel, layers] : comparison.kernels()) json.field(kernel, layers);
  json.end_object().key("findings").begin_array();
  for (const std::string& finding : comparison.findings()) json.value(finding);
  json.end_array().end_object();
  std::printf("%s\n", json.text().c_str());
  std::fflush(stdout);
  return comparison.findings().empty();
}

// 0: as long as it takes. The processors may have other work, but not for ever.
void limit_time(unsigned seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
  alarm(10 * seconds);
}

int run(const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(std::min(arguments.seconds, 1e8)));
  std::filesystem::create_directories(arguments.folder);
  bool right = true;
  for (unsigned i = 0; i < arguments.count && Clock::now() < end; ++i) {
    const unsigned seed = arguments.seed + i;
    std::printf("seed %u\n", seed);
    std::fflush(stdout);
    limit_time(arguments.limit);
    Random random(seed);
    const Model model = write_model(arguments.folder, random);
    if (!arguments.only_write) right &= compare(seed, model, random);
    limit_time(0);
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(parse(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "differential: %s\n", error.what());
    return 2;
  }
}
