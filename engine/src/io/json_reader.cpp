#include "io/json_reader.h"

#include <cmath>

#include "error.h"
#include "io/number.h"
#include "io/text.h"

namespace mpe {
namespace {

constexpr int kDeepest = 64;  // nesting; skip() recurses

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& text, std::uint32_t code) {
  const auto tail = [&text, code](int shift) {
    text += static_cast<char>(0x80 | (code >> shift & 0x3f));
  };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

void JsonReader::fail(std::size_t offset, const std::string& message) const {
  throw Error(std::string(name_) + ": offset " + std::to_string(offset) + ": " + message);
}

void JsonReader::skip_blanks() {
  while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t' ||
                                      text_[position_] == '\n' || text_[position_] == '\r')) {
    ++position_;
  }
}

char JsonReader::peek() {
  skip_blanks();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool JsonReader::accept(char c) {
  if (peek() != c) return false;
  ++position_;
  return true;
}

void JsonReader::expect(char c) {
  if (accept(c)) return;
  const std::string found =
      position_ < text_.size() ? quoted(text_.substr(position_, 1)) : "the end";
  fail(position_, std::string("expected '") + c + "', found " + found);
}

void JsonReader::enter(char bracket) {
  expect(bracket);
  if (++depth_ > kDeepest) fail(position_, "nested too deeply");
}

std::size_t JsonReader::offset() {
  skip_blanks();
  return position_;
}

double JsonReader::number() {
  const std::size_t start = offset();
  const std::string_view rest = text_.substr(start);
  // JSON is stricter than a decimal number: no plus, no leading zero, digits around the point.
  const std::size_t sign = rest.starts_with('-') ? 1 : 0;
  const ParsedNumber parsed = parse_number(rest);
  const std::string_view token = rest.substr(0, parsed.length);
  const std::size_t point = token.find('.');
  const bool plain =
      parsed.length > sign && is_digit(token[sign]) &&
      !(token[sign] == '0' && parsed.length > sign + 1 && is_digit(token[sign + 1])) &&
      (point == std::string_view::npos || (point + 1 < token.size() && is_digit(token[point + 1])));
  if (!plain) fail(start, "expected a number, found " + quoted(rest.substr(0, 16)));
  if (!std::isfinite(parsed.value)) fail(start, "the number " + quoted(token) + " is too large");
  position_ = start + parsed.length;
  return parsed.value;
}

std::int64_t JsonReader::integer(std::int64_t min, std::int64_t max) {
  const std::size_t start = offset();
  const double value = number();
  if (value != std::floor(value) || value < static_cast<double>(min) ||
      value > static_cast<double>(max)) {
    fail(start, quoted(text_.substr(start, position_ - start)) + " is not a whole number from " +
                    std::to_string(min) + " to " + std::to_string(max));
  }
  return static_cast<std::int64_t>(value);
}

std::uint32_t JsonReader::unicode_escape() {
  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = position_ < text_.size() ? text_[position_] : '\0';
    const int lower = c | 0x20;
    const int digit = is_digit(c)                      ? c - '0'
                      : (lower >= 'a' && lower <= 'f') ? lower - 'a' + 10
                                                       : -1;
    if (digit < 0) fail(position_, "\\u needs four hex digits");
    code = code * 16 + static_cast<std::uint32_t>(digit);
    ++position_;
  }
  return code;
}

void JsonReader::append_escape(std::string& text) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t start = position_ - 1;
  if (position_ == text_.size()) fail(start, "the string does not end");
  const char letter = text_[position_++];
  if (letter != 'u') {
    const std::size_t index = kLetters.find(letter);
    if (index == std::string_view::npos) fail(start, "unknown escape in a string");
    text += kMeanings[index];
    return;
  }
  std::uint32_t code = unicode_escape();
  const bool high = code >= 0xd800 && code < 0xdc00;
  if (high && text_.substr(position_).starts_with("\\u")) {
    position_ += 2;
    const std::uint32_t low = unicode_escape();
    if (low < 0xdc00 || low > 0xdfff) fail(start, "half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xd800 && code < 0xe000) {
    fail(start, "half a surrogate pair");
  }
  append_utf8(text, code);
}

std::string JsonReader::string() {
  const std::size_t start = offset();
  if (peek() != '"') fail(start, "expected a string, found " + quoted(text_.substr(start, 16)));
  ++position_;
  std::string value;
  while (true) {
    if (position_ == text_.size()) fail(start, "the string does not end");
    const char c = text_[position_++];
    if (c == '"') return value;
    if (static_cast<unsigned char>(c) < 0x20) fail(position_ - 1, "control character in a string");
    if (c == '\\') {
      append_escape(value);
    } else {
      value += c;
    }
  }
}

void JsonReader::expect_word(std::string_view word) {
  const std::size_t start = offset();
  if (!text_.substr(start).starts_with(word)) {
    fail(start, "expected a value, found " + quoted(text_.substr(start, 16)));
  }
  position_ = start + word.size();
}

bool JsonReader::boolean() {
  const bool value = peek() == 't';
  expect_word(value ? "true" : "false");
  return value;
}

void JsonReader::skip() {
  switch (peek()) {
    case '{':
      object([this](std::string_view) { skip(); });
      break;
    case '[':
      array([this] { skip(); });
      break;
    case '"':
      string();
      break;
    case 't':
    case 'f':
      boolean();
      break;
    case 'n':
      expect_word("null");
      break;
    default:
      number();
  }
}

void JsonReader::end() {
  if (offset() != text_.size()) fail(position_, "something follows the value");
}

}  // namespace mpe
