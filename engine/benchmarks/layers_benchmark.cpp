// Single convolutions of every instruction set, precision and algorithm of this machine, on one
// thread, and what each reaches of the core's peak: layers_benchmark --benchmark_filter=gemm/int8
//
// The shapes of `gemm` are such that data stays in the caches and little is packed or written: what
// is measured is the micro-kernel. The others are layers of yolov3-tiny, MobileNet and
// yolo-fastest; of Winograd's algorithm the multiply-adds are those of the plain convolution, so
// that it may reach more than the peak.
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/aligned_buffer.h"
#include "kernels/convolution.h"
#include "kernels/kernel_sets.h"
#include "kernels/sizes.h"
#include "peak.h"

namespace {

using namespace mpe;

struct Layer {
  const char* name;
  const char* algorithm;
  Shape in;
  int filters;
  int size;
  int stride;
  int groups;
};

constexpr Layer kLayers[] = {
    {"512 rows of 512 terms", "gemm", {512, 1, 96}, 512, 1, 1, 1},
    {"yolov3-tiny 13x13x1024 to 256", "gemm", {1024, 13, 13}, 256, 1, 1, 1},
    {"yolov3-tiny 416x416x3 to 16", "gemm", {3, 416, 416}, 16, 3, 1, 1},
    {"yolov3-tiny 52x52x64 to 128", "winograd2", {64, 52, 52}, 128, 3, 1, 1},
    {"yolov3-tiny 52x52x64 to 128", "winograd4", {64, 52, 52}, 128, 3, 1, 1},
    {"yolov3-tiny 13x13x512 to 1024", "winograd2", {512, 13, 13}, 1024, 3, 1, 1},
    {"yolov3-tiny 13x13x512 to 1024", "winograd4", {512, 13, 13}, 1024, 3, 1, 1},
    {"mobilenet 56x56x128", "depthwise", {128, 56, 56}, 128, 3, 1, 128},
    {"mobilenet 56x56x128 by 2", "depthwise", {128, 56, 56}, 128, 3, 2, 128},
    {"yolo-fastest 20x20x96", "depthwise", {96, 20, 20}, 96, 5, 1, 96},
};

constexpr std::pair<Precision, const char*> kPrecisions[] = {
    {Precision::kFp32, "fp32"}, {Precision::kFp16, "fp16"}, {Precision::kInt8, "int8"}};

ConvolutionShape shape_of(const Layer& layer) {
  ConvolutionShape shape;
  shape.in = layer.in;
  shape.kernel_y = shape.kernel_x = layer.size;
  shape.stride_y = shape.stride_x = layer.stride;
  shape.padding_y = shape.padding_x = layer.size / 2;
  shape.groups = layer.groups;
  const auto outputs = [&](int size) { return (size - 1) / layer.stride + 1; };
  shape.out = {layer.filters, outputs(layer.in.height), outputs(layer.in.width)};
  return shape;
}

// The convolution, or null where the set has no kernel of its own for it.
std::unique_ptr<Convolution> prepare(const Layer& layer, Precision precision,
                                     std::string_view isa) {
  ConvolutionRequest request;
  request.shape = shape_of(layer);
  request.activation = Activation::kLeaky;
  request.precision = request.output_precision = precision;
  const std::vector<float> weights(
      static_cast<std::size_t>(layer.filters) * static_cast<std::size_t>(request.shape.depth()),
      0.01F);
  const std::vector<float> bias(static_cast<std::size_t>(layer.filters), 0.1F);
  request.weights = weights;
  request.bias = bias;
  const Quantization quantization{{0.05F}, {3}};
  if (precision == Precision::kInt8) request.input = request.output = &quantization;
  auto convolution = make_convolution(request, {isa, layer.algorithm, false});
  const bool own = convolution->isa() == isa && convolution->algorithm() == layer.algorithm;
  return own ? std::move(convolution) : nullptr;
}

double peak_of(std::string_view isa, Precision precision) {
  static std::map<std::pair<std::string, Precision>, double> known;
  const std::pair key(std::string(isa), precision);
  if (!known.contains(key)) known[key] = peak_multiply_adds(isa, precision);
  return known[key];
}

void run(benchmark::State& state, const Layer& layer, Precision precision, std::string_view isa) {
  const std::unique_ptr<Convolution> convolution = prepare(layer, precision, isa);
  const ConvolutionShape shape = shape_of(layer);
  const auto bytes = [&](const Shape& tensor) {
    return static_cast<std::size_t>(tensor.elements()) * value_size(precision);
  };
  const AlignedBuffer input(bytes(shape.in));
  const AlignedBuffer output(bytes(shape.out));
  const AlignedBuffer scratch(convolution->scratch_bytes(1) + 1);
  ThreadPool pool(1);
  const double peak = peak_of(isa, precision);
  for (auto _ : state) {
    convolution->run({input.data(), output.data(), scratch.data(), nullptr}, pool);
    benchmark::ClobberMemory();
  }
  const double multiply_adds = static_cast<double>(shape.out.elements()) * shape.depth();
  state.counters["multiply-adds/s"] =
      benchmark::Counter(multiply_adds, benchmark::Counter::kIsIterationInvariantRate);
  if (peak > 0.0) {
    state.counters["of peak %"] = benchmark::Counter(100.0 * multiply_adds / peak,
                                                     benchmark::Counter::kIsIterationInvariantRate);
  }
}

void register_all() {
  for (const KernelSetInfo& set : kernel_sets()) {
    if (!set.supported || set.name == "reference") continue;
    for (const Layer& layer : kLayers) {
      for (const auto& [precision, name] : kPrecisions) {
        if (prepare(layer, precision, set.name) == nullptr) continue;
        const std::string title = std::string(layer.algorithm) + "/" + name + "/" +
                                  std::string(set.name) + "/" + layer.name;
        const std::string isa(set.name);
        const Precision which = precision;
        benchmark::RegisterBenchmark(title.c_str(), [&layer, which, isa](benchmark::State& state) {
          run(state, layer, which, isa);
        })->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
