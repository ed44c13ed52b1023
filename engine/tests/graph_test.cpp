// Sections and keys of the cfg that Darknet does not have: names, several inputs, sides of their
// own, and the layers of imported graphs, on small maps worked out by hand.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "exec/session.h"
#include "layers/operation.h"
#include "quant/calibration.h"
#include "random_network.h"

using namespace mpe;

namespace {

using Values = std::vector<float>;

std::string net(int channels, int height, int width, const std::string& keys = "") {
  return "[net]\nwidth=" + std::to_string(width) + "\nheight=" + std::to_string(height) +
         "\nchannels=" + std::to_string(channels) + "\n" + keys;
}

// The network's last output by the vector code and by the plain loops, which give the same bits.
Values run(const std::string& cfg, const Values& input, const Values& weights = {}) {
  ModelFiles files(cfg, 1);
  std::ofstream file(files.weights, std::ios::binary);
  const std::int32_t header[] = {0, 2, 0, 0, 0};
  file.write(reinterpret_cast<const char*>(header), sizeof header);
  file.write(reinterpret_cast<const char*>(weights.data()),
             static_cast<std::streamsize>(weights.size() * sizeof(float)));
  file.close();
  Values results[2];
  for (int i = 0; i < 2; ++i) {
    Options options;
    options.algorithm = i == 0 ? "reference" : "";
    Session session(files.cfg, files.weights, options);
    session.run(input);
    const int head = session.heads().back();
    results[i].resize(static_cast<std::size_t>(session.network().output_shape(head).elements()));
    session.read(head, results[i]);
  }
  CHECK(results[0] == results[1]);
  return results[0];
}

Values counting(int count) {
  Values values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  return values;
}

Shape shape_of(const std::string& cfg) { return parse_network(cfg, "a.cfg").layers.back().out; }

}  // namespace

TEST(layers_are_named_and_read_by_name) {
  const Network network = parse_network(
      net(1, 2, 2, "name=image\noutputs=half,image.1\n") +
          "[abs]\nname=image.1\n[neg]\nname=half\nfrom=image\n[add]\nfrom=image.1,half,input,-1\n",
      "a.cfg");
  CHECK_EQUAL(network.layers[1].name, "half");
  CHECK(network.layers[1].inputs == std::vector<int>{kNetworkInput});
  CHECK(network.layers[2].inputs == (std::vector<int>{0, 1, kNetworkInput, 1}));
  CHECK(network.outputs == (std::vector<int>{1, 0}));
  const auto fails = [](const std::string& sections, const std::string& message) {
    CHECK_THROWS(parse_network(net(1, 2, 2) + sections, "a.cfg"), message);
  };
  fails("[abs]\nname=1st\n", "a.cfg:6: [abs] '1st' is no name");
  fails("[abs]\nname=a\n[neg]\nname=a\n", "the name 'a' is taken already");
  fails("[abs]\nname=first\n[neg]\nfrom=frist\n", "did you mean 'first'?");
  fails("[abs]\nname=a\nfrom=a\n", "no layer before this one has that name");
  fails("[abs]\nfrom=input,input\n", "has one input, but from= names 2");
  fails("[constant]\nchannels=1\nheight=1\nwidth=1\nfrom=input\n", "has no inputs");
  CHECK_THROWS(parse_network(net(1, 2, 2, "outputs=nothing\n") + "[abs]\n", "a.cfg"), "a.cfg:5:");
}

TEST(outputs_are_the_heads) {
  ModelFiles files(net(1, 1, 3, "outputs=first,third\n") +
                       "[neg]\nname=first\n[abs]\nname=second\n[neg]\nname=third\n[exp]\n",
                   1);
  Session session(files.cfg, files.weights, {});
  CHECK(session.heads() == (std::vector<int>{0, 2}));
  const Values input = {1, -2, 3};
  session.run(input);
  Values values(3);
  session.read(0, values);
  CHECK(values == (Values{-1, 2, -3}));
  session.read(2, values);
  CHECK(values == (Values{-1, -2, -3}));
}

TEST(pictures_become_what_the_network_takes) {
  const Network network =
      parse_network(net(3, 1, 1, "mean=1,2,3\nstd=2\ncolors=bgr\n") + "[abs]\n", "a.cfg");
  CHECK(network.input_values.mean == (Values{1, 2, 3}));
  CHECK(network.input_values.deviation == Values{2});
  CHECK(network.input_values.blue_first);
  CHECK_THROWS(parse_network(net(3, 1, 1, "mean=1,2\n") + "[abs]\n", "a.cfg"),
               "mean= has 2 numbers");
  CHECK_THROWS(parse_network(net(3, 1, 1, "std=0\n") + "[abs]\n", "a.cfg"), "std= must be above 0");
  CHECK_THROWS(parse_network(net(3, 1, 1, "colors=gbr\n") + "[abs]\n", "a.cfg"), "rgb or bgr");
}

TEST(a_convolution_has_sides_and_axes_of_its_own) {
  const std::string sum = "[convolutional]\nfilters=1\nactivation=linear\n";
  const Values ones(13, 1.0F);
  // As TensorFlow pads 3x3 with stride 2 of an even size: nothing above, one row below.
  CHECK(shape_of(net(1, 4, 4) + sum + "size=3\nstride=2\npad_bottom=1\npad_right=1\n") ==
        (Shape{1, 2, 2}));
  Values weights(10, 1.0F);
  weights[0] = 0.0F;
  CHECK(run(net(1, 4, 4) + sum + "size=3\nstride=2\npad_bottom=1\npad_right=1\n", counting(16),
            weights) == (Values{45, 39, 66, 50}));
  weights.resize(1 + 3);
  CHECK(run(net(1, 2, 3) + sum + "size_x=3\nsize_y=1\npad_left=2\n", counting(6), weights) ==
        (Values{0, 1, 3, 3, 7, 12}));
  weights.resize(1 + 2);
  CHECK(run(net(1, 1, 4) + sum + "size_x=2\nsize_y=1\ndilation_x=3\n", counting(4), weights) ==
        Values{3});
}

TEST(arithmetic_repeats_axes_of_one) {
  const std::string constant = "[constant]\nname=c\nchannels=2\nheight=1\nwidth=1\n";
  CHECK(run(net(1, 1, 2) + constant + "[add]\nfrom=input,c\n", Values{1, 2}, Values{10, 20}) ==
        (Values{11, 12, 21, 22}));
  const std::string row = "[constant]\nname=c\nchannels=1\nheight=1\nwidth=2\n";
  CHECK(run(net(1, 2, 2) + row + "[sub]\nfrom=c,input\n", Values{1, 2, 3, 4}, Values{10, 20}) ==
        (Values{9, 18, 7, 16}));
  CHECK(run(net(1, 2, 2) + row + "[div]\nfrom=input,c\n", Values{1, 2, 3, 4}, Values{2, 4}) ==
        (Values{0.5F, 0.5F, 1.5F, 1}));
  const std::string column = "[constant]\nname=c\nchannels=1\nheight=2\nwidth=1\n";
  CHECK(run(net(1, 2, 2) + column + "[mul]\nfrom=input,c\nactivation=relu\n", Values{1, 2, 3, 4},
            Values{2, -1}) == (Values{2, 4, 0, 0}));
  CHECK(run(net(1, 2, 2) + column + "[maximum]\nfrom=input,c\n", Values{1, 2, 3, 4},
            Values{2, 3.5F}) == (Values{2, 2, 3.5F, 4}));
  CHECK_THROWS(shape_of(net(1, 2, 3) + row + "[add]\nfrom=input,c\n"),
               "1x1x2 does not fit 1x2x3: each size must be the same or 1");
  CHECK_THROWS(shape_of(net(1, 2, 3) + "[div]\nfrom=input,input,input\n"), "needs two inputs");
}

TEST(several_inputs_lie_one_behind_the_other) {
  const std::string more = "[input]\nname=b\nchannels=1\nheight=1\nwidth=2\n";
  const std::string third = "[input]\nname=c\nchannels=2\nheight=1\nwidth=1\n";
  const Values values = {1, 2, 10, 20, 300, 400};
  CHECK(run(net(1, 1, 2) + more + third + "[add]\nfrom=input,b\n[add]\nfrom=-1,c\n", values) ==
        (Values{311, 322, 411, 422}));
  CHECK(run(net(1, 1, 2) + more + third + "[reshape]\nfrom=c\nchannels=1\nheight=1\nwidth=2\n" +
                "[route]\nfrom=b,-1,input\n",
            values) == (Values{10, 20, 300, 400, 1, 2}));
  CHECK(run(net(1, 1, 2, "outputs=b\n") + more + "[neg]\nfrom=input\n", Values{1, 2, 3, 4}) ==
        (Values{3, 4}));
  const Values weights = {0.5F, 2, 3};
  CHECK(run(net(1, 1, 1) + more + "[connected]\nfrom=b\noutput=1\nactivation=linear\n",
            Values{9, 1, 10}, weights) == (Values{32.5F}));

  // The caller's values may lie elsewhere in each run.
  ModelFiles files(net(1, 1, 2) + more + "[sub]\nfrom=b,input\n", 1);
  Session session(files.cfg, files.weights, {});
  for (const Values& given : {Values{1, 2, 3, 5}, Values{0, 0, 7, 8}}) {
    session.run(given);
    Values found(2);
    session.read(1, found);
    CHECK(found == (Values{given[2] - given[0], given[3] - given[1]}));
    session.read(0, found);
    CHECK(found == (Values{given[2], given[3]}));
  }
  CHECK_THROWS(session.run(Values{1, 2}), "the input has 2 values", "takes 4");
  CHECK_THROWS(shape_of(net(1, 1, 2) + "[input]\nchannels=1\n"), "height");
  CHECK_THROWS(shape_of(net(1, 1, 2) + "[input]\nfrom=-1\nchannels=1\nheight=1\nwidth=1\n"),
               "has no inputs");
}

TEST(int16_layers_sum_int8_weights_and_inputs_on_their_grid) {
  ModelFiles files(net(1, 1, 3) + "[convolutional]\nfilters=2\nactivation=relu\nint16=1\n", 1);
  std::ofstream weights(files.weights, std::ios::binary);
  const std::int32_t header[] = {0, 2, 0, 0, 0};
  weights.write(reinterpret_cast<const char*>(header), sizeof header);
  const float values[] = {0.5F, -1.0F, 2.0F, -0.75F};  // biases, then weights of 100 and -50 steps
  weights.write(reinterpret_cast<const char*>(values), sizeof values);
  weights.close();
  const std::string calibration = files.cfg + ".json";
  std::ofstream(calibration) << R"({"format": "mpe-calibration", "version": 1, "tensors": [)"
                             << R"({"layer": -1, "min": -8192, "max": 8191.75}], "weights": [)"
                             << R"({"layer": 0, "scales": [0.02, 0.015]}]})";
  Options options;
  options.calibration = calibration;
  Session session(files.cfg, files.weights, options);
  session.run(Values{3.3F, -7000.1F, 9000});  // steps of 0.25: 3.25, -7000, 8191.75
  Values found(6);
  session.read(0, found);
  const Values expected = {7, 0, 16384, 0, 5249, 0};
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::fabs(found[i] - expected[i]) <= 4e-3F);
  CHECK_EQUAL(name_of(session.reports()[0].executed), "int16");
  CHECK_EQUAL(session.reports()[0].algorithm, "reference");
  std::remove(calibration.c_str());
}

TEST(functions_of_single_values) {
  const Values input = {-2, -0.5F, 0, 4};
  const std::string start = net(1, 1, 4);
  CHECK(run(start + "[abs]\n", input) == (Values{2, 0.5F, 0, 4}));
  CHECK(run(start + "[activation]\nactivation=clip\nmin=-1\nmax=3\n", input) ==
        (Values{-1, -0.5F, 0, 3}));
  CHECK(run(start + "[activation]\nactivation=clip\nmax=3\n", input) == (Values{-2, -0.5F, 0, 3}));
  CHECK(run(start + "[activation]\nactivation=leaky\nalpha=0.5\n", input) ==
        (Values{-1, -0.25F, 0, 4}));
  CHECK(run(start + "[activation]\nactivation=hard_sigmoid\nalpha=0.25\n", input) ==
        (Values{0, 0.375F, 0.5F, 1}));
  CHECK(run(net(2, 1, 2) + "[prelu]\n", input, Values{2, 3}) == (Values{-4, -1, 0, 4}));
  CHECK(run(start + "[abs]\n[sqrt]\n", Values{1, 4, 9, 16}) == (Values{1, 2, 3, 4}));
  CHECK_THROWS(shape_of(start + "[activation]\nactivation=relu\nalpha=1\n"),
               "activation=relu has no alpha=");
  CHECK_THROWS(shape_of(start + "[activation]\nactivation=relu\nmax=1\n"),
               "max= belongs to activation=clip");
}

TEST(windows_take_the_largest_value_or_the_mean) {
  const std::string start = net(1, 3, 3);
  const std::string same = "size=3\npad=1\n";
  CHECK(run(start + "[pool]\n" + same, counting(9)) == (Values{4, 5, 5, 7, 8, 8, 7, 8, 8}));
  CHECK(run(start + "[pool]\ntype=average\n" + same, counting(9)) ==
        (Values{2, 2.5F, 3, 3.5F, 4, 4.5F, 5, 5.5F, 6}));
  CHECK_EQUAL(run(start + "[pool]\ntype=average\ncount_padding=1\n" + same, counting(9))[0],
              8.0F / 9.0F);
  CHECK(run(start + "[pool]\nsize=2\nstride=2\npad_bottom=1\npad_right=1\n", counting(9)) ==
        (Values{4, 5, 7, 8}));
  for (const char* keys : {"size=1\nstride=2\npad_right=2\n", "size=2\npad_top=2\n",
                           "size_x=2\ndilation_x=4\npad_left=2\npad_right=2\n"}) {
    CHECK_THROWS(shape_of(start + "[pool]\n" + keys), "has windows without any pixel of 1x3x3");
  }
  CHECK(run(start + "[pool]\nsize=2\ndilation=2\n", counting(9)) == Values{8});
}

TEST(axes_are_reduced) {
  const Values input = counting(8);
  const std::string start = net(2, 2, 2);
  CHECK(run(start + "[reduce]\naxes=height,width\n", input) == (Values{1.5F, 5.5F}));
  CHECK(run(start + "[reduce]\naxes=channels\ntype=sum\n", input) == (Values{4, 6, 8, 10}));
  CHECK(run(start + "[reduce]\naxes=width\ntype=max\n", input) == (Values{1, 3, 5, 7}));
  CHECK(run(start + "[reduce]\naxes=height\ntype=min\n", input) == (Values{0, 1, 4, 5}));
  CHECK(run(net(1, 1, 2) + "[reduce]\naxes=width\ntype=l2\n", Values{3, 4}) == Values{5});
  CHECK_THROWS(shape_of(start + "[reduce]\naxes=depth\n"), "choose from channels, height, width");
}

TEST(values_change_places) {
  const Values input = counting(12);
  const std::string start = net(2, 2, 3);
  CHECK(run(start + "[reshape]\nchannels=12\nheight=1\nwidth=1\n", input) == input);
  CHECK(run(start + "[transpose]\naxes=0,2,1\n", input) ==
        (Values{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
  CHECK(shape_of(start + "[transpose]\naxes=2,0,1\n") == (Shape{3, 2, 2}));
  CHECK(run(start + "[transpose]\ndims=2,6\naxes=1,0\nchannels=6\nheight=1\nwidth=2\n", input) ==
        (Values{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}));
  CHECK(run(start + "[slice]\nbegin=1\n", input) == (Values{6, 7, 8, 9, 10, 11}));
  CHECK(run(start + "[slice]\naxis=width\nbegin=0\nend=3\nstep=2\n", input) ==
        (Values{0, 2, 3, 5, 6, 8, 9, 11}));
  CHECK(run(start + "[slice]\naxis=width\nstep=-1\n", counting(12)) ==
        (Values{2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9}));
  CHECK(run(start + "[slice]\naxis=height\nbegin=1\nend=2\n", input) ==
        (Values{3, 4, 5, 9, 10, 11}));
  CHECK_THROWS(shape_of(start + "[reshape]\nchannels=5\nheight=1\nwidth=1\n"),
               "makes 5x1x1, 5 values, of 2x2x3, which has 12");
  CHECK_THROWS(shape_of(start + "[transpose]\naxes=0,0,1\n"),
               "must name each axis from 0 to 2 once");
  CHECK_THROWS(shape_of(start + "[slice]\nbegin=1\nend=1\n"), "end=1 is outside 2 to 2");
}

TEST(maps_are_joined_along_any_axis) {
  const std::string start = net(2, 1, 2);
  const Values input = counting(4);
  CHECK(run(start + "[neg]\n[route]\naxis=height\nfrom=input,-1\n", input) ==
        (Values{0, 1, -0.0F, -1, 2, 3, -2, -3}));
  CHECK(run(start + "[neg]\n[route]\naxis=width\nlayers=-1,-1\n", input) ==
        (Values{-0.0F, -1, -0.0F, -1, -2, -3, -2, -3}));
}

TEST(maps_are_padded) {
  const Values input = {1, 2, 3};
  const std::string start = net(1, 1, 3);
  CHECK(run(start + "[pad]\npad_left=1\npad_right=2\nvalue=9\n", input) ==
        (Values{9, 1, 2, 3, 9, 9}));
  CHECK(run(start + "[pad]\nmode=reflect\npad_left=2\npad_right=1\n", input) ==
        (Values{3, 2, 1, 2, 3, 2}));
  CHECK(run(start + "[pad]\nmode=edge\npad_left=2\npad_bottom=1\n", input) ==
        (Values{1, 1, 1, 2, 3, 1, 1, 1, 2, 3}));
  CHECK(run(start + "[pad]\npad_back=1\n", input) == (Values{1, 2, 3, 0, 0, 0}));
  CHECK_THROWS(shape_of(start + "[pad]\nmode=reflect\npad_left=3\n"), "reflects more than the 2");
}

TEST(maps_are_resized_as_onnx_says) {
  const Values input = {0, 1, 2};
  const std::string start = net(1, 1, 3) + "[resize]\nheight=1\nwidth=6\n";
  CHECK(run(start, input) == (Values{0, 0, 1, 1, 2, 2}));
  CHECK(run(start + "mode=linear\n", input) == (Values{0, 0.25F, 0.75F, 1.25F, 1.75F, 2}));
  CHECK(run(start + "mode=linear\ncoordinates=align_corners\n", Values{0, 5, 10}) ==
        (Values{0, 2, 4, 6, 8, 10}));
  CHECK(run(start + "mode=linear\ncoordinates=asymmetric\n", input) ==
        (Values{0, 0.5F, 1, 1.5F, 2, 2}));
  CHECK(run(net(1, 1, 4) + "[resize]\nheight=1\nwidth=2\ncoordinates=asymmetric\n", counting(4)) ==
        (Values{0, 2}));
  // Place 6 of 12 is place 5 of 10, although 1.2 in float is more than 12 / 10.
  CHECK(
      run(net(1, 1, 10) + "[resize]\nheight=1\nwidth=12\ncoordinates=asymmetric\nrounding=floor\n",
          counting(10)) == (Values{0, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9}));
}

TEST(matrices_are_multiplied) {
  // (1, 2, 3) times its transpose.
  CHECK(run(net(1, 2, 3) + "[transpose]\naxes=0,2,1\n[matmul]\nfrom=input,-1\n", counting(6)) ==
        (Values{5, 14, 14, 50}));
  CHECK_THROWS(shape_of(net(1, 2, 3) + "[matmul]\nfrom=input,input\n"),
               "1x2x3 does not multiply 1x2x3");
}

TEST(windows_are_added_by_transposed_convolutions) {
  const std::string start = net(1, 1, 3) + "[deconvolutional]\nactivation=linear\nsize_x=3\n";
  // A bias of 10, then the window.
  CHECK(run(start, Values{1, 2, 3}, {10, 1, 10, 100}) == (Values{11, 22, 133, 240, 310}));
  CHECK(run(start + "stride_x=3\n", Values{1, 2, 3}, {0, 1, 10, 100}) ==
        (Values{1, 10, 100, 2, 20, 200, 3, 30, 300}));
  CHECK(run(start + "dilation_x=2\npad_left=1\noutput_pad_x=2\n", Values{1, 2, 3},
            {0, 1, 10, 100}) == (Values{2, 13, 20, 130, 200, 300, 0, 0}));
  // Two groups: each of the two channels has two filters of its own.
  CHECK(run(net(2, 1, 1) + "[deconvolutional]\nfilters=4\ngroups=2\nsize_y=2\nactivation=linear\n",
            Values{1, 10},
            {0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}) == (Values{1, 2, 3, 4, 50, 60, 70, 80}));
  // Longer than a block of values.
  const Values wide =
      run(net(1, 1, 700) + "[deconvolutional]\nactivation=relu\nsize_x=2\nstride=2\n",
          counting(700), {-1, 1, -1});
  CHECK(wide.size() == 1400 && wide[1398] == 698 && wide[1399] == 0 && wide[1024] == 511);
  CHECK_THROWS(shape_of(start + "pad_left=5\n"), "an output 0 pixels wide");
  CHECK_THROWS(shape_of(start + "groups=2\n"), "groups=2 divides not both");
}

TEST(softmax_along_an_axis) {
  const std::string start = net(2, 1, 2);
  const Values equal = {3, 7, 3, 7};
  CHECK(run(start + "[softmax]\naxis=channels\n", equal) == (Values{0.5F, 0.5F, 0.5F, 0.5F}));
  const Values along = run(start + "[softmax]\naxis=width\n", equal);
  CHECK(std::abs(along[0] + along[1] - 1.0F) < 1e-6F && along[1] > 0.98F);
}

// A convolution whose tensors and weights have the steps of a published model: its integers are
// those that the model's own runtime computes.
TEST(published_steps_are_used_as_they_are) {
  ModelFiles files(net(1, 1, 2) +
                       "[convolutional]\nfilters=2\nactivation=linear\nint8=1\n"
                       "[convolutional]\nfilters=1\nactivation=linear\nint8=1\n",
                   1);
  std::ofstream file(files.weights, std::ios::binary);
  const std::int32_t header[] = {0, 2, 0, 0, 0};
  file.write(reinterpret_cast<const char*>(header), sizeof header);
  // In steps: weights 100 and -3 of 0.01 and 0.02, biases 5 and -7; then 1 and 2 of 0.5, bias 0.
  const float input_step = 0.25F;
  const Values weights = {
      5 * 0.01F * input_step, -7 * 0.02F * input_step, 1.0F, -0.06F, 0.0F, 0.5F, 1.0F};
  file.write(reinterpret_cast<const char*>(weights.data()),
             static_cast<std::streamsize>(weights.size() * sizeof(float)));
  file.close();
  const std::string calibration = files.cfg + ".json";
  std::ofstream(calibration)
      << R"({"format": "mpe-calibration", "version": 1, "tensors": [)"
      << R"({"layer": -1, "scale": 0.25, "zero_point": 3}, {"layer": 0, "scale": 0.5, "zero_point": -10}],)"
      << R"("weights": [{"layer": 0, "scales": [0.01, 0.02]}, {"layer": 1, "scales": [0.5]}]})";
  for (const char* algorithm : {"reference", ""}) {
    Options options;
    options.algorithm = algorithm;
    options.calibration = calibration;
    Session session(files.cfg, files.weights, options);
    session.run(Values{2.0F, -1.0F});  // 8 and -4 steps
    Values values(2);
    session.read(1, values);
    // First layer: (100 * 8 + 5) * 0.0025 = 2.0125, 4 steps of 0.5, (-3 * 8 - 7) * 0.005 = -0.155,
    // 0; (100 * -4 + 5) * 0.0025 = -0.9875, -2 steps, (-3 * -4 - 7) * 0.005 = 0.025, 0.
    CHECK(values == (Values{(4 * 1 + 0 * 2) * 0.25F, (-2 * 1 + 0 * 2) * 0.25F}));
  }
  std::remove(calibration.c_str());
}

TEST(published_steps_are_checked) {
  const Network network = parse_network(
      net(1, 1, 2) + "[convolutional]\nfilters=2\nactivation=linear\nint8=1\n[abs]\n", "a.cfg");
  const auto parse = [&](const std::string& tensors, const std::string& weights) {
    return parse_calibration(R"({"format": "mpe-calibration", "version": 1, "tensors": [)" +
                                 tensors + R"(], "weights": [)" + weights + "]}",
                             "a.json", network);
  };
  const Calibration one_for_all = parse("", R"({"layer": 0, "scales": [0.5]})");
  CHECK(std::ranges::equal(one_for_all.weight_scales(0), Values{0.5F, 0.5F}));
  CHECK_THROWS(parse(R"({"layer": 0, "scale": 1})", ""), "\"min\" and \"max\" or \"scale\"");
  CHECK_THROWS(parse(R"({"layer": 0, "scale": 0, "zero_point": 0})", ""), "from 1e-18 to 1e18");
  CHECK_THROWS(parse(R"({"layer": 0, "scale": 1, "zero_point": 128})", ""), "a.json");
  CHECK_THROWS(parse("", R"({"layer": 0, "scales": [1, 1, 1]})"), "is of 2 channels");
  CHECK_THROWS(parse("", R"({"layer": 1, "scales": [1]})"), "is without weights");
  CHECK_THROWS(parse("", R"({"layer": 0, "scales": [1]}, {"layer": 0, "scales": [1]})"),
               "second entry");
}
