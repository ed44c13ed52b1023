// Layers without weights on small maps worked out by hand.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "half.h"
#include "kernels/elementwise.h"
#include "layers/operation.h"

using namespace mpe;

namespace {

using Values = std::vector<float>;

// The last layer of a network of the given input size.
struct Case {
  Network network;
  const Layer& layer;

  Case(Shape input, const std::string& sections)
      : network(parse_network("[net]\nwidth=" + std::to_string(input.width) +
                                  "\nheight=" + std::to_string(input.height) +
                                  "\nchannels=" + std::to_string(input.channels) + "\n" + sections,
                              "a.cfg")),
        layer(network.layers.back()) {}

  LayerInput input(const Values& values, int which = 0) const {
    const int tensor = layer.inputs[static_cast<std::size_t>(which)];
    return {{values.data(), Precision::kFp32, nullptr}, network.output_shape(tensor)};
  }
};

std::size_t size_of(const Shape& shape) { return static_cast<std::size_t>(shape.elements()); }

// By the reference loops, and by those that use vector code, which give the same bits.
Values run(const Case& of, const std::vector<Values>& values) {
  std::vector<LayerInput> inputs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    inputs.push_back(of.input(values[i], static_cast<int>(i)));
  }
  ThreadPool pool(2);
  Values results[2];
  const ElementwiseKernels* const vectors[] = {nullptr, choose_elementwise({}, {}).kernels};
  for (int i = 0; i < 2; ++i) {
    results[i].resize(size_of(of.layer.out));
    const MutableTensorView output{results[i].data(), Precision::kFp32, nullptr};
    of.layer.operation->execute({of.layer, inputs, output}, Workers{pool, vectors[i]});
  }
  CHECK_EQUAL(std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)),
              0);
  return results[1];
}

Values run(const Case& of, const Values& values) { return run(of, std::vector<Values>{values}); }

void run(const Case& of, const std::vector<LayerInput>& inputs, const MutableTensorView& output) {
  ThreadPool pool(1);
  const Workers workers{pool, choose_elementwise({}, {}).kernels};
  of.layer.operation->execute({of.layer, inputs, output}, workers);
}

// The same for an int8 output.
void check_int8(const Case& of, const std::vector<LayerInput>& inputs, const Quantization& step) {
  ThreadPool pool(2);
  const auto run_with = [&](const ElementwiseKernels* vectors) {
    std::vector<std::int8_t> result(size_of(of.layer.out));
    of.layer.operation->execute({of.layer, inputs, {result.data(), Precision::kInt8, &step}},
                                Workers{pool, vectors});
    return result;
  };
  CHECK(run_with(choose_elementwise({}, {}).kernels) == run_with(nullptr));
}

Values counting(std::size_t count, float first = 0.0F) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

}  // namespace

TEST(maxpool_pads_half_before_and_ignores_what_lies_outside) {
  const Case stride_two({1, 3, 3}, "[maxpool]\nsize=2\nstride=2\n");
  CHECK(run(stride_two, Values{-9, -8, -7, -6, -5, -4, -3, -2, -1}) == (Values{-5, -4, -2, -1}));
  const Case same_size({1, 3, 3}, "[maxpool]\nsize=3\nstride=1\n");
  CHECK(run(same_size, counting(9)) == (Values{4, 5, 5, 7, 8, 8, 7, 8, 8}));
  const Case darknets_last_pool({1, 2, 2}, "[maxpool]\nsize=2\nstride=1\n");
  CHECK(run(darknets_last_pool, Values{1, 2, 3, 4}) == (Values{4, 4, 4, 4}));
}

TEST(maxpool_compares_halves_and_int8_as_the_numbers_they_are) {
  const Case of({1, 2, 3}, "[maxpool]\nsize=2\nstride=1\npadding=0\n");
  const Values values = {-1.5F, -2.0F, 0.0F, -0.25F, 3.0F, 7.5F};
  std::vector<Half> halves(6);
  std::vector<Half> half_result(size_of(of.layer.out));
  for (std::size_t i = 0; i < 6; ++i) halves[i] = half_from_float(values[i]);
  run(of, {{{halves.data(), Precision::kFp16, nullptr}, {1, 2, 3}}},
      {half_result.data(), Precision::kFp16, nullptr});
  CHECK_EQUAL(half_to_float(half_result[0]), 3.0F);
  CHECK_EQUAL(half_to_float(half_result[1]), 7.5F);
  const Quantization step{{1.0F}, {0}};
  const std::vector<std::int8_t> bytes = {-128, -100, -3, -127, 5, -4};
  std::vector<std::int8_t> byte_result(2);
  run(of, {{{bytes.data(), Precision::kInt8, &step}, {1, 2, 3}}},
      {byte_result.data(), Precision::kInt8, &step});
  CHECK(byte_result == (std::vector<std::int8_t>{5, 5}));
}

// Halves are compared by sign and magnitude, NaN as what lies beyond infinity.
int order_of(Half half) {
  const int magnitude = half.bits & 0x7FFF;
  return half.bits >> 15 == 0 ? magnitude : -1 - magnitude;
}

// Rows longer than a vector, with an odd column and row outside every window, and what comparisons
// are particular about.
TEST(maxpool_of_two_by_two_takes_the_first_of_equals_and_no_nan) {
  for (const int width : {2, 5, 17, 33, 64, 131}) {
    const int out_width = width / 2;
    const Case of({1, 3, width}, "[maxpool]\nsize=2\nstride=2\npadding=0\n");
    CHECK(of.layer.out == (Shape{1, 1, out_width}));
    const auto count = static_cast<std::size_t>(3 * width);
    const float special[] = {-0.0F, 0.0F, NAN, -INFINITY, INFINITY};
    Values values(count);
    std::vector<std::int8_t> bytes(count);
    std::vector<Half> halves(count);
    for (std::size_t i = 0; i < count; ++i) {
      halves[i].bits = static_cast<std::uint16_t>(i * 40503 % 65536);  // all kinds of them
      values[i] = i % 3 == 0 ? special[i * 31 % 5] : static_cast<float>(i * 71 % 13) - 12.0F;
      bytes[i] = static_cast<std::int8_t>(i * 59 % 256);
    }
    const Values result = run(of, values);
    const Quantization step{{1.0F}, {0}};
    std::vector<std::int8_t> byte_result(size_of(of.layer.out));
    run(of, {{{bytes.data(), Precision::kInt8, &step}, {1, 3, width}}},
        {byte_result.data(), Precision::kInt8, &step});
    std::vector<Half> half_result(size_of(of.layer.out));
    run(of, {{{halves.data(), Precision::kFp16, nullptr}, {1, 3, width}}},
        {half_result.data(), Precision::kFp16, nullptr});
    for (int x = 0; x < out_width; ++x) {
      int largest_half = order_of(Half{0xFBFF});
      float largest = -std::numeric_limits<float>::max();
      std::int8_t largest_byte = -128;
      for (const int place : {2 * x, 2 * x + 1, width + 2 * x, width + 2 * x + 1}) {
        const auto i = static_cast<std::size_t>(place);
        largest = values[i] > largest ? values[i] : largest;
        largest_byte = std::max(largest_byte, bytes[i]);
        largest_half = std::max(largest_half, order_of(halves[i]));
      }
      const auto i = static_cast<std::size_t>(x);
      CHECK_EQUAL(result[i], largest);
      CHECK_EQUAL(std::signbit(result[i]), std::signbit(largest));
      CHECK_EQUAL(int{byte_result[i]}, int{largest_byte});
      CHECK_EQUAL(order_of(half_result[i]), largest_half);
    }
  }
}

TEST(avgpool_is_the_mean_of_a_channel) {
  const Case of({2, 2, 2}, "[avgpool]\n");
  CHECK(run(of, Values{1, 2, 3, 6, -1, 0, 0, 0}) == (Values{3, -0.25F}));
}

TEST(upsample_repeats_and_scales) {
  const Case plain({1, 1, 2}, "[upsample]\nstride=2\n");
  CHECK(run(plain, Values{5, 7}) == (Values{5, 5, 7, 7, 5, 5, 7, 7}));
  const Case thrice({1, 1, 1}, "[upsample]\nstride=3\nscale=0.5\n");
  CHECK(run(thrice, Values{4}) == Values(9, 2.0F));
}

TEST(reorg_takes_darknets_order) {
  // Darknet's reorg_cpu, followed by hand for w=h=2, c=4, stride 2: output channel k reads from
  // the map [1][4][4] at row 2j + k / 2, column 2i + k % 2.
  const Case of({4, 2, 2}, "[reorg]\nstride=2\n");
  CHECK(of.layer.out == (Shape{16, 1, 1}));
  const Values expected = {0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15};
  CHECK(run(of, counting(16)) == expected);
  const Case back({16, 1, 1}, "[reorg]\nstride=2\nreverse=1\n");
  CHECK(run(back, counting(16)) == (Values{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}));
}

TEST(crop_takes_the_middle_and_maps_to_minus_one_to_one) {
  const std::string size = "[crop]\ncrop_width=2\ncrop_height=1\n";
  const Case adjusted({1, 3, 4}, size);
  CHECK(run(adjusted, counting(12)) == (Values{2 * 5 - 1, 2 * 6 - 1}));
  const Case plain({1, 3, 4}, size + "noadjust=1\n");
  CHECK(run(plain, counting(12)) == (Values{5, 6}));
}

TEST(route_joins_channels_and_takes_groups) {
  const std::string two = "[convolutional]\nfilters=2\n[convolutional]\nfilters=4\n";
  const Case joined({1, 1, 2}, two + "[route]\nlayers=-1,-2\n");
  CHECK(run(joined, {counting(8), counting(4, 100)}) ==
        (Values{0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 102, 103}));
  const Case groups({1, 1, 2}, two + "[route]\nlayers=-1,-2\ngroups=2\ngroup_id=1\n");
  CHECK(run(groups, {counting(8), counting(4, 100)}) == (Values{4, 5, 6, 7, 102, 103}));
}

TEST(route_converts_every_input_to_the_outputs_storage) {
  const Case of({1, 1, 2}, "[convolutional]\n[convolutional]\n[route]\nlayers=-1,-2\n");
  const Quantization first{{0.5F}, {1}};
  const Quantization second{{0.25F}, {0}};
  const Quantization joined{{0.5F}, {-10}};
  const std::vector<std::int8_t> a = {3, 5};
  const std::vector<std::int8_t> b = {4, 6};
  const std::vector<LayerInput> inputs = {{{a.data(), Precision::kInt8, &first}, {1, 1, 2}},
                                          {{b.data(), Precision::kInt8, &second}, {1, 1, 2}}};
  std::vector<std::int8_t> result(4);
  run(of, inputs, {result.data(), Precision::kInt8, &joined});
  CHECK(result == (std::vector<std::int8_t>{-8, -6, -8, -7}));
}

TEST(shortcut_adds_and_activates_and_may_write_over_an_input) {
  const std::string two =
      "[convolutional]\nactivation=linear\n[convolutional]\nactivation=linear\n";
  const Case of({1, 1, 3}, two + "[shortcut]\nfrom=-2\nactivation=leaky\n");
  CHECK(run(of, {{1, -2, 3}, {-4, 1, 5}}) == (Values{-0.3F, -0.1F, 8}));
  Values over = {1, -2, 3};
  const Values other = {-4, 1, 5};
  const std::vector<LayerInput> inputs = {of.input(over), of.input(other, 1)};
  run(of, inputs, {over.data(), Precision::kFp32, nullptr});
  CHECK(over == (Values{-0.3F, -0.1F, 8}));
}

TEST(shortcut_of_other_sizes_strides_the_larger_map) {
  // 2 channels of 2x2, plus 1 channel of 4x4 of which every second value of every second row
  // counts: the second channel stays.
  const Case larger({1, 4, 4},
                    "[convolutional]\n[convolutional]\nfilters=2\nstride=2\n[shortcut]\nfrom=-2\n");
  CHECK(run(larger, {Values(8, 100.0F), counting(16)}) ==
        (Values{100, 102, 108, 110, 100, 100, 100, 100}));
  const Case smaller({1, 4, 4},
                     "[convolutional]\nstride=2\n[upsample]\nstride=2\n[shortcut]\nfrom=-2\n");
  CHECK(run(smaller, {Values(16, 0.0F), {1, 2, 3, 4}}) ==
        (Values{1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0}));
}

TEST(int8_shortcut_rounds_the_sum_once) {
  const Case of({1, 1, 2}, "[convolutional]\n[convolutional]\n[shortcut]\nfrom=-2\n");
  const Quantization a_step{{0.5F}, {0}};
  const Quantization b_step{{0.25F}, {-3}};
  const Quantization sum_step{{0.5F}, {7}};
  const std::vector<std::int8_t> a = {3, 100};
  const std::vector<std::int8_t> b = {0, 127};
  const std::vector<LayerInput> inputs = {{{a.data(), Precision::kInt8, &a_step}, {1, 1, 2}},
                                          {{b.data(), Precision::kInt8, &b_step}, {1, 1, 2}}};
  std::vector<std::int8_t> result(2);
  run(of, inputs, {result.data(), Precision::kInt8, &sum_step});
  CHECK(result == (std::vector<std::int8_t>{11, 127}));  // (1.5 + 0.75) / 0.5 = 4.5, even: 4
}

// Whole vectors and remainders, steps for a tensor and for each channel, sums that leave the bounds
// within which additions round.
TEST(int8_shortcuts_give_the_bits_of_the_plain_loops) {
  const Quantization usual{{0.0625F}, {5}};
  const Quantization coarse{{40.0F}, {-128}};
  const Quantization by_channel{{0.5F, 0.03F, 2.0F}, {0, 127, -128}};
  const Quantization fine{{0.0001F}, {90}};
  for (const char* activation : {"linear", "leaky", "relu", "relu6", "logistic"}) {
    for (const int width : {1, 15, 16, 63, 100}) {
      const Case of({3, 1, width}, std::string("[convolutional]\nfilters=3\n[convolutional]\n") +
                                       "filters=3\n[shortcut]\nfrom=-2\nactivation=" + activation +
                                       "\n");
      std::vector<std::int8_t> a(static_cast<std::size_t>(3 * width));
      std::vector<std::int8_t> b(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = static_cast<std::int8_t>(i * 37 % 256);
        b[i] = static_cast<std::int8_t>(i * 101 % 256);
      }
      for (const Quantization* of_b : {&usual, &coarse, &by_channel}) {
        for (const Quantization* of_sum : {&usual, &coarse, &by_channel, &fine}) {
          const Shape shape = {3, 1, width};
          const std::vector<LayerInput> inputs = {{{a.data(), Precision::kInt8, &usual}, shape},
                                                  {{b.data(), Precision::kInt8, of_b}, shape}};
          check_int8(of, inputs, *of_sum);
        }
      }
    }
  }
}

// Enough values of one step for a table, and too few; also where the output replaces the input.
TEST(int8_functions_of_single_values_give_the_bits_of_the_plain_loops) {
  const Quantization in_step{{0.0625F}, {5}};
  const Quantization out_step{{0.00390625F}, {-128}};
  ThreadPool pool(2);
  for (const char* keys : {"[activation]\nactivation=logistic\n", "[exp]\n",
                           "[activation]\nactivation=clip\nmax=0.25\n"}) {
    for (const int width : {100, 300}) {
      const Case of({3, 1, width}, std::string("[convolutional]\nfilters=3\n") + keys);
      std::vector<std::int8_t> values(static_cast<std::size_t>(3 * width));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<std::int8_t>(i * 37 % 256);
      }
      std::vector<std::int8_t> expected(values.size());
      const std::vector<LayerInput> inputs = {
          {{values.data(), Precision::kInt8, &in_step}, {3, 1, width}}};
      of.layer.operation->execute(
          {of.layer, inputs, {expected.data(), Precision::kInt8, &out_step}},
          Workers{pool, nullptr});
      of.layer.operation->execute({of.layer, inputs, {values.data(), Precision::kInt8, &out_step}},
                                  Workers{pool, choose_elementwise({}, {}).kernels});
      CHECK(values == expected);
    }
  }
}

TEST(scale_channels_by_channel_or_by_pixel) {
  const Case by_channel({2, 1, 2},
                        "[convolutional]\nfilters=2\n[avgpool]\n[scale_channels]\nfrom=-2\n");
  CHECK(run(by_channel, {{2, 10}, {1, 2, 3, 4}}) == (Values{2, 4, 30, 40}));
  const Case by_pixel({2, 1, 2},
                      "[convolutional]\nfilters=2\n[convolutional]\nfilters=1\n"
                      "[scale_channels]\nfrom=-2\nscale_wh=1\n");
  CHECK(run(by_pixel, {{2, 10}, {1, 2, 3, 4}}) == (Values{2, 20, 6, 40}));
}

TEST(layer_norm_along_any_axes) {
  const Values values = {1, 2, 3, 5, 0, 0, 8, 4};
  const auto norm = [](float a, float b) {  // of two values
    const double half = (static_cast<double>(a) - static_cast<double>(b)) / 2;
    return static_cast<float>(half / std::sqrt(half * half + 0.25));
  };
  const std::string section = "[layer_norm]\nepsilon=0.25\naxes=";
  CHECK(run(Case({2, 2, 2}, section + "width\n"), values) ==
        (Values{norm(1, 2), norm(2, 1), norm(3, 5), norm(5, 3), 0, 0, norm(8, 4), norm(4, 8)}));
  CHECK(run(Case({2, 2, 2}, section + "height\n"), values) ==
        (Values{norm(1, 3), norm(2, 5), norm(3, 1), norm(5, 2), norm(0, 8), norm(0, 4), norm(8, 0),
                norm(4, 0)}));
  CHECK(run(Case({2, 2, 2}, section + "channels\n"), values) ==
        (Values{norm(1, 0), norm(2, 0), norm(3, 8), norm(5, 4), norm(0, 1), norm(0, 2), norm(8, 3),
                norm(4, 5)}));
  // Of all values together: mean 0, variance 1 but for epsilon. Longer than a block of lines.
  for (const char* axes : {"channels,height,width", "channels,height", "height,width"}) {
    const Case of({3, 2, 1100}, "[layer_norm]\naxes=" + std::string(axes) + "\n");
    Values large(6600);
    for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i * i % 101);
    const Values found = run(of, large);
    double sum = 0.0;
    double squares = 0.0;
    for (const float value : found) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    CHECK(std::abs(sum) < 1e-2);
    CHECK(std::abs(squares / 6600 - 1.0) < 1e-2);
  }
  CHECK_THROWS(Case({1, 1, 1}, "[layer_norm]\n"), "needs axes=");
  CHECK_THROWS(Case({1, 1, 1}, "[layer_norm]\naxes=width\nepsilon=-1\n"), "below 0");
}

TEST(softmax_of_groups_with_temperature) {
  const Case of({4, 1, 1}, "[softmax]\ngroups=2\ntemperature=2\n");
  const Values values = {1, 3, 1000, 1000};
  Values result(4);
  run(of, {of.input(values)}, {result.data(), Precision::kFp32, nullptr});
  const double second = 1.0 / (1.0 + std::exp(-1.0));
  CHECK(std::fabs(result[0] - (1.0 - second)) < 1e-6);
  CHECK(std::fabs(result[1] - second) < 1e-6);
  CHECK_EQUAL(result[2], 0.5F);
  CHECK_EQUAL(result[3], 0.5F);
}

// Maps wider than the blocks that loops work in, of values that comparisons are particular about;
// run() compares with the reference loops.
TEST(layers_of_long_rows_give_the_bits_of_the_plain_loops) {
  for (const int width : {1, 2, 3, 4, 31, 511, 512, 513, 1030}) {
    const Shape shape = {2, 5, width};
    Values values(size_of(shape));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float special[] = {-0.0F, 0.0F, 80.0F, -100.0F};
      values[i] = i % 5 == 0 ? special[i * 31 % 4] : static_cast<float>(i * 71 % 97) / 8.0F - 6.0F;
    }
    const std::string twice = std::to_string(2 * width);
    const std::string third = std::to_string((width + 2) / 3);
    for (const std::string& section : {
             "[resize]\nmode=linear\nheight=10\nwidth=" + twice,
             "[resize]\nmode=linear\nheight=2\nwidth=" + third,
             "[resize]\nmode=linear\ncoordinates=align_corners\nheight=7\nwidth=" + third,
             "[resize]\nmode=linear\ncoordinates=asymmetric\nheight=1\nwidth=" + twice,
             std::string("[pool]\nsize=3\nstride=2\npad=1"),
             std::string("[pool]\nsize=3\nstride=1\npad=1"),
             std::string("[pool]\nsize=3\nstride=3\npad=1"),
             std::string(
                 "[pool]\nsize_y=5\nsize_x=2\nstride=2\npad_left=1\npad_top=2\npad_bottom=2"),
             std::string("[pool]\ntype=average\nsize=3\nstride=2\npad=1"),
             std::string("[pool]\ntype=average\nsize=3\nstride=1\npad=1\ncount_padding=1"),
             std::string("[pool]\ntype=average\nsize_y=4\nsize_x=1\nstride=3"),
             std::string("[pool]\ntype=average\nsize_y=1\nsize_x=" +
                         std::to_string(std::min(width, 700))),
             std::string("[reduce]\ntype=mean\naxes=channels"),
             std::string("[reduce]\ntype=sum\naxes=height"),
             std::string("[reduce]\ntype=max\naxes=channels,height"),
             std::string("[reduce]\ntype=min\naxes=height,width"),
             std::string("[reduce]\ntype=l2\naxes=width"),
             std::string("[reduce]\ntype=mean\naxes=channels,width"),
             std::string("[avgpool]"),
             std::string("[softmax]\naxis=channels"),
             std::string("[softmax]\naxis=height"),
             std::string("[softmax]\naxis=width"),
             std::string("[exp]"),
             std::string("[activation]\nactivation=logistic"),
             std::string("[activation]\nactivation=gelu"),
             std::string("[activation]\nactivation=relu6"),
             std::string("[activation]\nactivation=leaky\nalpha=0.3"),
             std::string("[activation]\nactivation=elu\nalpha=0.3"),
             std::string("[activation]\nactivation=clip\nmin=-1\nmax=1"),
             std::string("[activation]\nactivation=hard_sigmoid\nalpha=0.2"),
         }) {
      run(Case(shape, section + "\n"), values);
    }
  }
}

// A window of more values than a tile of averages has.
TEST(a_large_average_gives_the_bits_of_the_plain_loops) {
  const Case of({2, 70, 72}, "[pool]\ntype=average\nsize=66\nstride=2\npad=1\n");
  CHECK(of.layer.out.elements() > 2);
  run(of, counting(size_of({2, 70, 72}), -4000.0F));
}

// Blocks run across channels only where channels make no difference.
TEST(maps_of_many_channels_give_the_bits_of_the_plain_loops) {
  constexpr int kChannels = 700;
  const Case of({kChannels, 1, 2},
                "[convolutional]\nfilters=700\n[convolutional]\nfilters=700\n[mul]\nfrom=0,1\n");
  Quantization by_channel;
  std::vector<std::int8_t> a(size_of(of.layer.out));
  std::vector<std::int8_t> b(a.size());
  for (std::size_t c = 0; c < kChannels; ++c) {
    by_channel.scale.push_back(0.01F * static_cast<float>(c % 7 + 1));
    by_channel.zero_point.push_back(static_cast<int>(c % 11) - 5);
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::int8_t>(i * 37 % 256);
    b[i] = static_cast<std::int8_t>(i * 101 % 256);
  }
  const Quantization one{{0.03F}, {4}};
  const Quantization* const steps[] = {&one, &by_channel};
  for (const Quantization* of_a : steps) {
    for (const Quantization* of_product : steps) {
      const Shape shape = of.layer.out;
      const std::vector<LayerInput> inputs = {{{a.data(), Precision::kInt8, of_a}, shape},
                                              {{b.data(), Precision::kInt8, &one}, shape}};
      check_int8(of, inputs, *of_product);
    }
  }
}
