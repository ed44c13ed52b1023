#include "arguments.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>
#include <vector>

#include "error.h"
#include "io/number.h"
#include "io/text.h"
#include "threads/affinity.h"
#include "threads/thread_pool.h"

namespace mpe {
namespace {

double number(std::string_view option, std::string_view text, double least, double most,
              bool whole) {
  const ParsedNumber parsed = parse_number(text);
  const bool fits = parsed.length == text.size() && !text.empty() && parsed.value >= least &&
                    parsed.value <= most && (!whole || parsed.value == std::floor(parsed.value));
  if (!fits) {
    const auto show = [](double value) {
      const std::string digits = std::to_string(value);
      return digits.substr(0, digits.find('.'));
    };
    throw Error(std::string(option) + " takes " + (whole ? "a whole number" : "a number") +
                " from " + show(least) + " to " + show(most) + ", not " + quoted(text));
  }
  return parsed.value;
}

// Reads option after option, each with its value.
class Parser {
 public:
  Parser(Command command, std::span<char*> arguments)
      : forward_(command == Command::kForward), arguments_(arguments) {}

  RunArguments parse() {
    while (next_ < arguments_.size()) {
      const std::string_view option = arguments_[next_++];
      known_.clear();
      if (!common(option) && !(forward_ ? forward(option) : bench(option))) unknown(option);
    }
    require("--cfg", result_.cfg);
    require("--weights", result_.weights);
    if (forward_) require("--input", result_.input);
    return result_;
  }

 private:
  // True if `option` is `name`; remembers the names for the message about an unknown one.
  bool is(std::string_view option, std::string_view name) {
    known_.push_back(name);
    return option == name;
  }

  std::string text(std::string_view option) {
    if (next_ == arguments_.size() || arguments_[next_][0] == '\0') {
      throw Error(std::string(option) + " needs a value");
    }
    return arguments_[next_++];
  }

  int integer(std::string_view option, int least, int most) {
    return static_cast<int>(number(option, text(option), least, most, true));
  }

  bool common(std::string_view option) {
    Options& session = result_.session;
    if (is(option, "--cfg")) {
      result_.cfg = text(option);
    } else if (is(option, "--weights")) {
      result_.weights = text(option);
    } else if (is(option, "--threads")) {
      session.threads = integer(option, 1, kMaxThreads);
    } else if (is(option, "--cores")) {
      session.cores = parse_cores(text(option));
    } else if (is(option, "--isa")) {
      session.isa = text(option);
    } else if (is(option, "--algorithm")) {
      session.algorithm = text(option);
    } else if (is(option, "--tune")) {
      session.tune = text(option);
      session.tuning = [](const std::string& layer) {
        std::fprintf(stderr, "mpe: measuring %s\n", layer.c_str());
      };
    } else if (is(option, "--calibration")) {
      session.calibration = text(option);
    } else if (is(option, "--quantizer")) {
      session.quantizer = text(option);
    } else if (is(option, "--bn-epsilon")) {
      session.bn_epsilon = static_cast<float>(number(option, text(option), 0.0, 1.0, false));
    } else if (is(option, "--prefer")) {
      const std::string preference = text(option);
      if (preference != "speed" && preference != "memory") {
        throw Error("--prefer takes speed or memory, not " + quoted(preference));
      }
      session.prefer = preference == "speed" ? Preference::kSpeed : Preference::kMemory;
    } else {
      return false;
    }
    return true;
  }

  bool forward(std::string_view option) {
    if (is(option, "--input")) {
      result_.input = text(option);
    } else if (is(option, "--heads")) {
      result_.heads = text(option);
    } else if (is(option, "--layers")) {
      result_.layers = text(option);
      result_.session.keep_layers = true;
    } else if (is(option, "--digest")) {
      result_.digest = true;
    } else {
      return false;
    }
    return true;
  }

  bool bench(std::string_view option) {
    if (is(option, "--warmup")) {
      result_.warmup = integer(option, 0, 1'000'000);
    } else if (is(option, "--runs")) {
      result_.runs = integer(option, 1, 1'000'000);
    } else if (is(option, "--min-seconds")) {
      result_.min_seconds = number(option, text(option), 0.0, 86400.0, false);
    } else if (is(option, "--profile")) {
      result_.session.profile = true;
    } else if (is(option, "--planned-threads")) {
      result_.session.planned_threads = integer(option, 1, kMaxThreads);
    } else if (is(option, "--mark")) {
      result_.mark = true;
    } else {
      return false;
    }
    return true;
  }

  [[noreturn]] void unknown(std::string_view option) const {
    const std::string_view near = nearest(option, known_);
    throw Error("unknown option " + quoted(option) + " of mpe " + (forward_ ? "forward" : "bench") +
                (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
  }

  void require(std::string_view option, const std::string& value) const {
    if (value.empty()) {
      throw Error(std::string("mpe ") + (forward_ ? "forward" : "bench") + " needs " +
                  std::string(option));
    }
  }

  bool forward_;
  std::span<char*> arguments_;
  std::size_t next_ = 0;
  RunArguments result_;
  std::vector<std::string_view> known_;
};

}  // namespace

RunArguments parse_arguments(Command command, std::span<char*> arguments) {
  return Parser(command, arguments).parse();
}

}  // namespace mpe
