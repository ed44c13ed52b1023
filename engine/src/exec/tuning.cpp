#include "exec/tuning.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "error.h"
#include "io/file.h"
#include "io/json_reader.h"
#include "io/json_writer.h"
#include "io/text.h"
#include "kernels/aligned_buffer.h"
#include "kernels/kernel_sets.h"
#include "kernels/sizes.h"

namespace mpe {
namespace {

constexpr std::string_view kFormat = "mpe-tuning";
constexpr std::size_t kMostBytes = 64 << 20;
constexpr int kRuns = 7;
constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
// More than the caches of any board hold.
constexpr std::size_t kMostMebibytes = 64;

// Rounded up to a power of two, so that networks of nearly the same size share their times.
int rounded_mebibytes(std::size_t bytes) {
  return static_cast<int>(
      std::bit_ceil(std::clamp<std::size_t>(divide_up(bytes, kMebibyte), 1, kMostMebibytes)));
}

// Reads and writes as much as the network's other layers do, on all threads: what was in their
// caches gives way.
void touch(AlignedBuffer& other_layers, ThreadPool& pool) {
  pool.parallel_for(
      static_cast<int>(other_layers.size() / kCacheLine), [&](int, int begin, int end) {
        auto* line = other_layers.data() + static_cast<std::size_t>(begin) * kCacheLine;
        for (int i = begin; i < end; ++i, line += kCacheLine) *line ^= std::byte{1};
      });
}

std::string size_of(const Shape& shape) {
  return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

std::string layer_name(const ConvolutionRequest& request, const ConvolutionChoice& choice,
                       int threads, int other_mebibytes) {
  const ConvolutionShape& s = request.shape;
  const auto pair = [](int y, int x) { return std::to_string(y) + "x" + std::to_string(x); };
  std::string name = size_of(s.in) + " to " + size_of(s.out) + ", kernel " +
                     pair(s.kernel_y, s.kernel_x) + ", stride " + pair(s.stride_y, s.stride_x) +
                     ", padding " + pair(s.padding_y, s.padding_x) + ", dilation " +
                     pair(s.dilation_y, s.dilation_x) + ", groups " + std::to_string(s.groups) +
                     ", " + std::string(name_of(request.precision)) + " to " +
                     std::string(name_of(request.output_precision));
  if (request.precision == Precision::kInt8 && request.input == nullptr) name += ", dynamic";
  if (request.may_pool) name += ", may pool";
  if (choice.small_scratch) name += ", small";
  if (!choice.isa.empty()) name += ", " + std::string(choice.isa);
  name += ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  return name + ", beside " + std::to_string(other_mebibytes) + " MiB";
}

std::size_t value_bytes(const Shape& shape, Precision precision) {
  return static_cast<std::size_t>(shape.elements()) * value_size(precision);
}

// Writes an ordinary number in every precision: no kernel's time depends on which. The threads
// write as those do that compute the layer before.
void fill(AlignedBuffer& buffer, Precision precision, ThreadPool& pool) {
  const auto with = [&]<typename Value>(Value value) {
    pool.parallel_for(static_cast<int>(buffer.size() / sizeof(Value)),
                      [&](int, int begin, int end) {
                        std::fill_n(buffer.as<Value>() + begin, end - begin, value);
                      });
  };
  if (precision == Precision::kFp32) return with(1.0F);
  constexpr std::uint16_t kOneAsHalf = 0x3C00;
  if (precision == Precision::kFp16) return with(kOneAsHalf);
  with(std::int8_t{1});
}

// What a line of /proc/cpuinfo says after its colon, without blanks around it; "" for nothing.
std::string after_colon(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  line.remove_prefix(colon + 1);
  const std::size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return std::string(line.substr(first, line.find_last_not_of(kBlanks) - first + 1));
}

std::string own_name() {
  utsname system{};
  if (uname(&system) != 0) return "an unnamed processor";
  return "an unnamed processor of " + std::string(system.nodename);
}

}  // namespace

std::string machine_name(const std::string& cpuinfo) {
  std::ifstream file(cpuinfo);
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    for (const std::string_view key :
         {"model name", "CPU implementer", "CPU variant", "CPU part", "CPU revision"}) {
      if (!line.starts_with(key)) continue;
      const std::string name = after_colon(line);
      if (!name.empty()) names.insert(name);
    }
  }
  if (names.empty()) names.insert(own_name());
  std::string all;
  for (const std::string& name : names) all += name + ", ";
  return all + std::string(best_kernel_set());
}

Tuning::Tuning(std::string path, std::size_t network_bytes,
               std::function<void(const std::string&)> measuring)
    : path_(std::move(path)),
      other_mebibytes_(rounded_mebibytes(network_bytes)),
      measuring_(std::move(measuring)),
      machine_(machine_name()) {
  if (access(path_.c_str(), F_OK) == 0) read();
}

void Tuning::read() {
  const std::string text = read_file(path_, kMostBytes);
  JsonReader reader(text, path_);
  bool format = false;
  const auto choice = [&](Choices& choices) {
    std::string layer;
    Choice kept;
    reader.object([&](std::string_view key) {
      if (key == "layer") {
        layer = reader.string();
      } else if (key == "algorithm") {
        kept.algorithm = reader.string();
      } else if (key == "ns") {
        reader.object([&](std::string_view algorithm) {
          kept.nanoseconds[std::string(algorithm)] =
              reader.integer(0, std::numeric_limits<std::int64_t>::max());
        });
      } else {
        reader.skip();
      }
    });
    choices[layer] = std::move(kept);
  };
  reader.object([&](std::string_view key) {
    if (key == "format") {
      const std::size_t start = reader.offset();
      format = reader.string() == kFormat;
      if (!format) reader.fail(start, "the format is not " + quoted(kFormat));
    } else if (key == "version") {
      reader.integer(1, 1);
    } else if (key == "machines") {
      reader.array([&] {
        std::string machine;
        Choices choices;
        reader.object([&](std::string_view name) {
          if (name == "machine") {
            machine = reader.string();
          } else if (name == "choices") {
            reader.array([&] { choice(choices); });
          } else {
            reader.skip();
          }
        });
        machines_[machine] = std::move(choices);
      });
    } else {
      reader.skip();
    }
  });
  reader.end();
  if (!format) reader.fail(0, "this is no file of mpe --tune; name another, or remove it");
}

std::string Tuning::algorithm_for(const ConvolutionRequest& request,
                                  const ConvolutionChoice& choice, ThreadPool& pool) {
  const std::string layer = layer_name(request, choice, pool.threads(), other_mebibytes_);
  Choices& choices = machines_[machine_];
  const auto kept = choices.find(layer);
  // An algorithm of another version of the engine may be gone.
  const auto names = competing_algorithms();
  if (kept != choices.end() && std::ranges::count(names, kept->second.algorithm) > 0) {
    return kept->second.algorithm;
  }
  if (measuring_) measuring_(layer);
  changed_ = true;
  return (choices[layer] = measure(request, choice, pool)).algorithm;
}

Tuning::Choice Tuning::measure(const ConvolutionRequest& request, ConvolutionChoice choice,
                               ThreadPool& pool) {
  using Clock = std::chrono::steady_clock;
  AlignedBuffer input(value_bytes(request.shape.in, request.precision));
  AlignedBuffer output(value_bytes(request.shape.out, request.output_precision));
  if (other_layers_.size() == 0) {
    other_layers_ = AlignedBuffer(static_cast<std::size_t>(other_mebibytes_) * kMebibyte);
  }
  const ScaleAndZero range{0.05F, 0};
  const bool dynamic = request.precision == Precision::kInt8 && request.input == nullptr;
  Choice best;
  for (const std::string_view name : competing_algorithms()) {
    choice.algorithm = name;
    const std::unique_ptr<Convolution> convolution = make_convolution(request, choice);
    const std::size_t scratch_bytes = convolution->scratch_bytes(pool.threads());
    if (convolution->algorithm() != name ||
        scratch_bytes > scratch_limit(request.shape, pool.threads())) {
      continue;  // it does not suit the shape
    }
    AlignedBuffer scratch(std::max<std::size_t>(scratch_bytes, 1));
    const ConvolutionCall call{input.data(), output.data(), scratch.data(),
                               dynamic ? &range : nullptr};
    // The shortest: whatever else runs on the machine only adds to a time.
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    fill(input, request.precision, pool);
    convolution->run(call, pool);
    for (int run = 0; run < kRuns; ++run) {
      touch(other_layers_, pool);
      fill(input, request.precision, pool);
      const Clock::time_point start = Clock::now();
      convolution->run(call, pool);
      const auto taken = std::chrono::nanoseconds(Clock::now() - start);
      least = std::min<std::int64_t>(least, taken.count());
    }
    best.nanoseconds[std::string(name)] = least;
    if (best.algorithm.empty() || least < best.nanoseconds[best.algorithm]) best.algorithm = name;
  }
  return best;
}

void Tuning::save() {
  if (!changed_) return;
  JsonWriter json;
  json.begin_object().field("format", kFormat).field("version", 1).key("machines").begin_array();
  for (const auto& [machine, choices] : machines_) {
    json.begin_object().field("machine", std::string_view(machine)).key("choices").begin_array();
    for (const auto& [layer, choice] : choices) {
      json.begin_object().field("layer", std::string_view(layer));
      json.field("algorithm", std::string_view(choice.algorithm)).key("ns").begin_object();
      for (const auto& [name, time] : choice.nanoseconds) json.field(name, time);
      json.end_object().end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();

  const std::string unfinished = path_ + "." + std::to_string(getpid()) + ".part";
  std::ofstream file(unfinished, std::ios::binary);
  file << json.text() << "\n";
  file.close();
  if (!file || std::rename(unfinished.c_str(), path_.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(unfinished.c_str());
    throw Error(path_ + ": cannot write: " + why);
  }
  changed_ = false;
}

}  // namespace mpe
