// The command line of the engine: picks the command and turns errors into one line and a status.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
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
  std::string message;
  try {
    const int status = run({argv + 1, argv + argc});
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    message = "cannot write to standard output; is the disk full?";
  } catch (const std::bad_alloc&) {
    message = "not enough memory on this machine";
  } catch (const std::exception& error) {
    message = error.what();
  }
  std::replace(message.begin(), message.end(), '\n', ' ');  // a file's name may hold one
  std::fprintf(stderr, "mpe: %s\n", message.c_str());
  return 2;
}
