// A test program in one header: cases register themselves, checks report file and line and go on,
// and main() fails if any did.
//
//   TEST(upsample_repeats_pixels) { CHECK_EQUAL(shape.width, 8); }
//
// Include it from exactly one source file per program.
#pragma once

#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace check {

struct Case {
  const char* name;
  void (*body)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline int failures = 0;

inline void fail(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, message.c_str());
  ++failures;
}

template <typename Value>
std::string shown(const Value& value) {
  if constexpr (requires(std::ostream& out) { out << value; }) {
    std::ostringstream out;
    out.precision(9);
    out << value;
    return out.str();
  } else {
    return "(a value)";
  }
}

template <typename Actual, typename Expected>
void equal(const char* file, int line, const char* text, const Actual& actual,
           const Expected& expected) {
  if (actual == expected) return;
  fail(file, line, std::string(text) + " is " + shown(actual) + ", not " + shown(expected));
}

// The action must throw, and its message must hold every one of the words.
template <typename Action>
void throws(const char* file, int line, Action&& action, std::vector<std::string_view> words) {
  try {
    action();
  } catch (const std::exception& error) {
    const std::string_view message = error.what();
    for (const std::string_view word : words) {
      if (message.find(word) == std::string_view::npos) {
        fail(file, line, "'" + std::string(message) + "' does not say '" + std::string(word) + "'");
      }
    }
    if (message.find('\n') != std::string_view::npos) fail(file, line, "message of two lines");
    return;
  }
  fail(file, line, "nothing was thrown");
}

inline bool add(const char* name, void (*body)()) {
  cases().push_back({name, body});
  return true;
}

}  // namespace check

#define TEST(name)                                             \
  static void name();                                          \
  static const bool name##_added = check::add(#name, &(name)); \
  static void name()
#define CHECK(condition) \
  if (!(condition)) check::fail(__FILE__, __LINE__, #condition " is false")
#define CHECK_EQUAL(actual, expected) \
  check::equal(__FILE__, __LINE__, #actual, (actual), (expected))
#define CHECK_THROWS(expression, ...) \
  check::throws(__FILE__, __LINE__, [&] { (void)(expression); }, {__VA_ARGS__})

// Runs the cases whose names contain the first argument, or all.
int main(int count, char** arguments) {
  const std::string_view wanted = count > 1 ? arguments[1] : "";
  for (const check::Case& test : check::cases()) {
    if (std::string_view(test.name).find(wanted) == std::string_view::npos) continue;
    const int before = check::failures;
    try {
      test.body();
    } catch (const std::exception& error) {
      check::fail(test.name, 0, std::string("threw: ") + error.what());
    }
    if (check::failures > before) std::fprintf(stderr, "FAILED %s\n", test.name);
  }
  std::printf("%zu cases, %d failures\n", check::cases().size(), check::failures);
  return check::failures > 0 || check::cases().empty() ? 1 : 0;
}
