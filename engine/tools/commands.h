// The commands of `mpe`. Each gets the arguments after its name, prints JSON on stdout and returns
// the exit status; errors are thrown as mpe::Error.
#pragma once

#include <span>

namespace mpe {

int run_info(std::span<char*> arguments);

}  // namespace mpe
