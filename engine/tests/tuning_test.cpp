// Algorithms chosen by measuring, and the file that keeps them.
#include "exec/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "error.h"
#include "exec/session.h"
#include "kernels/kernel_sets.h"
#include "random_network.h"

using namespace mpe;

namespace {

constexpr std::size_t kBytes = 1 << 20;  // of a network

struct TemporaryFile {
  explicit TemporaryFile(const std::string& name) : path("/tmp/mpe-tuning-" + name + ".json") {
    std::remove(path.c_str());
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  const std::string path;
};

// A convolution that several algorithms suit.
struct Problem {
  Problem() {
    request.shape.in = request.shape.out = {8, 16, 16};
    request.shape.kernel_y = request.shape.kernel_x = 3;
    request.shape.padding_y = request.shape.padding_x = 1;
    request.weights = weights;
    request.bias = bias;
  }
  std::vector<float> weights = std::vector<float>(8 * 8 * 9, 0.5F);
  std::vector<float> bias = std::vector<float>(8, 0.0F);
  ConvolutionRequest request;
};

}  // namespace

TEST(machines_have_names_whatever_cpuinfo_says) {
  const TemporaryFile cpuinfo("cpuinfo");
  const auto name_for = [&](const std::string& text) {
    cpuinfo.write(text);
    return machine_name(cpuinfo.path);
  };
  const std::string set(best_kernel_set());
  const std::string named = name_for("processor\t: 0\nmodel name\t: A Core\nprocessor\t: 1\n");
  CHECK_EQUAL(named, "A Core, " + set);
  CHECK_EQUAL(name_for("model name: A Core \r\n"), named);
  const std::string unnamed = name_for("model name\t: \n");
  CHECK(unnamed.starts_with("an unnamed processor"));
  CHECK(unnamed.ends_with(", " + set));
  for (const char* text : {"", "model name", "model name\t:", "model name\t:  \t\nCPU part\t:\n"}) {
    CHECK_EQUAL(name_for(text), unnamed);
  }
  CHECK_EQUAL(machine_name("/nonexistent/cpuinfo"), unnamed);
  // What little there is tells machines apart.
  CHECK_EQUAL(name_for("model name\t:\nCPU part\t: 0xd08\n"), "0xd08, " + set);
  CHECK(name_for("CPU part\t: 0xd08\nCPU part\t: 0xd03\n").starts_with("0xd03, 0xd08, "));
}

TEST(the_fastest_is_measured_once_and_kept) {
  const TemporaryFile file("kept");
  const Problem problem;
  ThreadPool pool(1);
  int measured = 0;
  const auto count = [&](const std::string&) { ++measured; };
  Tuning tuning(file.path, kBytes, count);
  const std::string first = tuning.algorithm_for(problem.request, {}, pool);
  CHECK_EQUAL(tuning.algorithm_for(problem.request, {}, pool), first);
  tuning.save();
  CHECK_EQUAL(measured, 1);
  CHECK(std::ranges::count(competing_algorithms(), first) == 1);
  CHECK(file.text().find("\"gemm\":") != std::string::npos);
  CHECK(file.text().find("\"winograd2\":") != std::string::npos);

  Tuning again(file.path, kBytes, count);
  CHECK_EQUAL(again.algorithm_for(problem.request, {}, pool), first);
  CHECK_EQUAL(measured, 1);
  ThreadPool two(2);  // other times
  again.algorithm_for(problem.request, {}, two);
  CHECK_EQUAL(measured, 2);
  again.save();

  // In a larger network, the caches hold other layers.
  Tuning larger(file.path, 3 * kBytes, count);
  larger.algorithm_for(problem.request, {}, pool);
  CHECK_EQUAL(measured, 3);
  larger.save();
  CHECK(file.text().find("1 thread, beside 4 MiB") != std::string::npos);
  Tuning as_large(file.path, 4 * kBytes, count);
  as_large.algorithm_for(problem.request, {}, pool);
  CHECK_EQUAL(measured, 3);
}

TEST(algorithms_in_the_file_are_used) {
  const TemporaryFile file("said");
  const Problem problem;
  ThreadPool pool(1);
  Tuning first(file.path, kBytes);
  first.algorithm_for(problem.request, {}, pool);
  first.save();
  std::string text = file.text();
  for (const std::string wanted : {"winograd2", "gemm"}) {
    const std::string key = "\"algorithm\":\"";
    const std::size_t at = text.find(key) + key.size();
    text.replace(at, text.find('"', at) - at, wanted);
    file.write(text);
    CHECK_EQUAL(Tuning(file.path, kBytes).algorithm_for(problem.request, {}, pool), wanted);
  }
}

TEST(a_session_tunes_and_computes_the_same) {
  const TemporaryFile file("session");
  Random random(3);
  const ModelFiles files(random_cfg(random, 10, [] { return ""; }), 3);
  const std::vector<float> image = random.values(files.network.input.elements(), 0.0F, 1.0F);
  Options options;
  Session plain(files.cfg, files.weights, options);
  options.tune = file.path;
  Session tuned(files.cfg, files.weights, options);
  CHECK(!file.text().empty());
  plain.run(image);
  tuned.run(image);
  for (const int head : plain.heads()) {
    const auto count = static_cast<std::size_t>(plain.network().output_shape(head).elements());
    std::vector<float> expected(count);
    std::vector<float> found(count);
    plain.read(head, expected);
    tuned.read(head, found);
    float largest = 0.0F;
    for (const float value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(std::abs(found[i] - expected[i]) <= 1e-4F * largest);
    }
  }
  options.algorithm = "gemm";
  CHECK_THROWS(Session(files.cfg, files.weights, options), "either asked for");
}

TEST(a_file_that_is_none_is_refused_and_stays) {
  const TemporaryFile file("bad");
  for (const std::string text : {"", "{}", "[]", "{\"format\": \"other\"}", "{\"format\": 3}"}) {
    file.write(text);
    CHECK_THROWS(Tuning(file.path, kBytes), file.path);
    CHECK_EQUAL(file.text(), text);
  }
  const Problem problem;
  ThreadPool pool(1);
  Tuning nowhere("/tmp/no-such-folder/tuning.json", kBytes);
  nowhere.algorithm_for(problem.request, {}, pool);
  CHECK_THROWS(nowhere.save(), "cannot write");
}
