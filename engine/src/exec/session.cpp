#include "exec/session.h"

#include <algorithm>
#include <new>
#include <optional>

#include "error.h"
#include "exec/session_step.h"
#include "kernels/kernel_sets.h"
#include "model/weights.h"
#include "quant/calibration.h"

namespace mpe {
namespace {

PrecisionPlan plan_with_calibration(const Network& network, const std::string& path) {
  if (path.empty()) return plan_precisions(network, nullptr);
  const Calibration calibration = load_calibration(path, network);
  return plan_precisions(network, &calibration);
}

std::byte* allocate_arena(std::int64_t bytes) {
  void* arena = ::operator new[](static_cast<std::size_t>(bytes), std::align_val_t{kArenaAlignment},
                                 std::nothrow);
  if (arena == nullptr) {
    throw Error("the network needs " + std::to_string(bytes) +
                " bytes for its activations, which the system does not give; make its input "
                "smaller or its layers fp16 or int8");
  }
  return static_cast<std::byte*>(arena);
}

void free_arena(std::byte* arena) { ::operator delete[](arena, std::align_val_t{kArenaAlignment}); }

// What a layer with quantize=1 converts at run time between float and int8.
bool convert_by_quantizer(const Layer& layer, const LayerFormat& format, const TensorView& input) {
  if (!layer.quantize || format.conversion == InputConversion::kNone) return false;
  return format.executed == Precision::kInt8 || input.precision == Precision::kInt8;
}

}  // namespace

Session::Session(const std::string& cfg, const std::string& weights, const Options& options)
    : network_(load_network(cfg)),
      precisions_(plan_with_calibration(network_, options.calibration)),
      elementwise_(choose_elementwise(options.isa, options.algorithm)),
      pool_(options.threads, options.cores, options.part_ended),
      planned_threads_(options.planned_threads > 0 ? options.planned_threads : pool_.threads()),
      workers_{pool_, elementwise_.kernels},
      quantizer_(make_quantizer(options.quantizer, options.threads)),
      heads_(find_heads(network_)),
      arena_(nullptr, free_arena),
      profile_(options.profile) {
  const std::size_t count = network_.layers.size();
  convolutions_.resize(count);
  chains_.resize(count);
  values_.resize(count);
  scratch_.resize(count);
  reports_.resize(count);
  std::optional<Tuning> tuning;
  if (!options.tune.empty()) {
    if (!options.algorithm.empty()) {
      throw Error("an algorithm is either asked for or chosen by measuring: leave out one of both");
    }
    tuning.emplace(options.tune, bytes_of_layers(), options.tuning);
  }
  WeightsReader reader(weights, network_, options.bn_epsilon);
  std::vector<ScratchLimit> limits = scratch_limits(options);
  for (const Layer& layer : network_.layers) {
    if (layer.rules.weights == WeightsRule::kValues) {
      values_[static_cast<std::size_t>(layer.index)] = reader.values(layer);
    }
    if (!layer.has_filters()) continue;
    const LayerWeights loaded = reader.next(layer);
    prepare_convolution(layer, *loaded.filters, loaded.biases, options,
                        limits[static_cast<std::size_t>(layer.index)], tuning ? &*tuning : nullptr);
    // A conversion less: that may have been in the largest total. The algorithms stay.
    if (convolutions_[static_cast<std::size_t>(layer.index)]->reads_floats()) {
      const std::vector<ScratchLimit> fewer = scratch_limits(options);
      for (std::size_t i = 0; i < count; ++i) limits[i].allowed = fewer[i].allowed;
    }
  }
  if (tuning) tuning->save();
  if (options.algorithm.empty() && !options.keep_layers) chain_rows();
  memory_ = plan_memory(network_, precisions_, scratch_, options.prefer);
  arena_.reset(allocate_arena(std::max<std::int64_t>(memory_.arena_bytes, 1)));
  prepare_steps();
  for (const Layer& layer : network_.layers) report(layer);
  isa_ = options.algorithm == "reference" ? options.algorithm
         : options.isa.empty()            ? best_kernel_set()
                                          : options.isa;
  warnings_ = network_.warnings;
  warnings_.insert(warnings_.end(), precisions_.warnings.begin(), precisions_.warnings.end());
}

Session::~Session() = default;

// What an inference reads and writes: each layer's filters and output.
std::size_t Session::bytes_of_layers() const {
  std::int64_t bytes = 0;
  for (const Layer& layer : network_.layers) {
    const LayerFormat& format = precisions_.layers[static_cast<std::size_t>(layer.index)];
    bytes += layer.out.elements() * static_cast<std::int64_t>(bytes_of(format.output.precision));
    if (!layer.has_filters()) continue;
    const ConvolutionShape& shape = *layer.operation->convolution();
    bytes += std::int64_t{shape.out.channels} * shape.depth() *
             static_cast<std::int64_t>(bytes_of(format.executed));
  }
  return static_cast<std::size_t>(bytes);
}

// The limit of each layer's scratch: the arena may be a quarter larger than the largest total of
// live tensors, and no larger where memory is preferred. There, too, a layer whose outputs are
// pooled may have that scratch: an algorithm without any would leave four times as many outputs.
// Fills in the properties of layers that are known before their kernels. Called again, it counts
// those of kernels that are there by then.
std::vector<Session::ScratchLimit> Session::scratch_limits(const Options& options) {
  for (const Layer& layer : network_.layers) {
    const auto index = static_cast<std::size_t>(layer.index);
    if (!layer.has_filters() || convolutions_[index] != nullptr) continue;
    scratch_[index].pools = !options.keep_layers && only_pooled(layer);
  }
  // As if all layers ran in fp32; in another precision tensors have a share of these bytes.
  PrecisionPlan fp32;
  fp32.layers.resize(network_.layers.size());
  const MemoryPlan floats = plan_tensors(network_, fp32, scratch_);
  for (const Layer& layer : network_.layers) {
    const LayerFormat& format = precisions_.layers[static_cast<std::size_t>(layer.index)];
    if (!layer.has_filters() || format.conversion == InputConversion::kNone) continue;
    const Convolution* made = convolutions_[static_cast<std::size_t>(layer.index)].get();
    if (made != nullptr && made->reads_floats()) continue;
    scratch_[static_cast<std::size_t>(layer.index)].converted =
        layer.in.elements() * static_cast<std::int64_t>(bytes_of(format.executed));
  }
  const MemoryPlan tensors = plan_tensors(network_, precisions_, scratch_);
  constexpr std::int64_t kLeast = 256 << 10;  // of small networks
  const bool small = options.prefer == Preference::kMemory;
  const auto room = [&](const MemoryPlan& plan, std::size_t i) {
    const std::int64_t quarters = small && !scratch_[i].pools ? 4 : 5;
    return plan.live_bytes * quarters / 4 - plan.layers[i].live;
  };
  std::vector<ScratchLimit> limits;
  for (std::size_t i = 0; i < tensors.layers.size(); ++i) {
    const auto size = static_cast<std::int64_t>(bytes_of(precisions_.layers[i].executed));
    const std::int64_t uniform = room(floats, i) * size / std::int64_t{sizeof(float)};
    limits.push_back({std::max(kLeast, room(tensors, i)), std::max(kLeast, uniform)});
  }
  return limits;
}

void Session::prepare_convolution(const Layer& layer, const Filters& weights,
                                  std::span<const float> bias, const Options& options,
                                  const ScratchLimit& limit, Tuning* tuning) {
  const auto index = static_cast<std::size_t>(layer.index);
  const LayerFormat& format = precisions_.layers[index];
  ConvolutionRequest request;
  request.shape = *layer.operation->convolution();
  request.activation = layer.activation;
  request.precision = format.executed;
  request.output_precision = format.output.precision;
  request.weights = weights;
  request.bias = bias;
  request.weight_scales = format.weight_scales;
  if (is_quantised(format.executed) && format.conversion != InputConversion::kDynamic) {
    request.input = &format.converted.quantization;
  }
  if (format.output.precision == Precision::kInt8) request.output = &format.output.quantization;
  request.may_pool = !options.keep_layers && only_pooled(layer);
  ConvolutionChoice choice;
  choice.isa = options.isa;
  choice.algorithm = options.algorithm;
  choice.small_scratch = options.prefer == Preference::kMemory;
  choice.scratch_bytes = static_cast<std::size_t>(limit.allowed);
  if (!choice.small_scratch) {  // there the algorithm has to fit into what this policy leaves
    choice.uniform_scratch_bytes = static_cast<std::size_t>(limit.uniform);
  }
  choice.threads = planned_threads_;
  const std::string measured =
      tuning == nullptr ? std::string() : tuning->algorithm_for(request, choice, pool_);
  if (tuning != nullptr) choice.algorithm = measured;
  // Only now: algorithms are measured on an input in the request's precision.
  request.may_read_floats =
      format.executed == Precision::kFp16 && format.received == Precision::kFp32;
  convolutions_[index] = make_convolution(request, choice);
  const Convolution& convolution = *convolutions_[index];
  const std::size_t needed = convolution.scratch_bytes(pool_.threads());
  const std::size_t most = mpe::scratch_limit(request.shape, pool_.threads());
  if (needed > most) {
    throw Error(network_.file + ":" + std::to_string(layer.line) + ": layer " +
                std::to_string(layer.index) + " by the algorithm " +
                std::string(convolution.algorithm()) + " needs " + std::to_string(needed) +
                " bytes of scratch memory; the limit for its size is " + std::to_string(most) +
                "; choose another algorithm");
  }
  scratch_[index].pools = convolution.pools();
  scratch_[index].kernel = static_cast<std::int64_t>(needed);
  scratch_[index].in_place = convolution.works_in_place();
  if (convolution.reads_floats()) scratch_[index].converted = 0;
  weight_bytes_ += static_cast<std::int64_t>(convolution.weight_bytes());
}

// Is a pooling layer all that reads this layer's output?
bool Session::only_pooled(const Layer& layer) const {
  const auto next = static_cast<std::size_t>(layer.index) + 1;
  if (next == network_.layers.size() || !network_.layers[next].rules.pools_pairs) return false;
  return is_only_reader(network_.layers[next], layer.index);
}

bool Session::is_only_reader(const Layer& layer, int input) const {
  const auto reads = [&](const Layer& other) {
    return std::ranges::count(other.inputs, input) > 0;
  };
  return reads(layer) && std::ranges::count_if(network_.layers, reads) == 1 &&
         std::ranges::count(heads_, input) == 0;
}

// Looks for convolutions one after the other that can hand on rows. Of those with windows of
// several rows a chain has two at most: with three, YOLOv3-tiny became slower on a modelled
// Cortex-A57.
void Session::chain_rows() {
  constexpr int kMostWindows = 2;
  std::vector<RowLink> links;
  int windows = 0;
  for (const Layer& layer : network_.layers) {
    const auto index = static_cast<std::size_t>(layer.index);
    if (index > 0 && scratch_[index - 1].pools) continue;
    const Convolution* convolution = convolutions_[index].get();
    const LayerFormat& format = precisions_.layers[index];
    if (convolution == nullptr || !convolution->computes_rows() ||
        (format.conversion != InputConversion::kNone && !convolution->reads_floats())) {
      add_chain(links);
      continue;
    }
    const ConvolutionShape& shape = *layer.operation->convolution();
    const bool window = shape.extent_y() > 1;
    if (!links.empty() && ((window && windows == kMostWindows) || !convolution->reads_ring() ||
                           links.size() == RowChain::most_links(*links.front().convolution) ||
                           links.back().last_layer() + 1 != layer.index ||
                           !is_only_reader(layer, links.back().last_layer()))) {
      add_chain(links);
    }
    if (links.empty()) windows = 0;
    if (window && convolution->reads_ring()) ++windows;
    links.push_back({layer.index, convolution, shape, bytes_of(format.received),
                     bytes_of(format.output.precision)});
  }
  add_chain(links);
}

// Chains as many of the links as possible; where there is a choice, those with the largest tensors
// between them. Also empties `links`.
void Session::add_chain(std::vector<RowLink>& links) {
  std::unique_ptr<RowChain> chain;
  for (std::size_t count = links.size(); count > 1 && chain == nullptr; --count) {
    for (std::size_t first = 0; first + count <= links.size(); ++first) {
      const std::span<const RowLink> some(&links[first], count);
      auto other = RowChain::make(some, planned_threads_, pool_.threads());
      if (other == nullptr) continue;
      if (chain == nullptr || other->bytes_between() > chain->bytes_between()) {
        chain = std::move(other);
      }
    }
  }
  if (chain != nullptr) {
    const std::span<const RowLink> chained = chain->links();
    const int last = chained.back().layer;
    for (const RowLink& link : chained) {
      LayerScratch& scratch = scratch_[static_cast<std::size_t>(link.layer)];
      scratch.kernel = 0;
      scratch.in_place = false;
      if (link.layer == last) continue;
      for (int layer = link.layer; layer <= link.last_layer(); ++layer) {
        scratch_[static_cast<std::size_t>(layer)].computed_with = last;
      }
    }
    scratch_[static_cast<std::size_t>(last)].kernel =
        static_cast<std::int64_t>(chain->scratch_bytes());
    chains_[static_cast<std::size_t>(last)] = std::move(chain);
  }
  links.clear();
}

void Session::prepare_steps() {
  for (const Layer& layer : network_.layers) {
    const auto index = static_cast<std::size_t>(layer.index);
    const LayerFormat& format = precisions_.layers[index];
    const LayerMemory& memory = memory_.layers[index];
    Step& step = steps_.emplace_back();
    step.layer = &layer;
    step.format = &format;
    step.convolution = convolutions_[index].get();
    step.chain = chains_[index].get();
    step.is_handed_on = scratch_[index].computed_with != LayerScratch::kAlone;
    step.output = {
        arena_.get() + memory.output, format.output.precision,
        format.output.precision == Precision::kInt8 ? &format.output.quantization : nullptr};
    step.converted = {arena_.get() + memory.converted, format.converted.precision,
                      format.conversion == InputConversion::kStatic && is_quantised(format.executed)
                          ? &format.converted.quantization
                          : nullptr};
    step.scratch = arena_.get() + memory.kernel;
    step.is_view = memory.is_view;
    for (const int input : layer.inputs) {
      step.inputs.push_back({view(input), network_.output_shape(input)});
      const std::optional<std::int64_t> begin = network_.input_begin(input);
      if (begin) step.given.push_back({step.inputs.size() - 1, *begin});
    }
    step.values = values_[index];
    if (!layer.has_filters()) continue;
    step.by_quantizer = convert_by_quantizer(layer, format, step.inputs[0].tensor);
    if (step.by_quantizer) quantizer_->prepare(step.inputs[0].tensor, layer.in.elements());
  }
}

TensorView Session::view(int tensor) const {
  if (const std::optional<std::int64_t> begin = network_.input_begin(tensor)) {
    return {input_ == nullptr ? nullptr : input_ + *begin, Precision::kFp32, nullptr};
  }
  if (network_.layers[static_cast<std::size_t>(tensor)].rules.memory == MemoryRule::kConstant) {
    return {values_[static_cast<std::size_t>(tensor)].data(), Precision::kFp32, nullptr};
  }
  const MutableTensorView& output = steps_[static_cast<std::size_t>(tensor)].output;
  return {output.data, output.precision, output.quantization};
}

void Session::report(const Layer& layer) {
  const auto index = static_cast<std::size_t>(layer.index);
  const Step& step = steps_[index];
  LayerReport& row = reports_[index];
  row.executed = step.output.precision;
  row.isa = "reference";
  row.algorithm = step.is_view ? "none" : layer.rules.algorithm;
  if (index > 0 && scratch_[index - 1].pools) {
    row.isa = convolutions_[index - 1]->isa();
    row.algorithm = "fused";
  }
  if (step.is_view) return;
  if (step.convolution == nullptr) {
    const LayerCall call{layer, step.inputs, step.output, step.values};
    if (layer.operation->runs_vectors(call)) row.isa = elementwise_.isa;
    row.bytes = layer.operation->bytes_moved(call);
    if (row.bytes == 0) row.algorithm = "none";  // its inputs lie where they are wanted
    return;
  }
  const auto size = [](const Shape& shape, Precision precision) {
    return shape.elements() * static_cast<std::int64_t>(bytes_of(precision));
  };
  const Layer& written = scratch_[index].pools ? network_.layers[index + 1] : layer;
  row.executed = step.format->executed;
  row.isa = step.convolution->isa();
  row.algorithm = step.convolution->algorithm();
  row.by_rows = step.is_handed_on || step.chain != nullptr;
  row.bytes = size(written.out, step.output.precision) +
              size(layer.in, step.inputs[0].tensor.precision) +
              static_cast<std::int64_t>(step.convolution->weight_bytes()) +
              2 * scratch_[index].converted;  // the conversion's result is written, then read
}

}  // namespace mpe
