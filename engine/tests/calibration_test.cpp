// Calibration files against the network they were made for.
#include "quant/calibration.h"

#include <string>

#include "check.h"
#include "model/network.h"

using namespace mpe;

namespace {

Calibration parse(const std::string& text) {
  static const Network network = parse_network(
      "[net]\nwidth=8\nheight=4\nchannels=3\n[convolutional]\nfilters=2\n[avgpool]\n", "a.cfg");
  return parse_calibration(text, "a.json", network);
}

std::string file(const std::string& tensors, const std::string& more = "") {
  return R"({"format":"mpe-calibration","version":1,"method":"minmax")" + more + ",\"tensors\":[" +
         tensors + "]}";
}

const std::string kInput = R"({"layer":-1,"min":0,"max":1})";

}  // namespace

TEST(ranges_by_layer) {
  const Calibration calibration = parse(file(
      kInput + R"(,{"channel_max":[3,4],"channel_min":[-1.5,0],"layer":0,"min":-1.5,"max":4})"));
  CHECK_EQUAL(calibration.find(kNetworkInput)->range.max, 1.0F);
  CHECK(calibration.find(kNetworkInput)->channels.empty());
  CHECK_EQUAL(calibration.find(0)->range.min, -1.5F);
  CHECK_EQUAL(calibration.find(0)->channels.at(0).max, 3.0F);
  CHECK_EQUAL(calibration.find(0)->channels.at(1).min, 0.0F);
  CHECK(calibration.find(1) == nullptr);
}

TEST(the_network_is_compared) {
  parse(file(kInput, R"(,"network":{"layers":2,"input":[3,4,8],"name":"x"})"));
  for (const char* other : {R"({"layers":3})", R"({"input":[3,8,4]})", R"({"input":[3,4]})",
                            R"({"input":[3,4,8,1]})"}) {
    CHECK_THROWS(parse(file(kInput, std::string(",\"network\":") + other)), "another input size",
                 "harness calibrate");
  }
}

TEST(complaints_name_the_offset) {
  CHECK_THROWS(parse(""), "offset 0");
  CHECK_THROWS(parse("{}"), "not a calibration file");
  CHECK_THROWS(parse(R"({"format":"other","version":1,"tensors":[]})"), "offset 10", "'other'");
  CHECK_THROWS(parse(R"({"format":"mpe-calibration","version":2,"tensors":[]})"), "'2'");
  CHECK_THROWS(parse(file(kInput) + "x"), "follows");
  CHECK_THROWS(parse(file("{}")), "offset 69", "needs");
  CHECK_THROWS(parse(file(kInput + "," + kInput)), "second entry for layer -1");
  CHECK_THROWS(parse(file(R"({"layer":2,"min":0,"max":1})")), "from -1 to 1");
  CHECK_THROWS(parse(file(R"({"layer":-2,"min":0,"max":1})")), "from -1 to 1");
  CHECK_THROWS(parse(file(R"({"layer":0,"min":2,"max":1})")), "layer 0", "above its maximum");
  CHECK_THROWS(parse(file(R"({"layer":0,"min":0,"max":1e39})")), "beyond float");
  CHECK_THROWS(parse(file(R"({"layer":0,"min":0,"max":null})")), "expected a number");
  CHECK_THROWS(parse(file(R"({"layer":0,"min":0,"max":1,"channel_min":[0,0]})")), "2 channels");
  CHECK_THROWS(parse(file(R"({"layer":0,"min":0,"max":1,"channel_min":[0],"channel_max":[1]})")),
               "2 channels");
  CHECK_THROWS(
      parse(file(R"({"layer":0,"min":0,"max":1,"channel_min":[0,2],"channel_max":[1,1]})")),
      "above its maximum");
}

TEST(missing_files) {
  const Network network =
      parse_network("[net]\nwidth=1\nheight=1\nchannels=1\n[avgpool]\n", "a.cfg");
  CHECK_THROWS(load_calibration("/nonexistent/a.json", network), "cannot open");
}
