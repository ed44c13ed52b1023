// Whole networks: random ones of every layer kind against loops written here straight from the
// definitions, with a buffer of its own for every tensor, so that neither the kernels nor the
// sharing of memory can hide a mistake from the other.
#include "exec/session.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "kernels/kernel_sets.h"
#include "layers/maxpool.h"
#include "layers/route.h"
#include "layers/upsample.h"
#include "random_network.h"

using namespace mpe;

namespace {

using Tensor = std::vector<double>;

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kLeaky:
      return x < 0 ? 0.1 * x : x;
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kRelu6:
      return std::clamp(x, 0.0, 6.0);
    case Activation::kLogistic:
      return 1 / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kMish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case Activation::kSwish:
      return x / (1 + std::exp(-x));
    case Activation::kHardMish:
      return x > 0 ? x : x > -2 ? x * x / 2 + x : 0;
    default:
      return x;
  }
}

// Evaluates a network in double, one tensor after another.
class Definition {
 public:
  Definition(const ModelFiles& files, const std::vector<float>& input)
      : files_(files), input_(input.begin(), input.end()) {
    for (const Layer& layer : files.network.layers) outputs_.push_back(compute(layer));
  }

  const Tensor& output(int layer) const {
    return layer == kNetworkInput ? input_ : outputs_[static_cast<std::size_t>(layer)];
  }

 private:
  static double at(const Tensor& tensor, const Shape& shape, int c, int y, int x, double outside) {
    if (y < 0 || y >= shape.height || x < 0 || x >= shape.width) return outside;
    return tensor[(static_cast<std::size_t>(c) * shape.height + y) * shape.width + x];
  }

  double sum_of(const Layer& layer, const Tensor& in, int c, int y, int x) const {
    const std::vector<float>& weights = files_.layer_weights[static_cast<std::size_t>(layer.index)];
    const ConvolutionShape& shape = *layer.operation->convolution();
    const int group_inputs = layer.in.channels / shape.groups;
    const int first = c / (layer.out.channels / shape.groups) * group_inputs;
    double sum =
        files_.layer_biases[static_cast<std::size_t>(layer.index)][static_cast<std::size_t>(c)];
    std::size_t w = static_cast<std::size_t>(c) * group_inputs * shape.kernel_y * shape.kernel_x;
    for (int i = 0; i < group_inputs; ++i) {
      for (int ky = 0; ky < shape.kernel_y; ++ky) {
        for (int kx = 0; kx < shape.kernel_x; ++kx, ++w) {
          sum += static_cast<double>(weights[w]) *
                 at(in, layer.in, first + i,
                    y * shape.stride_y + ky * shape.dilation_y - shape.padding_y,
                    x * shape.stride_x + kx * shape.dilation_x - shape.padding_x, 0.0);
        }
      }
    }
    return sum;
  }

  double value(const Layer& layer, int c, int y, int x) const {
    const Tensor& in = output(layer.inputs[0]);
    switch (layer.kind) {
      case LayerKind::kConvolutional:
        return activated(layer.activation, sum_of(layer, in, c, y, x));
      case LayerKind::kMaxpool: {
        const auto& pool = parameters_of<Window>(layer);
        double largest = -1e30;
        for (int ky = 0; ky < pool.y.size; ++ky) {
          for (int kx = 0; kx < pool.x.size; ++kx) {
            largest = std::max(largest, at(in, layer.in, c, y * pool.y.stride + ky - pool.y.before,
                                           x * pool.x.stride + kx - pool.x.before, -1e30));
          }
        }
        return largest;
      }
      case LayerKind::kAvgpool: {
        double sum = 0;
        const int count = layer.in.height * layer.in.width;
        for (int i = 0; i < count; ++i) sum += in[static_cast<std::size_t>(c) * count + i];
        return sum / count;
      }
      case LayerKind::kUpsample: {
        const int stride = parameters_of<UpsampleParameters>(layer).stride;
        return at(in, layer.in, c, y / stride, x / stride, 0);
      }
      case LayerKind::kShortcut: {
        double sum = 0;
        for (const int input : layer.inputs) sum += at(output(input), layer.out, c, y, x, 0);
        return activated(layer.activation, sum);
      }
      case LayerKind::kScaleChannels:
        return activated(layer.activation, in[static_cast<std::size_t>(c)] *
                                               at(output(layer.inputs[1]), layer.out, c, y, x, 0));
      case LayerKind::kRoute: {
        const auto& route = parameters_of<RouteParameters>(layer);
        for (const int input : layer.inputs) {
          const Shape& shape = files_.network.output_shape(input);
          const int share = shape.channels / route.groups;
          if (c < share) return at(output(input), shape, route.group_id * share + c, y, x, 0);
          c -= share;
        }
        return 0;
      }
      default:
        return at(in, layer.in, c, y, x, 0);
    }
  }

  Tensor compute(const Layer& layer) const {
    Tensor result;
    for (int c = 0; c < layer.out.channels; ++c) {
      for (int y = 0; y < layer.out.height; ++y) {
        for (int x = 0; x < layer.out.width; ++x) result.push_back(value(layer, c, y, x));
      }
    }
    return result;
  }

  const ModelFiles& files_;
  Tensor input_;
  std::vector<Tensor> outputs_;
};

// The largest difference, relative to the largest value (at least 1).
double difference(const std::vector<float>& actual, const Tensor& expected) {
  double largest = 1;
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    const double here = std::fabs(static_cast<double>(actual[i]) - expected[i]);
    worst = here <= worst ? worst : here;  // NaN counts
  }
  return worst / largest;
}

std::vector<float> output_of(Session& session, int layer) {
  std::vector<float> values(
      static_cast<std::size_t>(session.network().output_shape(layer).elements()));
  session.read(layer, values);
  return values;
}

std::vector<std::vector<float>> heads_of(Session& session) {
  std::vector<std::vector<float>> heads;
  for (const int head : session.heads()) heads.push_back(output_of(session, head));
  return heads;
}

std::vector<float> image_for(const Network& network, unsigned seed) {
  Random random(seed);
  return random.values(network.input.elements(), 0.0F, 1.0F);
}

Options options(const std::string& isa, int threads, Preference prefer) {
  Options result;
  result.isa = isa;
  result.threads = threads;
  result.prefer = prefer;
  return result;
}

// A calibration file with the ranges that one image gives.
std::string write_calibration(const ModelFiles& files, const Definition& definition) {
  const auto list = [](const std::vector<double>& values) {
    std::string text;
    for (const double value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
    return "[" + text + "]";
  };
  std::string text = "{\"format\":\"mpe-calibration\",\"version\":1,\"network\":{\"layers\":" +
                     std::to_string(files.network.layers.size()) + ",\"input\":[3," +
                     std::to_string(files.network.input.height) + "," +
                     std::to_string(files.network.input.width) + "]},\"tensors\":[";
  for (int layer = kNetworkInput; layer < static_cast<int>(files.network.layers.size()); ++layer) {
    const Tensor& values = definition.output(layer);
    const int channels = files.network.output_shape(layer).channels;
    const std::size_t plane = values.size() / static_cast<std::size_t>(channels);
    std::vector<double> low;
    std::vector<double> high;
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
      const auto [least, most] =
          std::minmax_element(values.begin() + static_cast<std::ptrdiff_t>(c * plane),
                              values.begin() + static_cast<std::ptrdiff_t>((c + 1) * plane));
      low.push_back(*least);
      high.push_back(*most);
    }
    text += std::string(layer == kNetworkInput ? "" : ",") + "{\"layer\":" + std::to_string(layer) +
            ",\"min\":" + std::to_string(*std::min_element(low.begin(), low.end())) +
            ",\"max\":" + std::to_string(*std::max_element(high.begin(), high.end())) +
            ",\"channel_min\":" + list(low) + ",\"channel_max\":" + list(high) + "}";
  }
  const std::string path = files.cfg + ".calibration.json";
  std::ofstream(path) << text << "]}";
  return path;
}

std::vector<std::string> supported_sets() {
  std::vector<std::string> names;
  for (const KernelSetInfo& set : kernel_sets()) {
    if (set.supported) names.emplace_back(set.name);
  }
  return names;
}

}  // namespace

TEST(random_networks_in_float_give_what_the_definitions_say) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const ModelFiles files(random_cfg(random, 14, [] { return ""; }), seed);
    const std::vector<float> image = image_for(files.network, seed);
    const Definition definition(files, image);
    Options chosen = options(seed % 2 == 0 ? "" : "reference", 1 + static_cast<int>(seed % 3),
                             seed % 4 < 2 ? Preference::kSpeed : Preference::kMemory);
    chosen.keep_layers = true;
    Session session(files.cfg, files.weights, chosen);
    double worst = 0;
    session.run(image, [&](int layer) {
      worst = std::max(worst, difference(output_of(session, layer), definition.output(layer)));
    });
    // The heads must still be there, and without the observer too.
    session.run(image);
    for (const int head : session.heads()) {
      worst = std::max(worst, difference(output_of(session, head), definition.output(head)));
    }
    if (!(worst < 2e-5))
      check::fail(__FILE__, __LINE__,
                  "seed " + std::to_string(seed) + " differs by " + std::to_string(worst));
  }
}

TEST(random_networks_in_mixed_precision_stay_near_float) {
  int conversions = 0;
  for (unsigned seed = 100; seed < 130; ++seed) {
    Random random(seed);
    const char* keys[] = {"int8=1\n", "int8=1\nquantize=1\n", "fp16=1\n", "", "int8=1\n"};
    const ModelFiles files(random_cfg(random, 12, [&] { return keys[random.integer(0, 4)]; }),
                           seed);
    const std::vector<float> image = image_for(files.network, seed);
    const Definition definition(files, image);
    Options chosen;
    chosen.calibration = write_calibration(files, definition);
    Session session(files.cfg, files.weights, chosen);
    int converted = -1;  // whose output is not there yet
    session.run(
        image,
        [&](int layer) {
          CHECK(converted == -1 || converted == layer);
          converted = -1;
        },
        [&](int layer) {
          CHECK_EQUAL(converted, -1);
          converted = layer;
          ++conversions;
        });
    CHECK_EQUAL(converted, -1);
    for (const int head : session.heads()) {
      // A rounding of 1/510 of the range at every int8 layer adds up, but a wrong scale, zero
      // point or place in memory is off by far more.
      const double off = difference(output_of(session, head), definition.output(head));
      if (!(off < 0.2))
        check::fail(__FILE__, __LINE__,
                    "seed " + std::to_string(seed) + " differs by " + std::to_string(off));
    }
    std::filesystem::remove(chosen.calibration);
  }
  CHECK(conversions > 30);
}

// On sets with fp16 arithmetic, whose kernels for few terms read floats.
TEST(fp16_layers_of_few_terms_convert_nothing_in_memory) {
  const ModelFiles files(
      "[net]\nwidth=128\nheight=48\nchannels=3\n"
      "[convolutional]\nfilters=4\nsize=3\nstride=2\npad=1\nactivation=leaky\nfp16=1\n"
      "[convolutional]\nfilters=3\nsize=1\nactivation=linear\n"
      "[convolutional]\nfilters=8\nsize=3\nstride=2\npad=1\nactivation=leaky\nfp16=1\n",
      6);
  const std::vector<float> image = image_for(files.network, 6);
  const Definition definition(files, image);
  for (int threads = 1; threads < 4; ++threads) {
    Session session(files.cfg, files.weights, options("", threads, Preference::kSpeed));
    std::vector<int> converted;
    session.run(image, [](int) {}, [&](int layer) { converted.push_back(layer); });
    const bool in_half = session.reports()[0].isa == "neon_fp16";
    CHECK(converted == (in_half ? std::vector{1} : std::vector{0, 1, 2}));
    CHECK(difference(output_of(session, 2), definition.output(2)) < 5e-3);
  }
}

TEST(int8_networks_give_the_same_bits_on_every_set_and_any_number_of_threads) {
  const std::vector<std::string> sets = supported_sets();
  for (unsigned seed = 200; seed < 220; ++seed) {
    Random random(seed);
    const ModelFiles files(
        random_cfg(random, 12,
                   [&] { return random.integer(0, 3) == 0 ? "int8=1\nquantize=1\n" : "int8=1\n"; }),
        seed);
    const std::vector<float> image = image_for(files.network, seed);
    Options chosen = options("reference", 1, Preference::kSpeed);
    chosen.calibration = write_calibration(files, Definition(files, image));
    Session reference(files.cfg, files.weights, chosen);
    reference.run(image);
    const auto expected = heads_of(reference);
    for (const std::string& set : sets) {
      for (const int threads : {1, 3}) {
        chosen.isa = set;
        chosen.threads = threads;
        chosen.prefer = threads == 1 ? Preference::kMemory : Preference::kSpeed;
        Session session(files.cfg, files.weights, chosen);
        session.run(image);
        if (heads_of(session) != expected) {
          check::fail(__FILE__, __LINE__,
                      "seed " + std::to_string(seed) + " differs on " + set + " with " +
                          std::to_string(threads) + " threads");
        }
      }
    }
    std::filesystem::remove(chosen.calibration);
  }
}

TEST(connected_softmax_crop_and_reorg_run_in_every_precision) {
  const std::string head =
      "[net]\nwidth=10\nheight=8\nchannels=3\n[crop]\ncrop_width=8\ncrop_height=6\n";
  for (const char* keys : {"", "fp16=1\n", "int8=1\nquantize=1\n"}) {
    const ModelFiles files(head + "[convolutional]\nfilters=8\nactivation=relu\n" + keys +
                               "[reorg]\nstride=2\n[connected]\noutput=10\nactivation=leaky\n" +
                               keys + "[dropout]\n[connected]\noutput=4\nactivation=linear\n" +
                               keys + "[softmax]\n[cost]\n",
                           7);
    const std::vector<float> image = image_for(files.network, 7);
    Session session(files.cfg, files.weights, Options{});
    session.run(image);
    const std::vector<float> probabilities = output_of(session, session.heads().back());
    Options plain;
    plain.algorithm = "reference";
    Session reference(files.cfg, files.weights, plain);
    reference.run(image);
    const std::vector<float> expected = output_of(reference, session.heads().back());
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      sum += static_cast<double>(probabilities[i]);
      CHECK(std::fabs(probabilities[i] - expected[i]) < 1e-3F);
    }
    CHECK(std::fabs(sum - 1) < 1e-5);
  }
}

TEST(reports_say_what_runs) {
  const ModelFiles files(
      "[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=4\nfp16=1\n[dropout]\n"
      "[convolutional]\nfilters=2\nint8=1\nquantize=1\n",
      1);
  Options chosen;
  chosen.profile = true;
  chosen.algorithm = "reference";
  Session session(files.cfg, files.weights, chosen);
  session.run(image_for(files.network, 1));
  const std::vector<LayerReport>& reports = session.reports();
  CHECK(reports[0].executed == Precision::kFp16);
  CHECK_EQUAL(reports[0].algorithm, "reference");
  CHECK_EQUAL(reports[1].algorithm, "none");
  CHECK_EQUAL(reports[1].bytes, 0);
  CHECK(reports[2].executed == Precision::kInt8);
  // half in, converted to int8 and read again, float out, weights of 4 x 2 and what belongs to them
  CHECK(reports[2].bytes > 64 * (4 * 2 + 2 * 4 + 2 * 4));
  CHECK(reports[2].nanoseconds > 0);
  CHECK(session.weight_bytes() > 0);
}

// `harness search` adds up the memory of layers, measured with all layers in one precision.
TEST(algorithms_do_not_depend_on_the_precisions_of_other_layers) {
  const std::vector<std::string> precisions = {"", "fp16=1\n", "int8=1\nquantize=1\n"};
  const auto files_of = [&](const std::vector<std::size_t>& policy) {
    std::string cfg = "[net]\nwidth=64\nheight=64\nchannels=16\n";
    for (const std::size_t precision : policy) {
      cfg += "[convolutional]\nfilters=48\nsize=3\npad=1\n" + precisions[precision];
    }
    return ModelFiles(cfg, 4);
  };
  constexpr std::size_t kLayers = 5;
  for (const std::string& isa : supported_sets()) {
    for (const int threads : {1, 2, 4}) {
      const auto algorithms_of = [&](const std::vector<std::size_t>& policy) {
        const ModelFiles files = files_of(policy);
        Options chosen;
        chosen.isa = isa;
        chosen.planned_threads = threads;
        const Session session(files.cfg, files.weights, chosen);
        std::vector<std::string> algorithms;
        for (const LayerReport& report : session.reports()) {
          algorithms.emplace_back(report.algorithm);
        }
        return algorithms;
      };
      std::vector<std::vector<std::string>> uniform;
      for (std::size_t precision = 0; precision < precisions.size(); ++precision) {
        uniform.push_back(algorithms_of(std::vector<std::size_t>(kLayers, precision)));
      }
      std::mt19937 random(5);
      for (int i = 0; i < 20; ++i) {
        std::vector<std::size_t> policy;
        for (std::size_t k = 0; k < kLayers; ++k) policy.push_back(random() % 3);
        const std::vector<std::string> algorithms = algorithms_of(policy);
        for (std::size_t k = 0; k < kLayers; ++k) {
          CHECK_EQUAL(algorithms[k], uniform[policy[k]][k]);
        }
      }
    }
  }
}

TEST(the_instruction_set_and_the_reference_loops_reach_every_layer) {
  const ModelFiles files(
      "[net]\nwidth=16\nheight=16\nchannels=3\n[convolutional]\nfilters=4\nsize=3\npad=1\n"
      "[convolutional]\nfilters=4\n[shortcut]\nfrom=0\n[maxpool]\nsize=2\nstride=2\n"
      "[upsample]\n[convolutional]\nfilters=4\nint8=1\n[convolutional]\nfilters=4\nint8=1\n"
      "[avgpool]\n[convolutional]\nfilters=4\nint8=1\n[softmax]\n",
      2);
  const std::vector<float> image = image_for(files.network, 2);
  const auto sets_of = [&](const std::string& isa, const std::string& algorithm,
                           std::vector<std::vector<float>>& heads) {
    Options chosen;
    chosen.isa = isa;
    chosen.algorithm = algorithm;
    chosen.calibration = write_calibration(files, Definition(files, image));
    Session session(files.cfg, files.weights, chosen);
    session.run(image);
    heads = heads_of(session);
    std::vector<std::string> sets{std::string(session.isa())};
    for (const LayerReport& report : session.reports()) sets.emplace_back(report.isa);
    std::filesystem::remove(chosen.calibration);
    return sets;
  };
  std::vector<std::vector<float>> expected;
  std::vector<std::vector<float>> heads;
  const std::vector<std::string> plain(11, "reference");
  CHECK(sets_of("", "reference", expected) == plain);
  CHECK(sets_of("reference", "", heads) == plain);
  CHECK(heads == expected);
  for (const std::string& isa : supported_sets()) {
    if (isa == "reference") continue;
    const std::string set(choose_elementwise(isa, "").isa);
    const auto sets = sets_of(isa, "", heads);
    CHECK_EQUAL(sets[0], isa);
    CHECK_EQUAL(sets[3], set);          // shortcut
    CHECK_EQUAL(sets[4], set);          // maxpool
    CHECK_EQUAL(sets[5], "reference");  // upsample copies
    CHECK_EQUAL(sets[8], set);          // avgpool of int8
    CHECK_EQUAL(sets[10], set);         // softmax
    CHECK(sets_of(isa, "reference", heads) == plain);
  }
  CHECK_THROWS(sets_of("sse9", "", heads), "no instruction set 'sse9'");
}

TEST(pooling_is_done_by_the_convolution_before_it) {
  const std::string head = "[net]\nwidth=16\nheight=12\nchannels=3\n";
  const std::string body =
      "[convolutional]\nfilters=6\nsize=3\npad=1\nactivation=leaky\nint8=1\nquantize=1\n"
      "[maxpool]\nsize=2\nstride=2\n"
      "[convolutional]\nfilters=9\nsize=3\npad=1\nactivation=mish\nint8=1\nquantize=1\n"
      "[maxpool]\nsize=2\nstride=2\n"
      "[convolutional]\nfilters=5\nint8=1\nquantize=1\n";
  const ModelFiles files(head + body, 3);
  const std::vector<float> image = image_for(files.network, 3);
  Session session(files.cfg, files.weights, Options{});
  session.run(image);
  CHECK_EQUAL(session.reports()[1].algorithm, "fused");
  CHECK_EQUAL(session.reports()[1].isa, session.reports()[0].isa);
  CHECK_EQUAL(session.reports()[1].bytes, 0);
  CHECK_EQUAL(session.reports()[3].algorithm, "direct");  // mish is not monotonic
  std::vector<float> values(static_cast<std::size_t>(files.network.output_shape(0).elements()));
  CHECK_THROWS(session.read(0, values), "layer 0", "pooling");
  Options chosen;
  chosen.keep_layers = true;
  Session every(files.cfg, files.weights, chosen);
  every.run(image);
  CHECK_EQUAL(every.reports()[1].algorithm, "direct");
  CHECK(heads_of(session) == heads_of(every));

  // Somebody else reads the convolution too.
  const ModelFiles shared(head + body + "[route]\nlayers=-5\n[convolutional]\nfilters=2\n", 3);
  Session apart(shared.cfg, shared.weights, Options{});
  CHECK_EQUAL(apart.reports()[1].algorithm, "direct");
}

TEST(convolutions_by_rows_share_no_stored_tensor) {
  const std::string thin = thin_cfg();
  const ModelFiles files(thin, 5);
  const std::vector<float> image = image_for(files.network, 5);
  Options chosen;
  chosen.keep_layers = true;
  Session apart(files.cfg, files.weights, chosen);
  apart.run(image);
  CHECK(!apart.reports()[0].by_rows);
  chosen.keep_layers = false;
  chosen.profile = true;
  for (chosen.threads = 1; chosen.threads < 4; ++chosen.threads) {
    Session session(files.cfg, files.weights, chosen);
    std::vector<int> ended(3);
    session.run(image, [&](int layer) { ++ended[static_cast<std::size_t>(layer)]; });
    if (supported_sets().empty()) return;  // the plain loops compute whole tensors
    for (const LayerReport& report : session.reports()) {
      CHECK(report.by_rows);
      CHECK(report.nanoseconds > 0);
    }
    CHECK(chosen.threads > 1 ? ended[0] == 1 : ended[0] > 1);
    CHECK(session.arena_bytes() < apart.arena_bytes());
    CHECK(heads_of(session) == heads_of(apart));
    std::vector<float> values(static_cast<std::size_t>(files.network.output_shape(1).elements()));
    CHECK_THROWS(session.read(1, values), "layer 1", "convolution");
  }

  // Somebody else reads the depthwise convolution, too.
  const ModelFiles shared(thin + "[convolutional]\nfilters=2\n[route]\nlayers=-3\n", 5);
  Session some(shared.cfg, shared.weights, Options{});
  CHECK(some.reports()[1].by_rows);
  CHECK(!some.reports()[2].by_rows);
}

// What an inference reports and allocates, after a comparison with one that stores every layer's
// output, and so computes each layer alone: the heads have the same bits.
struct ByRows {
  ByRows(const std::string& cfg, int threads) {
    const ModelFiles files(cfg, 5);
    const std::vector<float> image = image_for(files.network, 5);
    Options chosen;
    chosen.threads = threads;
    chosen.keep_layers = true;
    Session apart(files.cfg, files.weights, chosen);
    apart.run(image);
    chosen.keep_layers = false;
    chosen.profile = true;
    Session session(files.cfg, files.weights, chosen);
    std::vector<int> ended(files.network.layers.size());
    session.run(image, [&](int layer) { ++ended[static_cast<std::size_t>(layer)]; });
    CHECK(heads_of(session) == heads_of(apart));
    reports.assign(session.reports().begin(), session.reports().end());
    saves_memory = session.arena_bytes() < apart.arena_bytes();
    times_of_first = ended[0];
  }
  std::vector<LayerReport> reports;
  bool saves_memory = false;
  int times_of_first = 0;  // that rows of the first layer were reported as computed
};

TEST(first_layers_are_computed_by_rows) {
  for (const int threads : {1, 2}) {
    const ByRows result(first_layers_cfg(), threads);
    if (supported_sets().empty()) return;  // the plain loops compute whole tensors
    CHECK_EQUAL(result.reports[1].algorithm, "winograd2");
    for (const LayerReport& report : result.reports) CHECK(report.by_rows);
    CHECK(result.saves_memory);
  }
}

TEST(convolutions_that_pool_are_computed_by_rows) {
  std::string cfg = "[net]\nwidth=256\nheight=256\nchannels=3\n";
  for (const char* filters : {"16", "24"}) {
    cfg += "[convolutional]\nfilters=" + std::string(filters) +
           "\nsize=3\nstride=1\npad=1\nactivation=leaky\n[maxpool]\nsize=2\nstride=2\n";
  }
  cfg += "[convolutional]\nfilters=5\n";
  const ModelFiles files(cfg, 5);
  const std::vector<float> image = image_for(files.network, 5);
  Options chosen;
  chosen.algorithm = "winograd4";  // one that is asked for computes each layer alone
  Session apart(files.cfg, files.weights, chosen);
  apart.run(image);
  CHECK(!apart.reports()[0].by_rows);
  chosen.algorithm.clear();
  for (chosen.threads = 1; chosen.threads < 3; ++chosen.threads) {
    Session session(files.cfg, files.weights, chosen);
    session.run(image);
    if (supported_sets().empty()) return;  // the plain loops compute whole tensors
    for (const std::size_t layer : {0U, 2U}) {
      CHECK_EQUAL(session.reports()[layer].algorithm, "winograd4");
      CHECK(session.reports()[layer].by_rows);
      CHECK_EQUAL(session.reports()[layer + 1].algorithm, "fused");
    }
    CHECK(session.arena_bytes() < apart.arena_bytes());
    CHECK(heads_of(session) == heads_of(apart));
    std::vector<float> values(static_cast<std::size_t>(files.network.output_shape(1).elements()));
    CHECK_THROWS(session.read(1, values), "layer 1", "convolution");
  }
}

TEST(a_convolution_that_needs_its_whole_input_begins_a_chain) {
  std::string cfg = first_layers_cfg();
  cfg.insert(cfg.find("[convolutional]"), "[convolutional]\nfilters=3\nactivation=leaky\n");
  const ByRows result(cfg, 1);
  if (supported_sets().empty()) return;
  CHECK(!result.reports[0].by_rows);
  CHECK(result.reports[1].by_rows);
}

TEST(threads_that_share_a_cache_compute_the_same_rows) {
  if (!cpu_caches().second_is_shared) return;
  const ByRows result(thin_cfg(), 12);  // too many threads for rows of their own
  for (const LayerReport& report : result.reports) CHECK(report.by_rows);
  CHECK(result.times_of_first > 1);
}

TEST(an_input_of_the_wrong_size_and_bad_options_are_refused) {
  const ModelFiles files("[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\n", 1);
  Session session(files.cfg, files.weights, Options{});
  CHECK_THROWS(session.run(std::vector<float>(5)), "192", "5");
  CHECK_THROWS(Session(files.cfg, files.weights, options("warp", 1, Preference::kSpeed)), "warp");
  CHECK_THROWS(Session(files.cfg, files.weights, options("", 0, Preference::kSpeed)), "threads");
  CHECK_THROWS(Session(files.cfg, files.cfg, Options{}), files.cfg);
  Options missing;
  missing.calibration = files.cfg + ".absent";
  CHECK_THROWS(Session(files.cfg, files.weights, missing), ".absent");
}

TEST(a_route_whose_inputs_lie_in_it_moves_nothing) {
  const ModelFiles files(
      "[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=4\n[convolutional]\n"
      "filters=4\n[route]\nlayers=-1,-2\n[convolutional]\nfilters=2\nstride=2\n[route]\nlayers=-1,-"
      "1\n",
      1);
  Session session(files.cfg, files.weights, Options{});
  CHECK_EQUAL(session.reports()[2].algorithm, "none");
  CHECK_EQUAL(session.reports()[2].bytes, 0);
  // The same tensor twice: one half lies in place, the other is copied.
  CHECK_EQUAL(session.reports()[4].algorithm, "copy");
  CHECK_EQUAL(session.reports()[4].bytes, 2 * 2 * 16 * 4);
}
