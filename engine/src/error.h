// The only exception type of the engine. Its text is a complete sentence for the user: the error,
// its place (file and line, or offset, or layer), and the remedy.
#pragma once

#include <stdexcept>
#include <string>

namespace mpe {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace mpe
