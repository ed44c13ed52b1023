#include "model/cfg_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "error.h"
#include "io/number.h"
#include "io/text.h"

namespace mpe {
namespace {

constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

// What Windows editors put before UTF-8 text.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

[[noreturn]] void fail_at(std::string_view file, int line, const std::string& message) {
  throw Error(std::string(file) + ":" + std::to_string(line) + ": " + message);
}

std::string without_blanks(std::string_view line) {
  std::string result;
  result.reserve(line.size());
  for (const char c : line) {
    if (c != ' ' && c != '\t' && c != '\r') result += c;
  }
  return result;
}

std::string_view without_comment(std::string_view value) {
  return value.substr(0, value.find_first_of("#;"));
}

std::vector<std::string_view> split_list(std::string_view value) {
  std::vector<std::string_view> items;
  std::string_view rest = without_comment(value);
  if (rest.ends_with(',')) rest.remove_suffix(1);  // Darknet's own files have trailing commas
  while (true) {
    const std::size_t comma = rest.find(',');
    items.push_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return items;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

const CfgOption* CfgSection::find(std::string_view key) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [key](const CfgOption& option) { return option.key == key; });
  return found == options_.end() ? nullptr : &*found;
}

int CfgSection::line_of(std::string_view key) const {
  const CfgOption* option = find(key);
  return option == nullptr ? line_ : option->line;
}

void CfgSection::fail(int line, const std::string& message) const {
  fail_at(file_, line, "[" + name_ + "] " + message);
}

int CfgSection::parse_integer(const CfgOption& option, std::string_view text) const {
  std::size_t position = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::size_t first_digit = position;
  std::int64_t value = 0;
  while (position < text.size() && text[position] >= '0' && text[position] <= '9') {
    value = std::min<std::int64_t>(value * 10 + (text[position] - '0'),
                                   std::numeric_limits<std::int32_t>::max());
    ++position;
  }
  if (position == first_digit) {
    fail(option.line, quoted(option.key) + " is " + quoted(text) + ", not a whole number");
  }
  return static_cast<int>(text[0] == '-' ? -value : value);
}

float CfgSection::parse_real(const CfgOption& option, std::string_view text) const {
  const ParsedNumber number = parse_number(text);
  const auto value = static_cast<float>(number.value);
  if (number.length == 0 || !std::isfinite(value)) {
    fail(option.line, quoted(option.key) + " is " + quoted(text) + ", not a number");
  }
  return value;
}

int CfgSection::integer(std::string_view key, int absent, int min, int max) const {
  const CfgOption* option = find(key);
  if (option == nullptr) return absent;
  const int value = parse_integer(*option, option->value);
  if (value < min || value > max) {
    fail(option->line, std::string(key) + "=" + std::to_string(value) + " is outside " +
                           std::to_string(min) + " to " + std::to_string(max));
  }
  return value;
}

float CfgSection::real(std::string_view key, float absent) const {
  const CfgOption* option = find(key);
  return option == nullptr ? absent : parse_real(*option, option->value);
}

bool CfgSection::flag(std::string_view key, bool absent) const {
  const CfgOption* option = find(key);
  return option == nullptr ? absent : parse_integer(*option, option->value) != 0;
}

std::vector<std::string_view> CfgSection::words(std::string_view key) const {
  const CfgOption* option = find(key);
  return option == nullptr ? std::vector<std::string_view>() : split_list(option->value);
}

int CfgSection::integer_of(std::string_view key, std::string_view item) const {
  return parse_integer(*find(key), item);
}

std::vector<int> CfgSection::integers(std::string_view key) const {
  std::vector<int> values;
  if (const CfgOption* option = find(key)) {
    for (const std::string_view item : split_list(option->value)) {
      values.push_back(parse_integer(*option, item));
    }
  }
  return values;
}

std::vector<float> CfgSection::reals(std::string_view key) const {
  std::vector<float> values;
  if (const CfgOption* option = find(key)) {
    for (const std::string_view item : split_list(option->value)) {
      values.push_back(parse_real(*option, item));
    }
  }
  return values;
}

std::string_view CfgSection::word(std::string_view key, std::string_view absent) const {
  const CfgOption* option = find(key);
  return option == nullptr ? absent : without_comment(option->value);
}

bool is_name(std::string_view word) {
  if (!word.empty() && (word[0] == '-' || word[0] == '+')) word.remove_prefix(1);
  return !word.empty() && (word[0] < '0' || word[0] > '9');
}

std::vector<CfgSection> split_sections(std::string_view text, std::string_view file) {
  std::vector<CfgSection> sections;
  int number = 0;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string line = without_blanks(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const std::size_t close = line.find_first_not_of(kNameCharacters, 1);
      if (close == std::string::npos || line[close] != ']' ||
          !without_comment(std::string_view(line).substr(close + 1)).empty()) {
        fail_at(file, number, quoted(line) + " is not a section header; write [name]");
      }
      sections.emplace_back(file, line.substr(1, close - 1), number);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail_at(file, number, quoted(line) + " is neither a [section], a key=value nor a # comment");
    }
    if (sections.empty()) {
      fail_at(file, number, quoted(line) + " stands before the first section, which must be [net]");
    }
    sections.back().add({line.substr(0, equals), line.substr(equals + 1), number});
  }
  return sections;
}

}  // namespace mpe
