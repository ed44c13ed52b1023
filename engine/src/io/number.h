// Decimal numbers in text, read the same whatever locale the host program has set.
#pragma once

#include <cstddef>
#include <string_view>

namespace mpe {

struct ParsedNumber {
  double value = 0.0;
  std::size_t length = 0;  // characters read; 0 if the text does not start with a number
};

// The longest decimal number that `text` starts with: [+-]digits[.digits][e[+-]digits], with digits
// before or after the point. Correctly rounded; too large a number gives infinity.
ParsedNumber parse_number(std::string_view text);

}  // namespace mpe
