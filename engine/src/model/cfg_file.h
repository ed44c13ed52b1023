// A cfg file as text: sections and their key=value lines, before anything is known of layers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpe {

struct CfgOption {
  std::string key;
  std::string value;
  int line = 0;
};

// One section. Values are read as Darknet reads them, with C's atoi and atof: a number ends at the
// first character that does not belong to it ("40#32" is 40), and a key's first line counts.
class CfgSection {
 public:
  CfgSection(std::string_view file, std::string name, int line)
      : file_(file), name_(std::move(name)), line_(line) {}

  const std::string& name() const { return name_; }
  int line() const { return line_; }
  const std::vector<CfgOption>& options() const { return options_; }
  void add(CfgOption option) { options_.push_back(std::move(option)); }

  // The first line with this key, or null.
  const CfgOption* find(std::string_view key) const;

  // Each throws mpe::Error, naming the line, if the value is not a number in [min, max].
  int integer(std::string_view key, int absent, int min, int max) const;
  float real(std::string_view key, float absent) const;
  bool flag(std::string_view key, bool absent = false) const;  // any number but 0 is true
  // Comma-separated lists; empty if the key is absent.
  std::vector<std::string_view> words(std::string_view key) const;
  std::vector<int> integers(std::string_view key) const;
  std::vector<float> reals(std::string_view key) const;
  // An item of the key's list as a number.
  int integer_of(std::string_view key, std::string_view item) const;
  // The value up to a comment, or `absent`.
  std::string_view word(std::string_view key, std::string_view absent) const;

  // Throws mpe::Error: "file:line: [section] message".
  [[noreturn]] void fail(int line, const std::string& message) const;
  [[noreturn]] void fail(const std::string& message) const { fail(line_, message); }
  // The line of a key, or the section's own where it is absent.
  int line_of(std::string_view key) const;

 private:
  int parse_integer(const CfgOption& option, std::string_view text) const;
  float parse_real(const CfgOption& option, std::string_view text) const;

  std::string_view file_;
  std::string name_;
  int line_;
  std::vector<CfgOption> options_;
};

// Is the word a layer's name? All others count as numbers, since Darknet reads "40x" as 40.
bool is_name(std::string_view word);

// Splits a cfg's text. Blanks inside lines are dropped and lines that start with # or ; are
// comments, as in Darknet. `file`, which must outlive the sections, is only used in messages.
// Throws mpe::Error on a line that is neither a section, a key=value pair nor a comment.
std::vector<CfgSection> split_sections(std::string_view text, std::string_view file);

}  // namespace mpe
