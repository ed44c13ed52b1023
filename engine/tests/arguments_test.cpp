// The options of mpe bench and mpe forward.
#include "arguments.h"

#include <string>
#include <vector>

#include "check.h"

using namespace mpe;

namespace {

RunArguments parse(Command command, std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return parse_arguments(command, arguments);
}

// With what every command needs in front.
RunArguments bench(std::vector<std::string> words) {
  words.insert(words.begin(), {"--cfg", "a.cfg", "--weights", "a.weights"});
  return parse(Command::kBench, words);
}

}  // namespace

TEST(defaults_are_the_documented_ones) {
  const RunArguments arguments = bench({});
  CHECK_EQUAL(arguments.warmup, 3);
  CHECK_EQUAL(arguments.runs, 30);
  CHECK_EQUAL(arguments.min_seconds, 0.0);
  CHECK_EQUAL(arguments.session.threads, 1);
  CHECK_EQUAL(arguments.session.bn_epsilon, 1e-5F);
  CHECK(arguments.session.prefer == Preference::kSpeed);
  CHECK_EQUAL(arguments.session.quantizer, "builtin");
  CHECK(!arguments.mark && !arguments.session.profile && !arguments.digest);
}

TEST(every_option_of_bench_is_taken) {
  const RunArguments arguments =
      bench({"--threads",         "4",          "--warmup",      "0",      "--runs",       "7",
             "--min-seconds",     "0.5",        "--isa",         "avx2",   "--algorithm",  "gemm",
             "--prefer",          "memory",     "--calibration", "c.json", "--bn-epsilon", "1e-6",
             "--quantizer",       "tensorflow", "--profile",     "--mark", "--tune",       "t.json",
             "--planned-threads", "3"});
  CHECK_EQUAL(arguments.session.tune, "t.json");
  CHECK_EQUAL(arguments.cfg, "a.cfg");
  CHECK_EQUAL(arguments.weights, "a.weights");
  CHECK_EQUAL(arguments.session.threads, 4);
  CHECK_EQUAL(arguments.session.planned_threads, 3);
  CHECK_EQUAL(arguments.warmup, 0);
  CHECK_EQUAL(arguments.runs, 7);
  CHECK_EQUAL(arguments.min_seconds, 0.5);
  CHECK_EQUAL(arguments.session.isa, "avx2");
  CHECK_EQUAL(arguments.session.algorithm, "gemm");
  CHECK(arguments.session.prefer == Preference::kMemory);
  CHECK_EQUAL(arguments.session.quantizer, "tensorflow");
  CHECK_EQUAL(arguments.session.calibration, "c.json");
  CHECK_EQUAL(arguments.session.bn_epsilon, 1e-6F);
  CHECK(arguments.session.profile && arguments.mark);
}

TEST(forward_has_options_of_its_own) {
  const std::vector<std::string> words = {"--cfg",    "a.cfg", "--weights", "a.weights",
                                          "--input",  "x.npy", "--heads",   "h",
                                          "--layers", "l",     "--digest"};
  const RunArguments arguments = parse(Command::kForward, words);
  CHECK_EQUAL(arguments.input, "x.npy");
  CHECK_EQUAL(arguments.heads, "h");
  CHECK_EQUAL(arguments.layers, "l");
  CHECK(arguments.digest);
  CHECK_THROWS(parse(Command::kForward, {"--runs", "3"}), "unknown option '--runs'", "forward");
  CHECK_THROWS(bench({"--input", "x.npy"}), "unknown option '--input'");
}

TEST(mistakes_are_named_with_what_would_do) {
  CHECK_THROWS(bench({"--thread", "2"}), "'--thread'", "did you mean '--threads'?");
  CHECK_THROWS(bench({"--threads", "0"}), "--threads", "1 to 256", "'0'");
  CHECK_THROWS(bench({"--threads", "2.5"}), "whole number");
  CHECK_THROWS(bench({"--threads", "2x"}), "'2x'");
  CHECK_THROWS(bench({"--threads"}), "--threads needs a value");
  CHECK_THROWS(bench({"--runs", "0"}), "--runs");
  CHECK_THROWS(bench({"--min-seconds", "-1"}), "--min-seconds");
  CHECK_THROWS(bench({"--min-seconds", "nan"}), "--min-seconds");
  CHECK_THROWS(bench({"--bn-epsilon", ""}), "--bn-epsilon");
  CHECK_THROWS(bench({"--prefer", "both"}), "speed or memory");
  CHECK_THROWS(parse(Command::kBench, {"--cfg", "a.cfg"}), "mpe bench needs --weights");
  CHECK_THROWS(parse(Command::kForward, {"--cfg", "a", "--weights", "b"}), "needs --input");
}
