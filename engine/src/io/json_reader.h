// Reads JSON (RFC 8259) as it goes: the caller asks for what it expects next, and nothing is kept,
// so memory does not grow with the text.
//
//   reader.object([&](std::string_view key) {
//     if (key == "min") range.min = reader.number(); else reader.skip();
//   });
//   reader.end();
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mpe {

class JsonReader {
 public:
  // `name` is used in messages. Both must outlive the reader.
  JsonReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  // Each consumes one value or throws mpe::Error with the offset where it differs.
  double number();  // finite
  std::int64_t integer(std::int64_t min, std::int64_t max);
  std::string string();
  bool boolean();
  void skip();  // any value

  // Calls `member(key)` for every member; the call must consume the member's value.
  template <typename Member>
  void object(Member&& member) {
    enter('{');
    if (!accept('}')) {
      do {
        const std::string key = string();
        expect(':');
        member(std::string_view(key));
      } while (accept(','));
      expect('}');
    }
    --depth_;
  }

  // Calls `item()` for every element; the call must consume it.
  template <typename Item>
  void array(Item&& item) {
    enter('[');
    if (!accept(']')) {
      do {
        item();
      } while (accept(','));
      expect(']');
    }
    --depth_;
  }

  // Checks that nothing but blanks is left.
  void end();

  // Where the next value starts, for messages about it.
  std::size_t offset();
  // Throws mpe::Error: "name: offset N: message".
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const;

 private:
  void enter(char bracket);
  void skip_blanks();
  char peek();  // the next character that is not blank, '\0' at the end
  bool accept(char c);
  void expect(char c);
  void expect_word(std::string_view word);
  std::uint32_t unicode_escape();
  void append_escape(std::string& text);

  std::string_view text_;
  std::string_view name_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace mpe
