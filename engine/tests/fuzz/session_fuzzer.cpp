// Any small network that the cfg parser accepts also runs, on the fast kernels and on the plain
// loops, and both give the same bits where every sum is formed in int8.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "exec/session.h"
#include "io/json_writer.h"
#include "model/network.h"
#include "model/weights.h"

namespace {

using mpe::Layer;
using mpe::Network;

std::string path_of(const char* name) {
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder == nullptr ? "/tmp" : folder) + "/session_fuzzer." +
         std::to_string(getpid()) + "." + name;
}

// A session reads files; these are written anew for every network and removed at the end.
struct Files {
  const std::string cfg = path_of("cfg");
  const std::string weights = path_of("weights");
  const std::string calibration = path_of("json");
  ~Files() {
    for (const std::string* path : {&cfg, &weights, &calibration}) std::remove(path->c_str());
  }
};

void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

bool small(const Network& network) {
  std::int64_t elements = network.input.elements();
  std::int64_t macs = 0;
  for (const Layer& layer : network.layers) {
    elements += layer.out.elements();
    const mpe::LayerGeometry of = layer.operation->geometry();
    macs += layer.macs + layer.out.elements() * of.size_y * of.size_x;
  }
  return network.layers.size() <= 48 && elements <= 200'000 && macs <= 2'000'000 &&
         mpe::weights_file_bytes(network) <= 400'000;
}

// Values from 0.1 to 0.9: never a variance below zero, nothing that overflows soon.
float next_value(std::uint32_t& state) {
  state = state * 1664525U + 1013904223U;
  return 0.1F + 0.8F * static_cast<float>(state >> 8) / 16777216.0F;
}

void write_weights(const Network& network, const std::string& path) {
  std::string bytes(20, '\0');
  bytes[4] = 2;  // version 0.2
  std::uint32_t state = 1;
  const auto count =
      (static_cast<std::size_t>(mpe::weights_file_bytes(network)) - bytes.size()) / sizeof(float);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = next_value(state);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  write(path, bytes);
}

void write_calibration(const Network& network, const std::string& path) {
  mpe::JsonWriter json;
  json.begin_object().field("format", "mpe-calibration").field("version", 1);
  json.key("tensors").begin_array();
  for (int layer = mpe::kNetworkInput; layer < static_cast<int>(network.layers.size()); ++layer) {
    const int channels = network.output_shape(layer).channels;
    json.begin_object().field("layer", layer).field("min", -1.0F).field("max", 3.0F);
    for (const char* key : {"channel_min", "channel_max"}) {
      json.key(key).begin_array();
      for (int c = 0; c < channels; ++c) {
        json.value(std::strcmp(key, "channel_min") == 0 ? -1.0F : 1.0F + static_cast<float>(c % 3));
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().end_object();
  write(path, json.text());
}

// Every head of one run.
std::vector<std::vector<float>> run(const Files& files, const std::string& algorithm, int threads,
                                    bool& all_int8) {
  mpe::Options options;
  options.algorithm = algorithm;
  options.threads = threads;
  options.calibration = files.calibration;
  mpe::Session session(files.cfg, files.weights, options);
  std::uint32_t state = 7;
  std::vector<float> input(static_cast<std::size_t>(session.network().input_elements()));
  for (float& value : input) value = next_value(state);
  session.run(input);
  for (const Layer& layer : session.network().layers) {
    const auto executed = session.reports()[static_cast<std::size_t>(layer.index)].executed;
    all_int8 &= !layer.has_filters() || executed == mpe::Precision::kInt8;
  }
  std::vector<std::vector<float>> heads;
  for (const int head : session.heads()) {
    heads.emplace_back(static_cast<std::size_t>(session.network().output_shape(head).elements()));
    session.read(head, heads.back());
  }
  return heads;
}

// One NaN is like another: its sign depends on the order of operands.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::memcmp(&x, &y, sizeof(float)) == 0 || (std::isnan(x) && std::isnan(y));
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Network network = mpe::parse_network(text, files.cfg);
    if (!small(network)) return 0;
    write(files.cfg, text);
    write_weights(network, files.weights);
    write_calibration(network, files.calibration);
    bool all_int8 = true;
    const auto fast = run(files, "", 2, all_int8);
    const auto plain = run(files, "reference", 1, all_int8);
    if (fast.size() != plain.size()) std::abort();
    for (std::size_t i = 0; all_int8 && i < fast.size(); ++i) {
      if (!same_bits(fast[i], plain[i])) std::abort();
    }
  } catch (const mpe::Error&) {
  }
  return 0;
}
