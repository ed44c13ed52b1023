// Convolutions computed together by rows give the bits of the same convolutions one after the
// other.
#include "exec/row_chain.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "convolution_problem.h"
#include "kernels/kernel_sets.h"

using namespace mpe;

namespace {

ConvolutionShape pointwise(Random& random, Shape in) {
  ConvolutionShape shape;
  shape.in = in;
  shape.out = {random.integer(1, 40), in.height, in.width};
  return shape;
}

// Most are those that have kernels of their own.
ConvolutionShape depthwise(Random& random, Shape in) {
  for (;;) {
    ConvolutionShape shape;
    shape.in = in;
    shape.groups = in.channels;
    shape.out.channels = in.channels * (random.chance(10) ? 2 : 1);
    shape.kernel_y = shape.kernel_x = random.chance(40) ? 3 : random.integer(2, 5);
    shape.stride_y = shape.stride_x = random.integer(1, 2);
    shape.padding_y = shape.padding_x = shape.kernel_y / 2;
    if (random.chance(30)) {
      shape.kernel_x = random.integer(1, 5);
      shape.stride_y = random.integer(1, 3);
      shape.padding_y = random.integer(0, 3);
      shape.dilation_y = random.integer(1, 2);
    }
    const int below = random.chance(20) ? random.integer(0, 3) : shape.padding_y;
    if (set_output(shape, below, shape.padding_x)) return shape;
  }
}

// 3x3 over all channels, which Winograd's algorithm computes, or, for few channels, kernels that
// lay out the input's rows.
ConvolutionShape dense(Random& random, Shape in, int stride) {
  for (;;) {
    ConvolutionShape shape;
    shape.in = in;
    shape.out.channels = random.integer(1, 20);
    shape.kernel_y = shape.kernel_x = 3;
    shape.stride_y = shape.stride_x = stride;
    shape.padding_y = random.integer(0, 1);
    shape.padding_x = 1;
    if (set_output(shape, random.integer(0, 1), 1)) return shape;
  }
}

// The layers of a chain, each with the input that the one before gives it.
class Chain {
 public:
  Chain(Random& random, Precision precision, const ConvolutionChoice& choice) {
    Shape shape = {random.integer(1, 24), random.integer(1, 40), random.integer(1, 50)};
    const int links = random.integer(2, 3);
    const int first_window = random.integer(0, 1);
    for (int k = 0; k < links; ++k) {
      const bool window = k == first_window;
      add(random, precision, choice, window ? depthwise(random, shape) : pointwise(random, shape));
      shape = problems_.back().request.shape.out;
    }
  }

  // A picture's first layer, perhaps, then one by this algorithm between pointwise ones.
  Chain(Random& random, Precision precision, const ConvolutionChoice& choice,
        std::string_view algorithm, int tile, int stride) {
    const bool of_picture = random.chance(50);
    const int first_stride = of_picture ? random.integer(1, 2) : 1;
    // Most rows of tiles are whole vectors: others may have a single tile left over.
    const int width = 16 * tile * random.integer(1, 2) - random.integer(0, tile - 1) -
                      (random.chance(20) ? tile : 0);
    Shape shape = {of_picture ? 3 : random.integer(1, 24), random.integer(9, 36),
                   width * stride * first_stride};
    ConvolutionShape first =
        of_picture ? dense(random, shape, first_stride) : pointwise(random, shape);
    first.out.channels = random.integer(1, 12);
    add(random, precision, choice, first);
    shape = problems_.back().request.shape.out;
    ConvolutionChoice by_algorithm = choice;
    by_algorithm.algorithm = algorithm;
    add(random, precision, by_algorithm, dense(random, shape, stride));
    if (random.chance(50)) {
      shape = problems_.back().request.shape.out;
      add(random, precision, choice, pointwise(random, shape));
    }
  }

  // Several windows one after the other, most of them Winograd's and pooled, as networks begin.
  Chain(Random& random, Precision precision, const ConvolutionChoice& choice, int links) {
    constexpr std::string_view kForms[] = {"winograd2", "winograd4", "winograd4", "winograd5"};
    Shape shape = {random.chance(50) ? 3 : random.integer(1, 16), 4 * random.integer(2, 12),
                   8 * random.integer(2, 24)};
    for (int k = 0; k < links; ++k) {
      if (k > 0 && random.chance(25)) {
        add(random, precision, choice,
            random.chance(50) ? depthwise(random, shape) : pointwise(random, shape));
      } else {
        ConvolutionChoice by_algorithm = choice;
        by_algorithm.algorithm = kForms[random.integer(0, 3)];
        const bool halves = by_algorithm.algorithm == "winograd2" && random.chance(30);
        add(random, precision, by_algorithm, dense(random, shape, halves ? 2 : 1), true);
      }
      shape = output();
    }
  }

  // A pointwise convolution, then one whose stride passes over rows.
  Chain(Random& random, const ConvolutionChoice& choice) {
    const Shape shape = {random.integer(8, 24), 60, random.integer(20, 40)};
    add(random, Precision::kInt8, choice, pointwise(random, shape));
    ConvolutionShape sparse;
    sparse.in = problems_.back().request.shape.out;
    sparse.groups = sparse.out.channels = sparse.in.channels;
    sparse.stride_y = 4;
    set_output(sparse, 0, 0);
    add(random, Precision::kInt8, choice, sparse);
  }

  bool computes_rows() const {
    return std::ranges::all_of(convolutions_, [this](const auto& each) {
      return each->computes_rows() && (each == convolutions_.front() || each->reads_ring());
    });
  }

  std::string_view algorithm(std::size_t link) const { return convolutions_[link]->algorithm(); }
  int pooled() const {
    return static_cast<int>(std::ranges::count_if(
        convolutions_, [](const auto& convolution) { return convolution->pools(); }));
  }
  bool begins_with_picture() const { return !convolutions_.front()->reads_ring(); }

  std::vector<std::byte> one_after_the_other() {
    ThreadPool pool(1);
    std::vector<std::byte> values = problems_.front().input;
    for (std::size_t k = 0; k < problems_.size(); ++k) {
      problems_[k].input = values;
      values = run(*convolutions_[k], problems_[k], pool);
    }
    return values;
  }

  std::vector<std::byte> by_rows(RowSharing sharing, int rows, int threads,
                                 std::size_t output_bytes) const {
    std::vector<RowLink> links;
    for (std::size_t k = 0; k < problems_.size(); ++k) {
      const ConvolutionRequest& request = problems_[k].request;
      links.push_back({static_cast<int>(k), convolutions_[k].get(), request.shape,
                       value_size(request.precision), value_size(request.output_precision)});
    }
    const RowChain chain(links, sharing, threads, rows);
    ThreadPool pool(threads);
    // Words, for their alignment; marked, to find what is written beyond the scratch.
    const std::size_t words = chain.scratch_bytes() / sizeof(std::max_align_t);
    std::vector<std::max_align_t> memory(words + 8);
    auto* scratch = reinterpret_cast<std::byte*>(memory.data());
    const std::size_t guard = memory.size() * sizeof(std::max_align_t) - chain.scratch_bytes();
    std::fill_n(scratch, chain.scratch_bytes(), std::byte{0x7B});
    std::fill_n(scratch + chain.scratch_bytes(), guard, std::byte{0xA5});
    std::vector<std::byte> output(output_bytes);
    std::vector<int> ended(problems_.size());
    chain.run(problems_.front().input.data(), output.data(), scratch, pool,
              [&](int layer) { ++ended[static_cast<std::size_t>(layer)]; });
    CHECK(std::all_of(scratch + chain.scratch_bytes(), scratch + chain.scratch_bytes() + guard,
                      [](std::byte byte) { return byte == std::byte{0xA5}; }));
    for (const int times : ended) CHECK(times > 0);
    return output;
  }

  std::string text() const {
    std::string found;
    for (const Problem& problem : problems_) found += described(problem) + "; ";
    return found;
  }

 private:
  // Of the last convolution.
  Shape output() const {
    Shape shape = problems_.back().request.shape.out;
    if (!convolutions_.back()->pools()) return shape;
    return {shape.channels, shape.height / 2, shape.width / 2};
  }

  void add(Random& random, Precision precision, const ConvolutionChoice& choice,
           const ConvolutionShape& shape, bool may_pool = false) {
    const Problem* before = problems_.empty() ? nullptr : &problems_.back();
    Problem& problem = problems_.emplace_back();
    ConvolutionRequest& request = problem.request;
    request.shape = shape;
    request.precision = request.output_precision = precision;
    request.may_pool = may_pool && shape.out.height % 2 == 0 && shape.out.width % 2 == 0;
    request.activation =
        kActivations[random.integer(0, static_cast<int>(std::size(kActivations)) - 1)];
    const float reach = 2.0F / std::sqrt(static_cast<float>(shape.depth()));
    for (int i = 0; i < shape.depth() * shape.out.channels; ++i) {
      problem.weights.push_back(random.real(-reach, reach));
    }
    for (int i = 0; i < shape.out.channels; ++i) problem.bias.push_back(random.real(-1.0F, 1.0F));
    request.weights = problem.weights;
    request.bias = problem.bias;
    if (precision == Precision::kInt8) {
      problem.input_quantization =
          before == nullptr ? random_quantization(random, 1, 0.01F) : before->output_quantization;
      problem.output_quantization = random_quantization(random, 1, 0.02F);
      request.input = &problem.input_quantization;
      request.output = &problem.output_quantization;
    }
    if (before == nullptr) fill_input(random, problem);
    convolutions_.push_back(make_convolution(request, choice));
  }

  std::deque<Problem> problems_;  // requests point into them
  std::vector<std::unique_ptr<Convolution>> convolutions_;
};

void compare(Random& random, Chain& chain, std::string_view set, unsigned seed) {
  const std::vector<std::byte> expected = chain.one_after_the_other();
  const int rows = random.integer(1, 20);
  const int threads = random.integer(1, 4);
  for (const RowSharing sharing : {RowSharing::kStrips, RowSharing::kSameRows}) {
    if (chain.by_rows(sharing, rows, threads, expected.size()) == expected) continue;
    check::fail(__FILE__, __LINE__,
                std::string(set) + " seed " + std::to_string(seed) +
                    (sharing == RowSharing::kStrips ? ", strips, " : ", the same rows, ") +
                    std::to_string(rows) + " rows, " + std::to_string(threads) +
                    " threads: " + chain.text());
  }
}

// Calls body(random, precision, choice, seed) for so many seeds in fp32 and fp16 on every set, with
// scratch for small blocks and large ones. Whether there is any set.
template <typename Body>
bool for_float_problems(unsigned seeds, Body&& body) {
  bool has_sets = false;
  for (const KernelSetInfo& set : kernel_sets()) {
    if (!set.supported) continue;
    has_sets = true;
    for (const Precision precision : {Precision::kFp32, Precision::kFp16}) {
      for (unsigned seed = 0; seed < seeds; ++seed) {
        Random random(seed);
        ConvolutionChoice choice;
        choice.isa = set.name;
        choice.scratch_bytes = std::size_t{1} << random.integer(12, 20);
        body(random, precision, choice, seed);
      }
    }
  }
  return has_sets;
}

}  // namespace

TEST(chains_of_rows_give_the_bits_of_the_layers_alone) {
  int compared = 0;
  for (const KernelSetInfo& set : kernel_sets()) {
    if (!set.supported) continue;
    for (const Precision precision : {Precision::kFp32, Precision::kFp16, Precision::kInt8}) {
      for (unsigned seed = 0; seed < 60; ++seed) {
        Random random(seed);
        ConvolutionChoice choice;
        choice.isa = set.name;
        Chain chain(random, precision, choice);
        if (!chain.computes_rows()) continue;
        ++compared;
        compare(random, chain, set.name, seed);
      }
    }
  }
  CHECK(compared > 60);
}

TEST(winograd_in_chains_of_rows_gives_the_bits_of_the_layers_alone) {
  struct {
    std::string_view algorithm;
    int tile;
    int stride;
    int compared = 0;
    int of_pictures = 0;
  } forms[] = {{"winograd2", 2, 1}, {"winograd2", 2, 2}, {"winograd4", 4, 1}, {"winograd5", 5, 1}};
  bool has_float_vectors = false;
  for (auto& form : forms) {
    has_float_vectors = for_float_problems(12, [&](Random& random, Precision precision,
                                                   const ConvolutionChoice& choice, unsigned seed) {
      Chain chain(random, precision, choice, form.algorithm, form.tile, form.stride);
      if (!chain.computes_rows() || chain.algorithm(1) != form.algorithm) return;
      ++form.compared;
      if (chain.begins_with_picture()) ++form.of_pictures;
      compare(random, chain, choice.isa, seed);
    });
  }
  for (const auto& form : forms) {
    // Only some sets have tiles of 5x5.
    if (!has_float_vectors || form.algorithm == "winograd5") continue;
    CHECK(form.compared > 4);
    CHECK(form.of_pictures > 0);
  }
}

TEST(several_windows_in_chains_of_rows_give_the_bits_of_the_layers_alone) {
  int compared = 0;
  int pooled = 0;
  const bool has_float_vectors = for_float_problems(
      40, [&](Random& random, Precision precision, const ConvolutionChoice& choice, unsigned seed) {
        Chain chain(random, precision, choice, random.integer(2, 4));
        if (!chain.computes_rows()) return;
        ++compared;
        pooled += chain.pooled();
        compare(random, chain, choice.isa, seed);
      });
  CHECK(!has_float_vectors || (compared > 20 && pooled > 20));
}

// They are written, too, and threads write them at the same time as others.
TEST(rows_that_a_stride_passes_over_have_places_of_their_own) {
  int compared = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    Random random(seed);
    Chain chain(random, ConvolutionChoice{});
    if (!chain.computes_rows()) continue;
    ++compared;
    const std::vector<std::byte> expected = chain.one_after_the_other();
    CHECK(chain.by_rows(RowSharing::kSameRows, 4, 4, expected.size()) == expected);
  }
  const auto supported = [](const KernelSetInfo& set) { return set.supported; };
  CHECK(compared > 0 || std::ranges::none_of(kernel_sets(), supported));
}
