// The command line of the engine: picks the command and turns errors into one line and a status.
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include "commands.h"
#include "error.h"

namespace {

int run(std::span<char*> arguments) {
  if (arguments.empty()) throw mpe::Error("no command; use mpe info --cfg FILE");
  const std::string_view command = arguments[0];
  const std::span<char*> rest = arguments.subspan(1);
  if (command == "info") return mpe::run_info(rest);
  throw mpe::Error("unknown command '" + std::string(command) + "'; use info");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpe: %s\n", error.what());
    return 2;
  }
}
