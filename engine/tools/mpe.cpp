// The command line of the engine: picks the command and turns errors into one line and a status.
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "commands.h"
#include "error.h"
#include "io/text.h"

namespace {

constexpr std::string_view kCommands = "info, bench, forward or caps";

int run(std::span<char*> arguments) {
  if (arguments.empty()) throw mpe::Error("no command; use " + std::string(kCommands));
  const std::string_view command = arguments[0];
  const std::span<char*> rest = arguments.subspan(1);
  if (command == "info") return mpe::run_info(rest);
  if (command == "bench") return mpe::run_bench(rest);
  if (command == "forward") return mpe::run_forward(rest);
  if (command == "caps") return mpe::run_caps(rest);
  throw mpe::Error("unknown command " + mpe::quoted(command) + "; use " + std::string(kCommands));
}

}  // namespace

void mpe::print_warnings(std::span<const std::string> warnings) {
  for (const std::string& warning : warnings) {
    std::fprintf(stderr, "mpe: warning: %s\n", warning.c_str());
  }
}

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpe: %s\n", error.what());
    return 2;
  }
}
