// The commands of `mpe`. Each gets the arguments after its name, prints JSON on stdout and returns
// the exit status; errors are thrown as mpe::Error.
#pragma once

#include <span>
#include <string>

namespace mpe {

int run_info(std::span<char*> arguments);
int run_bench(std::span<char*> arguments);
int run_forward(std::span<char*> arguments);
int run_caps(std::span<char*> arguments);

// One line on stderr for each.
void print_warnings(std::span<const std::string> warnings);

}  // namespace mpe
