// Where int8, fp16 and fp32 tensors are stored and converted.
#include <string>
#include <vector>

#include "check.h"
#include "plan/precision.h"

using namespace mpe;

namespace {

Network network(const std::string& sections) {
  return parse_network("[net]\nwidth=8\nheight=8\nchannels=4\n" + sections, "a.cfg");
}

std::string conv(const std::string& keys) {
  return "[convolutional]\nfilters=4\nactivation=linear\n" + keys + "\n";
}
const std::string kInt8 = "int8=1";
const std::string kYolo =
    "[convolutional]\nfilters=6\nactivation=linear\n%\n[yolo]\nmask=0\nanchors=1,1\nnum=1\n"
    "classes=1\n";

std::string yolo(const std::string& keys) {
  return std::string(kYolo).replace(kYolo.find('%'), 1, keys);
}

// Layer i's output ranges over [0, i + 2], its channel c over [0, c + 1].
Calibration calibration(const Network& of, bool by_channel = false) {
  Calibration result(of.layers.size());
  for (int layer = kNetworkInput; layer < static_cast<int>(of.layers.size()); ++layer) {
    TensorRange range{{0.0F, static_cast<float>(layer + 2)}, {}};
    for (int c = 0; by_channel && c < of.output_shape(layer).channels; ++c) {
      range.channels.push_back({0.0F, static_cast<float>(c + 1)});
    }
    result.record(layer, range);
  }
  return result;
}

PrecisionPlan planned(const Network& of, bool by_channel = false) {
  const Calibration ranges = calibration(of, by_channel);
  return plan_precisions(of, &ranges);
}

// One letter a layer: how its output is stored.
std::string stored(const PrecisionPlan& plan) {
  std::string letters;
  for (const LayerFormat& layer : plan.layers) {
    letters += layer.output.precision == Precision::kFp32   ? 'f'
               : layer.output.precision == Precision::kFp16 ? 'h'
                                                            : 'i';
  }
  return letters;
}

// One letter a layer: what happens to its input before it runs.
std::string conversions(const PrecisionPlan& plan) {
  std::string letters;
  for (const LayerFormat& layer : plan.layers) {
    letters += layer.conversion == InputConversion::kNone     ? '-'
               : layer.conversion == InputConversion::kStatic ? 's'
                                                              : 'd';
  }
  return letters;
}

float scale_for(float top) { return static_cast<float>(static_cast<double>(top) / 255.0); }

}  // namespace

TEST(an_int8_chain_stays_int8_and_its_last_convolution_writes_float) {
  const PrecisionPlan plan =
      planned(network(conv(kInt8) + "[maxpool]\nsize=2\n" + conv(kInt8) + yolo(kInt8)));
  CHECK_EQUAL(stored(plan), "iiiff");
  CHECK_EQUAL(conversions(plan), "s----");
  CHECK(plan.layers[1].output.quantization.scale == plan.layers[0].output.quantization.scale);
  CHECK_EQUAL(plan.layers[0].output.quantization.scale.at(0), scale_for(2));
  CHECK_EQUAL(plan.layers[0].output.quantization.zero_point.at(0), -128);
}

TEST(tensors_that_were_published_as_int8_are_int8_to_the_end) {
  for (const char* precision : {"int8=1", "fp16=1"}) {
    const Network of = network(conv(precision) + "[reshape]\nchannels=2\nheight=16\nwidth=8\n" +
                               "[add]\nfrom=-1,-1\n[softmax]\naxis=channels\n");
    const bool int8 = precision == kInt8;
    Calibration ranges = calibration(of);
    CHECK_EQUAL(stored(plan_precisions(of, &ranges)), int8 ? "ffff" : "hhhf");
    ranges.record(1, {.range = {-1.0F, 1.0F}, .channels = {}, .step = ScaleAndZero{0.5F, 3}});
    CHECK_EQUAL(stored(plan_precisions(of, &ranges)), int8 ? "iiff" : "hhhf");
    ranges.record(2, {.range = {-1.0F, 1.0F}, .channels = {}, .step = ScaleAndZero{0.25F, 4}});
    ranges.record(3, {.range = {0.0F, 1.0F}, .channels = {}, .step = ScaleAndZero{0.25F, 5}});
    const PrecisionPlan plan = plan_precisions(of, &ranges);
    CHECK_EQUAL(stored(plan), int8 ? "iiif" : "hhhf");
    if (int8) CHECK_EQUAL(plan.layers[2].output.quantization.zero_point.at(0), 4);
  }
}

TEST(int16_layers_read_int16_and_write_float) {
  const std::string int16 = conv("int16=1");
  const Network of = network(int16 + "[maxpool]\nsize=2\n" + conv(kInt8) + int16);
  const PrecisionPlan plan = planned(of);
  CHECK_EQUAL(stored(plan), "ffff");
  CHECK_EQUAL(conversions(plan), "s-ss");
  CHECK(plan.layers[3].converted.precision == Precision::kInt16);
  CHECK_EQUAL(plan.layers[3].converted.quantization.scale.at(0), 4.0F / 32767.0F);
  CHECK_THROWS(plan_precisions(of, nullptr), "is int16 with quantize=0 and needs the range of",
               "no calibration file");
  CHECK_THROWS(network(conv("int16=1\nquantize=1")), "quantize=1 does not go with int16=1");
  CHECK_THROWS(network(conv("int16=1\nint8=1")), "a layer has one precision");
}

TEST(without_calibration_every_convolution_measures_and_writes_float) {
  const Network of = network(conv("int8=1\nquantize=1") + conv("int8=1\nquantize=1"));
  const PrecisionPlan plan = plan_precisions(of, nullptr);
  CHECK_EQUAL(stored(plan), "ff");
  CHECK_EQUAL(conversions(plan), "dd");
}

TEST(quantize_measures_only_what_does_not_arrive_in_int8) {
  const PrecisionPlan plan =
      planned(network(conv("int8=1\nquantize=1") + conv("int8=1\nquantize=1") + conv("") +
                      conv("int8=1\nquantize=1")));
  CHECK_EQUAL(stored(plan), "ifff");
  CHECK_EQUAL(conversions(plan), "d--d");
}

TEST(a_missing_range_names_the_command_that_makes_it) {
  const Network of = network(conv("") + conv(kInt8));
  CHECK_THROWS(plan_precisions(of, nullptr), "a.cfg:9", "layer 1", "layer 0", "harness calibrate");
  Calibration partial(of.layers.size());
  partial.record(1, {{0, 1}, {}});
  CHECK_THROWS(plan_precisions(of, &partial), "does not hold it", "harness calibrate");
  CHECK_THROWS(plan_precisions(network(conv(kInt8)), nullptr), "network's input");
}

TEST(half_and_float_layers_convert_what_they_receive) {
  const PrecisionPlan plan = planned(network(conv("fp16=1") + "[maxpool]\nsize=2\n" + conv("") +
                                             conv("fp16=1") + conv(kInt8) + yolo("fp16=1")));
  CHECK_EQUAL(stored(plan), "hhfhfhf");
  CHECK_EQUAL(conversions(plan), "s-ssss-");
}

TEST(joins_take_the_widest_precision_and_int8_only_if_all_are) {
  const std::string branches = conv(kInt8) + conv(kInt8) + "[route]\nlayers=-2\n";
  const PrecisionPlan joined =
      planned(network(branches + conv(kInt8) + "[route]\nlayers=-1,-3\n" + conv(kInt8)));
  CHECK_EQUAL(stored(joined), "iiiiif");
  const PrecisionPlan mixed =
      planned(network(branches + conv("fp16=1") + "[route]\nlayers=-1,-3\n" + conv(kInt8)));
  // layer 1 has no int8 consumer: the join cannot be int8
  CHECK_EQUAL(stored(mixed), "ifihff");
  const PrecisionPlan halves =
      planned(network(conv("fp16=1") + conv("fp16=1") + "[shortcut]\nfrom=-2\n" + conv("")));
  CHECK_EQUAL(stored(halves), "hhhf");
}

TEST(shortcuts_of_int8_get_their_own_range) {
  const PrecisionPlan plan =
      planned(network(conv(kInt8) + conv(kInt8) + "[shortcut]\nfrom=-2\n" + conv(kInt8)));
  CHECK_EQUAL(stored(plan), "iiif");
  CHECK_EQUAL(plan.layers[2].output.quantization.scale.at(0), scale_for(4));
  // Nobody behind it works in int8: float.
  const PrecisionPlan last =
      planned(network(conv(kInt8) + conv(kInt8) + "[shortcut]\nfrom=-2\n" + conv("")));
  CHECK_EQUAL(stored(last), "ifff");
}

TEST(a_tensor_that_ends_only_in_a_route_takes_its_range) {
  const PrecisionPlan plan = planned(network(conv(kInt8) + conv(kInt8) +
                                             "[maxpool]\nsize=3\nstride=1\n[route]\nlayers=-2\n" +
                                             "[route]\nlayers=-1,-2\n" + conv(kInt8)));
  CHECK_EQUAL(stored(plan), "iiiiif");
  const std::vector<float> route = plan.layers[4].output.quantization.scale;
  CHECK_EQUAL(route.at(0), scale_for(6));
  for (const std::size_t layer : {1, 2, 3}) {
    CHECK(plan.layers[layer].output.quantization.scale == route);
  }
  CHECK_EQUAL(plan.layers[0].output.quantization.scale.at(0), scale_for(2));
}

TEST(depthwise_inputs_have_a_range_per_channel) {
  const std::string depthwise = conv("groups=4\nsize=3\npad=1\nint8=1");
  const Network only = network(conv(kInt8) + depthwise + conv(kInt8));
  const std::vector<float> scale = planned(only, true).layers[0].output.quantization.scale;
  CHECK_EQUAL(scale.size(), 4U);
  CHECK_EQUAL(scale.back(), scale_for(4));
  CHECK_EQUAL(planned(only, false).layers[0].output.quantization.scale.size(), 1U);
  const Network shared = network(conv(kInt8) + depthwise + "[route]\nlayers=-2\n" + conv(kInt8));
  CHECK_EQUAL(planned(shared, true).layers[0].output.quantization.scale.size(), 1U);
  // The network's input, converted for a depthwise convolution.
  const PrecisionPlan first = planned(network(depthwise), true);
  CHECK_EQUAL(first.layers[0].converted.quantization.scale.size(), 4U);
}

TEST(sums_too_long_for_int32_run_in_float_with_a_warning) {
  const Network of = parse_network(
      "[net]\nwidth=100\nheight=100\nchannels=4\n[connected]\noutput=2\nint8=1\n", "a.cfg");
  const Calibration ranges = calibration(of);
  const PrecisionPlan plan = plan_precisions(of, &ranges);
  CHECK(plan.layers[0].executed == Precision::kFp32);
  CHECK_EQUAL(plan.warnings.size(), 1U);
}
