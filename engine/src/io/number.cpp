#include "io/number.h"

#include <locale.h>
#include <stdlib.h>

#include <string>

namespace mpe {
namespace {

std::size_t digits_from(std::string_view text, std::size_t position) {
  std::size_t end = position;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  return end;
}

std::size_t number_length(std::string_view text) {
  const std::size_t start = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  std::size_t end = digits_from(text, start);
  std::size_t digits = end - start;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = digits_from(text, end + 1);
    digits += fraction - end - 1;
    end = fraction;
  }
  if (digits == 0) return 0;
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    std::size_t exponent = end + 1;
    if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+')) ++exponent;
    const std::size_t exponent_end = digits_from(text, exponent);
    if (exponent_end > exponent) end = exponent_end;
  }
  return end;
}

}  // namespace

ParsedNumber parse_number(std::string_view text) {
  // strtod_l because strtod reads "0.5" as 0 where the host program's locale has a decimal comma.
  static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", static_cast<locale_t>(nullptr));
  const std::size_t length = number_length(text);
  if (length == 0) return {};
  return {strtod_l(std::string(text.substr(0, length)).c_str(), nullptr, kPlain), length};
}

}  // namespace mpe
