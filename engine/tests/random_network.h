// Random networks for tests: cfg and weights files that exist as long as the object does.
#pragma once

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "model/network.h"

struct Random {
  std::mt19937 engine;
  explicit Random(unsigned seed) : engine(seed) {}
  int integer(int low, int high) {
    return low + static_cast<int>(engine() % static_cast<unsigned>(high - low + 1));
  }
  float real(float low, float high) {
    return low + (high - low) * static_cast<float>(engine() % 65536U) / 65535.0F;
  }
  std::vector<float> values(std::int64_t count, float low, float high) {
    std::vector<float> result(static_cast<std::size_t>(count));
    for (float& value : result) value = real(low, high);
    return result;
  }
};

class ModelFiles {
 public:
  // Weights of the order of 1 / sqrt(terms), so that activations neither die nor explode.
  ModelFiles(const std::string& cfg_text, unsigned seed) {
    static int count = 0;
    const std::string stem =
        (std::filesystem::temp_directory_path() /
         ("mpe-test-" + std::to_string(getpid()) + "-" + std::to_string(count++)))
            .string();
    cfg = stem + ".cfg";
    weights = stem + ".weights";
    std::ofstream(cfg) << cfg_text;
    network = mpe::parse_network(cfg_text, cfg);
    write_weights(seed);
  }
  ~ModelFiles() {
    std::filesystem::remove(cfg);
    std::filesystem::remove(weights);
  }
  ModelFiles(const ModelFiles&) = delete;
  ModelFiles& operator=(const ModelFiles&) = delete;

  std::string cfg;
  std::string weights;
  mpe::Network network;
  std::vector<std::vector<float>> layer_weights;  // [layer], as in the file: no batch norm
  std::vector<std::vector<float>> layer_biases;

 private:
  void write_weights(unsigned seed) {
    Random random(seed);
    std::ofstream file(weights, std::ios::binary);
    const std::int32_t version[] = {0, 2, 0};
    const std::int64_t seen = 0;
    file.write(reinterpret_cast<const char*>(version), sizeof version);
    file.write(reinterpret_cast<const char*>(&seen), sizeof seen);
    for (const mpe::Layer& layer : network.layers) {
      layer_weights.emplace_back();
      layer_biases.emplace_back();
      if (layer.rules.weights == mpe::WeightsRule::kValues) {
        layer_weights.back() = random.values(layer.parameters, -1.0F, 1.0F);
        append(file, layer_weights.back());
      }
      if (!layer.has_filters()) continue;
      if (layer.batch_normalize) throw std::logic_error("batch norm is tested elsewhere");
      const std::int64_t count = layer.parameters - layer.out.channels;
      const float spread = 2.0F / std::sqrt(static_cast<float>(count / layer.out.channels));
      layer_biases.back() = random.values(layer.out.channels, -0.5F, 0.5F);
      layer_weights.back() = random.values(count, -spread, spread);
      append(file, layer_biases.back());
      append(file, layer_weights.back());
    }
  }

  static void append(std::ofstream& file, const std::vector<float>& values) {
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
};

// A cfg of three thin layers that are computed together by rows: the tensors between them are twice
// as large as this machine's second-level cache.
inline std::string thin_cfg() {
  constexpr int kWidth = 64;
  constexpr int kChannels = 24;
  const std::size_t row = kWidth * kChannels * sizeof(float);
  const std::string height = std::to_string(mpe::cpu_caches().second_bytes / row);
  return "[net]\nheight=" + height + "\nwidth=" + std::to_string(kWidth) +
         "\nchannels=8\n"
         "[convolutional]\nfilters=24\nactivation=leaky\n"
         "[convolutional]\nfilters=24\ngroups=24\nsize=3\npad=1\nactivation=swish\n"
         "[convolutional]\nfilters=8\nactivation=linear\n";
}

// The first layers of a detector: three whose tensors between them do not fit into the second-level
// cache.
inline std::string first_layers_cfg() {
  constexpr int kWidth = 128;
  constexpr int kChannels = 16;
  const std::size_t row = kWidth * kChannels * sizeof(float);
  const std::string height = std::to_string(2 * (mpe::cpu_caches().second_bytes / row + 20));
  return "[net]\nheight=" + height + "\nwidth=" + std::to_string(2 * kWidth) +
         "\nchannels=3\n"
         "[convolutional]\nfilters=16\nsize=3\nstride=2\npad=1\nactivation=swish\n"
         "[convolutional]\nfilters=32\nsize=3\nstride=2\npad=1\nactivation=leaky\n"
         "[convolutional]\nfilters=8\nactivation=linear\n";
}

// A cfg of about `length` layers of every kind that fits, from one seed. `precision` gives the keys
// of the next layer with weights.
template <typename Precision>
std::string random_cfg(Random& random, int length, Precision&& precision) {
  // One draw a statement: the order within an expression is the compiler's.
  const std::string width = std::to_string(random.integer(9, 24));
  const std::string height = std::to_string(random.integer(9, 24));
  std::string text = "[net]\nwidth=" + width + "\nheight=" + height + "\nchannels=3\n";
  const char* activations[] = {"linear", "leaky", "relu", "relu6", "logistic", "mish", "swish"};
  const auto activation = [&] {
    return std::string("activation=") + activations[random.integer(0, 6)] + "\n";
  };
  const auto conv = [&](int filters, const std::string& keys) {
    std::string section = "[convolutional]\nfilters=" + std::to_string(filters) + "\n" + keys;
    section += activation();
    section += precision();
    return section;
  };
  text += conv(random.integer(2, 9), "size=3\npad=1\n");
  for (int i = 1; i < length; ++i) {
    const mpe::Network so_far = mpe::parse_network(text, "random.cfg");
    const mpe::Shape shape = so_far.layers.back().out;
    const int last = static_cast<int>(so_far.layers.size()) - 1;
    const auto partner = [&](auto&& fits) {  // an earlier layer, or -1
      for (int attempt = 0; attempt < 8; ++attempt) {
        const int candidate = random.integer(0, last);
        if (fits(so_far.layers[static_cast<std::size_t>(candidate)])) return candidate;
      }
      return -1;
    };
    const auto terminal = [](const mpe::Layer& layer) {
      return layer.kind == mpe::LayerKind::kYolo;
    };
    if (terminal(so_far.layers.back())) {
      text += "[route]\nlayers=0\n";
      continue;
    }
    switch (random.integer(0, 14)) {
      case 0:
      case 1:
        text += conv(random.integer(1, 9), "size=3\npad=1\n");
        break;
      case 2:
        text += conv(random.integer(1, 9), "");
        break;
      case 3:
        text +=
            conv(shape.channels, "size=3\npad=1\ngroups=" + std::to_string(shape.channels) + "\n");
        break;
      case 4:
        text += conv(random.integer(1, 5), "size=3\npad=1\nstride=2\n");
        break;
      case 5:
        text += "[maxpool]\nstride=" + std::to_string(random.integer(1, 2));
        text += "\nsize=" + std::to_string(random.integer(2, 5)) + "\n";
        break;
      case 6:
      case 7: {
        const int from = partner(
            [&](const mpe::Layer& l) { return l.out == shape && l.index < last && !terminal(l); });
        if (from >= 0) {
          text += "[shortcut]\nfrom=" + std::to_string(from) + "\n" + activation();
        }
        break;
      }
      case 8:
      case 9: {
        const int from = partner([&](const mpe::Layer& l) {
          return l.out.height == shape.height && l.out.width == shape.width && !terminal(l);
        });
        if (from >= 0 && shape.channels < 40) {
          text += "[route]\nlayers=-1," + std::to_string(from) + "\n";
        }
        break;
      }
      case 10:
        if (shape.channels % 2 == 0) {
          text += "[route]\nlayers=-1\ngroups=2\ngroup_id=" + std::to_string(random.integer(0, 1)) +
                  "\n";
        }
        break;
      case 11:
        if (shape.width < 16 && shape.height < 16) text += "[upsample]\nstride=2\n";
        break;
      case 12:
        text += "[dropout]\n";
        break;
      case 13:
        if (random.integer(0, 1) == 0) {
          text += "[avgpool]\n" + conv(shape.channels, "") + "[scale_channels]\nfrom=-3\n" +
                  activation();
        } else {
          text += conv(6, "") + "[yolo]\nmask=0\nnum=1\nclasses=1\nanchors=1,1\n";
        }
        break;
      case 14: {  // kernels that reach far beyond the map, in groups or not
        const int size = 2 * random.integer(1, 4) + 1;
        const int dilation = random.integer(0, 1) == 0 ? random.integer(2, 16)
                                                       : random.integer(17, size < 7 ? 1024 : 512);
        const int groups = random.integer(0, 2) == 0 ? 1 : shape.channels;
        text +=
            conv(groups * random.integer(1, 2),
                 "size=" + std::to_string(size) + "\npad=1\ndilation=" + std::to_string(dilation) +
                     "\ngroups=" + std::to_string(groups) + "\n");
        break;
      }
    }
  }
  return text;
}
