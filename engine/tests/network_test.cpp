// What a cfg means: shapes, inputs, precisions, and every complaint.
#include "model/network.h"

#include <string>

#include "check.h"
#include "layers/convolutional.h"
#include "layers/crop.h"
#include "layers/route.h"
#include "layers/upsample.h"

using namespace mpe;

namespace {

const std::string kNet = "[net]\nwidth=32\nheight=16\nchannels=3\n";

Network parse(const std::string& sections) { return parse_network(kNet + sections, "a.cfg"); }

// The last layer of a network.
Layer last(const std::string& sections) { return parse(sections).layers.back(); }

std::string convolutional(const std::string& keys) {
  return "[convolutional]\nactivation=linear\n" + keys + "\n";
}

const ConvolutionShape& convolution_of(const Layer& layer) {
  return *layer.operation->convolution();
}

Shape shape(int channels, int height, int width) { return {channels, height, width}; }

}  // namespace

TEST(convolution_defaults_are_darknets) {
  const Layer layer = last("[convolutional]\n");
  CHECK(layer.out == shape(1, 16, 32));
  CHECK_EQUAL(name_of(layer.activation), "logistic");
  CHECK_EQUAL(name_of(layer.precision), "fp32");
  CHECK_EQUAL(layer.batch_normalize, false);
  CHECK_EQUAL(layer.inputs.at(0), kNetworkInput);
  CHECK_EQUAL(layer.line, 5);
}

TEST(pad_means_half_the_size_and_overrides_padding) {
  CHECK(last(convolutional("filters=8\nsize=3\nstride=2\npad=1\npadding=7")).out ==
        shape(8, 8, 16));
  CHECK(last(convolutional("filters=8\nsize=3\npadding=0\npad=0")).out == shape(8, 14, 30));
  CHECK(last(convolutional("filters=8\nsize=5\npadding=1")).out == shape(8, 14, 30));
}

TEST(strides_and_dilation) {
  const Layer strided =
      last(convolutional("filters=8\nsize=3\npad=1\nstride=9\nstride_x=2\nstride_y=1"));
  CHECK(strided.out == shape(8, 16, 16));
  const Layer dilated = last(convolutional("filters=8\nsize=3\npad=1\ndilation=3"));
  CHECK(dilated.out == shape(8, 16, 32));
  CHECK_EQUAL(convolution_of(dilated).padding_y, 3);
  CHECK_EQUAL(convolution_of(last(convolutional("size=1\ndilation=3"))).dilation_x, 1);
}

TEST(costs_of_a_grouped_convolution) {
  const Layer layer = last(convolutional("filters=6\nsize=3\npad=1\ngroups=3\nbatch_normalize=1"));
  CHECK_EQUAL(layer.parameters, 6 * 9 + 4 * 6);
  CHECK_EQUAL(layer.macs, 6 * 16 * 32 * 9);
  CHECK(!convolution_of(layer).depthwise());  // two filters a channel
}

TEST(numbers_end_where_atoi_would_stop) {
  CHECK_EQUAL(last(convolutional("filters = 40 #32")).out.channels, 40);
  CHECK_EQUAL(last(convolutional("filters=4 0")).out.channels, 40);
  CHECK_EQUAL(last(convolutional("filters=\t7\r")).out.channels, 7);
  CHECK_EQUAL(last(convolutional("filters=+7;x")).out.channels, 7);
}

TEST(the_first_of_two_equal_keys_counts) {
  const Network network = parse(convolutional("filters=4\nfilters=5"));
  CHECK_EQUAL(network.layers[0].out.channels, 4);
  CHECK_EQUAL(network.warnings.size(), 1U);
}

TEST(comments_blank_lines_and_short_names) {
  const Network network = parse(
      "# x\n; y\n\n[conv] # first\nfilters=4\nactivation=relu # why\n[max]\nsize=2\nstride=2\n"
      "[avg]\n[conn]\noutput=3\n[soft]\n[cost]\n[dropout]\n");
  CHECK_EQUAL(network.layers.size(), 7U);
  CHECK_EQUAL(name_of(network.layers[0].activation), "relu");
  CHECK_EQUAL(name_of(network.layers[4].kind), "softmax");
  CHECK(network.layers[6].out == shape(3, 1, 1));
  CHECK_EQUAL(network.warnings.size(), 0U);
}

TEST(files_from_windows) {
  const Network network = parse_network(
      "\xef\xbb\xbf[net]\r\nwidth=8\r\nheight=8\r\nchannels=1\r\n\r\n[avgpool]\r\n", "a.cfg");
  CHECK_EQUAL(network.layers.size(), 1U);
}

TEST(maxpool_pads_by_size_less_one) {
  CHECK(last("[maxpool]\nsize=2\nstride=2\n").out == shape(3, 8, 16));
  CHECK(last("[maxpool]\nsize=2\nstride=1\n").out == shape(3, 16, 32));
  CHECK(last("[maxpool]\nstride=3\n").out == shape(3, 6, 11));
  CHECK(last("[maxpool]\nsize=3\nstride=2\npadding=0\n").out == shape(3, 7, 15));
  CHECK(last("[maxpool]\nsize=3\nstride=2\nstride_y=1\n").out == shape(3, 16, 16));
  CHECK_THROWS(parse("[maxpool]\nsize=2\npadding=3\n"), "a.cfg:7", "padding=3");
}

TEST(connected_takes_the_flattened_input) {
  const Layer layer = last("[connected]\noutput=10\nbatch_normalize=1\n");
  CHECK(layer.out == shape(10, 1, 1));
  CHECK_EQUAL(layer.parameters, 10 * 3 * 16 * 32 + 40);
  CHECK_EQUAL(name_of(layer.activation), "logistic");
}

TEST(route_joins_and_slices) {
  const std::string two = convolutional("filters=8") + convolutional("filters=4");
  CHECK(last(two + "[route]\nlayers=-1,0\n").out == shape(12, 16, 32));
  const Layer slice = last(two + "[route]\nlayers = -1, -2\ngroups=2\ngroup_id=1\n");
  CHECK(slice.out == shape(6, 16, 32));
  CHECK_EQUAL(slice.inputs.at(0), 1);
  CHECK_EQUAL(slice.inputs.at(1), 0);
  CHECK_EQUAL(parameters_of<RouteParameters>(slice).group_id, 1);
}

TEST(route_complaints) {
  const std::string two = convolutional("filters=8") + convolutional("filters=4\nstride=2");
  CHECK_THROWS(parse(two + "[route]\nlayers=-1,-2\n"), "same height and width", "8x16x32");
  CHECK_THROWS(parse(two + "[route]\nlayers=2\n"), "layer 2", "does not come before");
  CHECK_THROWS(parse(two + "[route]\nlayers=-3\n"), "layer -1");
  CHECK_THROWS(parse(two + "[route]\nlayers=-99999999999\n"), "does not come before");
  CHECK_THROWS(parse(two + "[route]\n"), "needs layers=");
  CHECK_THROWS(parse(two + "[route]\nlayers=-1,,-1\n"), "not a whole number");
  CHECK_THROWS(parse(two + "[route]\nlayers=-1\ngroups=3\n"), "groups=3", "4 channels");
  CHECK_THROWS(parse(two + "[route]\nlayers=-1\ngroups=2\ngroup_id=2\n"), "group_id=2");
  CHECK_THROWS(parse("[route]\nlayers=-1\n"), "does not come before");
}

TEST(shortcut_joins_maps_of_other_sizes_as_pjreddie_does) {
  const std::string two =
      convolutional("filters=8") + convolutional("filters=4\nstride=2\nsize=3\npad=1");
  const Layer layer = last(two + "[shortcut]\nfrom=-2\nactivation=leaky\n");
  CHECK(layer.out == shape(4, 8, 16));
  CHECK_EQUAL(layer.inputs.at(0), 1);
  CHECK_EQUAL(layer.inputs.at(1), 0);
  CHECK_EQUAL(last(two + "[shortcut]\nfrom=1,0\n").inputs.size(), 3U);
  // The ratio must be one, whichever map is the larger.
  const std::string skewed = convolutional("") + convolutional("stride_x=4\nstride_y=2");
  CHECK_THROWS(parse(skewed + "[shortcut]\nfrom=0\n"), "1x16x32", "does not add to 1x8x8");
  CHECK_THROWS(parse(skewed + "[route]\nlayers=0\n[shortcut]\nfrom=1\n"), "does not add to");
  CHECK_THROWS(parse(two + "[shortcut]\nfrom=0\nweights_type=per_channel\n"), "weighted");
  CHECK_THROWS(parse(two + "[shortcut]\nfrom=2\n"), "does not come before");
}

TEST(scale_channels_takes_factors_and_a_map) {
  const std::string squeeze = convolutional("filters=8") + "[avgpool]\n";
  const Layer layer = last(squeeze + "[scale_channels]\nfrom=-2\n");
  CHECK(layer.out == shape(8, 16, 32));
  CHECK_EQUAL(layer.inputs.at(0), 1);
  CHECK_EQUAL(layer.inputs.at(1), 0);
  CHECK_THROWS(parse(squeeze + convolutional("filters=4") + "[scale_channels]\nfrom=0\n"),
               "needs 8x1x1");
  const std::string mask = convolutional("filters=8") + convolutional("filters=1");
  CHECK(last(mask + "[scale_channels]\nfrom=0\nscale_wh=1\n").out == shape(8, 16, 32));
}

TEST(upsample_reorg_crop_and_softmax) {
  CHECK(last("[upsample]\n").out == shape(3, 32, 64));
  CHECK_EQUAL(parameters_of<UpsampleParameters>(last("[upsample]\nstride=3\nscale=.5\n")).scale,
              0.5F);
  CHECK(last(convolutional("filters=4") + "[reorg]\nstride=2\n").out == shape(16, 8, 16));
  CHECK(last(convolutional("filters=4") + "[reorg]\nstride=2\nreverse=1\n").out ==
        shape(1, 32, 64));
  CHECK_THROWS(parse("[reorg]\nstride=2\n"), "does not fit 3x16x32");
  const Layer crop = last("[crop]\ncrop_height=8\ncrop_width=9\n");
  CHECK(crop.out == shape(3, 8, 9));
  CHECK_EQUAL(parameters_of<CropParameters>(crop).scale, 2.0F);
  CHECK_EQUAL(parameters_of<CropParameters>(crop).offset, -1.0F);
  const Layer plain = last("[crop]\ncrop_height=8\ncrop_width=9\nnoadjust=1\n");
  CHECK_EQUAL(parameters_of<CropParameters>(plain).scale, 1.0F);
  CHECK_THROWS(parse("[crop]\ncrop_height=17\ncrop_width=9\n"), "smaller");
  CHECK_EQUAL(last("[softmax]\ngroups=3\n").operation->geometry().groups, 3);
  CHECK_THROWS(parse("[softmax]\ngroups=7\n"), "groups=7");
  CHECK_THROWS(parse("[softmax]\ntemperature=0\n"), "above 0");
}

TEST(detection_heads_need_matching_filters) {
  const std::string yolo =
      "[yolo]\nclasses=2\nnum=6\nmask=3,4,5\nanchors=1,2, 3,4, 5,6, 7,8, 9,1, 2,3\n";
  CHECK_EQUAL(parse(convolutional("filters=21") + yolo).layers.size(), 2U);
  CHECK_THROWS(parse(convolutional("filters=20") + yolo), "21 input channels", "20");
  CHECK_THROWS(parse(convolutional("filters=21") + "[yolo]\nclasses=2\nnum=3\nmask=1,2,3\n"),
               "anchor 3");
  CHECK_THROWS(parse(convolutional("filters=7") + "[yolo]\nclasses=2\nmask=0\nanchors=1\n"),
               "anchor 0");
  CHECK_EQUAL(
      parse(convolutional("filters=35") + "[region]\nclasses=2\ncoords=4\nnum=5\n").layers.size(),
      2U);
  CHECK_THROWS(parse(convolutional("filters=36") + "[region]\nclasses=2\nnum=5\n"), "35");
}

TEST(one_precision_per_layer) {
  CHECK_EQUAL(name_of(last(convolutional("int8=1\nquantize=1\nfp32=0")).precision), "int8");
  CHECK(last(convolutional("int8=1\nquantize=1")).quantize);
  CHECK_EQUAL(name_of(last("[connected]\nfp16=1\n").precision), "fp16");
  CHECK_THROWS(parse(convolutional("fp16=1\nint8=1")), "a.cfg:8", "fp16 and int8");
  CHECK_THROWS(parse(convolutional("fp32=1\nint8=1")), "fp32 and int8");
  CHECK_THROWS(parse(convolutional("int8=2")), "a.cfg:7", "int8=2");
  CHECK_THROWS(parse(convolutional("quantize=-1")), "quantize=-1");
  CHECK_THROWS(parse(convolutional("fp16=yes")), "'yes'");
}

TEST(unknown_keys_are_errors_with_the_nearest_known_key) {
  CHECK_THROWS(parse(convolutional("activaton=leaky")), "a.cfg:7", "no key 'activaton'",
               "did you mean 'activation'?");
  CHECK_THROWS(parse(convolutional("xyzxyzxyz=1")), "a.cfg:7", "'xyzxyzxyz'; remove it");
  CHECK_THROWS(parse_network("[net]\nwidth=8\nheigth=8\nchannels=1\n[avgpool]\n", "a.cfg"),
               "a.cfg:3", "[net]", "did you mean 'height'?");
  // A key of another section means nothing in this one.
  CHECK_THROWS(parse("[maxpool]\nfilters=4\n"), "a.cfg:6", "[maxpool] there is no key 'filters'");
}

TEST(keys_of_darknet_that_only_matter_for_training_are_ignored) {
  const Network network = parse_network(
      "[net]\nbatch=64\nsubdivisions=16\nwidth=32\nheight=16\nchannels=3\nmomentum=0.9\n"
      "decay=0.0005\nmosaic=1\npolicy=steps\nsteps=1,2\nscales=.1,.1\nmax_ratio=2\n"
      "[convolutional]\nfilters=6\nangle=3\nstopbackward=1\ndontsave=1\nactivation=linear\n"
      "[shortcut]\nfrom=-1\nalpha=1\nbeta=1.0\n"
      "[yolo]\nmask=0\nnum=1\nclasses=1\nanchors=1,1\njitter=.3\nignore_thresh=.7\n"
      "truth_thresh=1\ncounters_per_class=1,2\niou_normalizer=0.07\n[cost]\nnoobj=1\n",
      "a.cfg");
  CHECK(network.warnings.empty());
  CHECK_THROWS(parse(convolutional("numload=3")), "a.cfg:7", "'numload'");
  CHECK_THROWS(parse("[reorg]\nstride=1\nflatten=1\n"), "a.cfg:7", "'flatten'");
  CHECK_THROWS(parse(convolutional("") + "[shortcut]\nfrom=-1\nbeta=0.5\n"), "'beta'");
}

TEST(keys_that_are_set_twice_are_warnings) {
  const Network network = parse(convolutional("filters=4\nfilters=5"));
  CHECK_EQUAL(network.warnings.size(), 1U);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "filters=" + std::to_string(i + 1) + "\n";
  CHECK_EQUAL(parse(convolutional(many)).warnings.size(), 21U);
}

TEST(sections_and_lines_that_mean_nothing) {
  CHECK_THROWS(parse("[convolutionel]\n"), "a.cfg:5", "did you mean [convolutional]");
  CHECK_THROWS(parse("[lstm]\n"), "[lstm]");
  CHECK_THROWS(parse("[what the]\x01\n"), "a.cfg:5", "\\x01");
  CHECK_THROWS(parse("[conv\n"), "[name]");
  CHECK_THROWS(parse("filters\n"), "'filters'");
  CHECK_THROWS(parse("=1\n"), "neither");
  CHECK_THROWS(parse_network("width=3\n", "a.cfg"), "a.cfg:1", "before the first section");
  CHECK_THROWS(parse_network("[convolutional]\n", "a.cfg"), "start with [net]");
  CHECK_THROWS(parse_network("", "a.cfg"), "no sections");
  CHECK_THROWS(parse(""), "no layers");
  CHECK_THROWS(parse_network("[net]\nwidth=3\nheight=3\n[avgpool]\n", "a.cfg"), "channels");
  CHECK_THROWS(parse("[convolutional]\nactivation=lekay\n"), "did you mean 'leaky'");
  CHECK_THROWS(load_network("/nonexistent/a.cfg"), "/nonexistent/a.cfg", "cannot open");
  CHECK_THROWS(load_network("/"), "/: is a folder");
}

TEST(unsupported_settings_are_refused) {
  CHECK_THROWS(parse(convolutional("xnor=1")), "a.cfg:7", "'xnor'");
  CHECK_THROWS(parse(convolutional("share_index=0")), "share_index");
  CHECK_THROWS(parse("[maxpool]\nmaxpool_depth=1\n"), "maxpool_depth");
  CHECK_THROWS(parse("[softmax]\ntree=a.tree\n"), "tree");
  CHECK_EQUAL(parse(convolutional("xnor=0")).layers.size(), 1U);
}

TEST(shapes_that_do_not_fit) {
  CHECK_THROWS(parse(convolutional("size=17")), "a.cfg:5", "1x0x16");
  CHECK_THROWS(parse(convolutional("filters=4\ngroups=3")), "groups=3");
  CHECK_THROWS(parse(convolutional("filters=0")), "filters=0");
  CHECK_THROWS(parse(convolutional("filters=-3")), "filters=-3");
  CHECK_THROWS(parse(convolutional("stride=0")), "stride=0");
}

TEST(padding_is_in_proportion_to_the_input) {
  const auto sized = [](const std::string& size, const std::string& keys) {
    return parse_network(
        "[net]\nwidth=" + size + "\nheight=" + size + "\nchannels=2\n" + convolutional(keys),
        "a.cfg");
  };
  // A kernel far larger than its map is unusual, but no mistake.
  CHECK_EQUAL(sized("8", "size=3\npad=1\ndilation=1024").layers[0].out.height, 8);
  CHECK_EQUAL(convolution_of(sized("8", "size=5\npad=1\ndilation=1024").layers[0]).padding_y, 2048);
  CHECK_THROWS(sized("8", "size=63\npad=1\ndilation=1024"), "a.cfg:8", "31744 pixels of padding",
               "2x8x8", "63496x63496");
  CHECK_THROWS(sized("8", "size=3\npadding=8\ndilation=512"), "a.cfg:8", "4096 pixels");
  // Large maps may be padded by as much again on every side, small ones by more.
  CHECK_EQUAL(sized("10000", "size=3\npad=1").layers[0].out.width, 10000);
  CHECK_EQUAL(
      convolution_of(sized("8192", "size=9\npad=1\ndilation=1024\nstride=8").layers[0]).padding_y,
      4096);
  CHECK_THROWS(sized("8192", "size=11\npad=1\ndilation=1024\nstride=8"), "a.cfg:8", "padding");
}

TEST(absurd_sizes) {
  CHECK_THROWS(parse(convolutional("filters=99999999999")), "filters=2147483647");
  CHECK_THROWS(parse(convolutional("filters=65536\nsize=1024\npadding=1024")), "not a size");
  CHECK_THROWS(parse(convolutional("size=65\npadding=0\ndilation=1024")), "a.cfg:9",
               "size=65 and dilation=1024", "65537 pixels wide", "the limit is 65536");
  CHECK_THROWS(parse("[upsample]\nstride=1024\n[upsample]\nstride=1024\n"), "not a size");
  CHECK_THROWS(parse("[connected]\noutput=65536\n[connected]\noutput=65536\n"), "parameters");
  CHECK_THROWS(parse_network("[net]\nwidth=65536\nheight=65536\nchannels=3\n[avgpool]\n", "a.cfg"),
               "too large");
  std::string deep;
  for (int i = 0; i < 4097; ++i) deep += "[dropout]\n";
  CHECK_THROWS(parse(deep), "4096 layers");
  std::string wide;
  for (int i = 0; i < 12; ++i) wide += convolutional("filters=65536\nsize=1");
  CHECK_THROWS(parse_network("[net]\nwidth=64\nheight=64\nchannels=1\n" + wide, "a.cfg"),
               "parameters");
  std::string references = "[route]\nlayers=0";
  for (int i = 0; i < 256; ++i) references += ",0";
  CHECK_THROWS(parse(convolutional("") + references + "\n"), "more than 256");
}
