// The JSON reader and writer.
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "io/json_reader.h"
#include "io/json_writer.h"

using namespace mpe;

namespace {

double number(const std::string& text) {
  JsonReader reader(text, "a.json");
  const double value = reader.number();
  reader.end();
  return value;
}

std::string string(const std::string& text) {
  JsonReader reader(text, "a.json");
  std::string value = reader.string();
  reader.end();
  return value;
}

void skip(const std::string& text) {
  JsonReader reader(text, "a.json");
  reader.skip();
  reader.end();
}

}  // namespace

TEST(numbers) {
  CHECK_EQUAL(number(" -0.5e+1 "), -5.0);
  CHECK_EQUAL(number("0"), 0.0);
  CHECK_EQUAL(number("123.25"), 123.25);
  for (const char* bad : {"", "-", "+1", "01", "-01", ".5", "1.", "1.e3", "nan", "inf", "0x10",
                          "1 2", "1e", "--1", "\"1\"", "1e999", "-1e999"}) {
    CHECK_THROWS(number(bad), "a.json: offset ");
  }
}

TEST(strings) {
  CHECK_EQUAL(string(R"("a\"\\\/\b\f\n\r\t")"), "a\"\\/\b\f\n\r\t");
  CHECK_EQUAL(string(R"("\u0041\u00e9\u20ac\ud83d\ude00")"),
              "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  for (const char* bad : {"\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"",
                          "\"\\ud800\\u0041\"", "\"\n\"", "a"}) {
    CHECK_THROWS(string(bad), "a.json: offset ");
  }
}

TEST(values_are_skipped_whole) {
  skip(R"( {"a": [1, {"b": null}, true, false, "]"], "c": {}} )");
  skip("[]");
  for (const char* bad : {"[", "[1", "[1,", "[1,]", "[,]", "{", "{\"a\"", "{\"a\":", "{\"a\":1,}",
                          "{a:1}", "[1 2]", "tru", "nul", "[]]", "{}{}", "]"}) {
    CHECK_THROWS(skip(bad), "a.json: offset ");
  }
  CHECK_THROWS(skip(std::string("1\0", 2)), "follows");
}

TEST(nesting_is_bounded) {
  skip(std::string(64, '[') + std::string(64, ']'));
  CHECK_THROWS(skip(std::string(65, '[') + std::string(65, ']')), "too deeply");
  CHECK_THROWS(skip(std::string(1000000, '[')), "too deeply");
}

TEST(members_and_elements_arrive_in_order) {
  const std::string text = R"({"a": 1, "b": [2, 3], "c": true})";
  JsonReader reader(text, "a.json");
  std::string seen;
  reader.object([&](std::string_view key) {
    seen += key;
    if (key == "a") seen += std::to_string(reader.integer(0, 9));
    if (key == "b") reader.array([&] { seen += std::to_string(reader.integer(0, 9)); });
    if (key == "c") seen += reader.boolean() ? "yes" : "no";
  });
  reader.end();
  CHECK_EQUAL(seen, "a1b23cyes");
}

TEST(integers_have_bounds) {
  const auto integer = [](const std::string& text) {
    return JsonReader(text, "a.json").integer(-1, 5);
  };
  CHECK_EQUAL(integer("-1"), -1);
  CHECK_EQUAL(integer("5.0"), 5);
  for (const char* bad : {"-2", "6", "1.5", "1e300"}) CHECK_THROWS(integer(bad), "from -1 to 5");
}

TEST(writer_places_commas_and_escapes) {
  JsonWriter json;
  json.begin_object().field("a", 1).key("b").begin_array();
  json.value(true).value(0.1F).value(0.1).null().begin_object().end_object().end_array();
  json.field("c", "\"\\\n\xc3\xa9\xff").end_object();
  CHECK_EQUAL(json.text(),
              "{\"a\":1,\"b\":[true,0.1,0.1,null,{}],\"c\":\"\\\"\\\\\\u000a\xc3\xa9\\ufffd\"}");
}

TEST(writer_numbers_read_back) {
  for (const float value : {0.1F, -1e-38F, 3.4e38F, 16777217.0F}) {
    JsonWriter json;
    json.value(value);
    CHECK_EQUAL(static_cast<float>(number(json.text())), value);
  }
  JsonWriter json;
  json.begin_array().value(std::numeric_limits<double>::infinity());
  json.value(std::numeric_limits<float>::quiet_NaN()).end_array();
  CHECK_EQUAL(json.text(), "[null,null]");
}
