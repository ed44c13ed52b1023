#include "layers/route.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "layers/operation.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "layers/typed.h"
#include "model/limits.h"

namespace mpe {
namespace {

using Limits = NetworkLimits;

std::int64_t bytes_of_values(std::int64_t count, Precision precision) {
  return count * static_cast<std::int64_t>(bytes_of(precision));
}

// The channels that are taken of one input, and their place in the output.
struct Slice {
  TensorView from;
  MutableTensorView to;
  int channels;
  bool in_place() const { return from.data == to.data; }  // its producer wrote it there
};

class Route final : public OperationWith<RouteParameters> {
 public:
  using OperationWith::OperationWith;

  LayerGeometry geometry() const override { return {.groups = parameters_.groups}; }

  void run(const LayerCall& call, const Workers& workers) const override {
    for_copies(call, [&](const Slice& slice) {
      convert_tensor(slice.from, slice.to, slice.channels, call.layer.out.plane(), workers);
    });
  }

  void run_reference(const LayerCall& call) const override { reference_route(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override {
    bool vectors = false;
    for_copies(call, [&](const Slice& slice) {
      vectors = vectors || converts_by_vectors(slice.from, slice.to);
    });
    return vectors;
  }

  std::int64_t bytes_moved(const LayerCall& call) const override {
    std::int64_t bytes = 0;
    for_copies(call, [&](const Slice& slice) {
      const std::int64_t values = slice.channels * call.layer.out.plane();
      bytes += bytes_of_values(values, slice.from.precision) +
               bytes_of_values(values, slice.to.precision);
    });
    return bytes;
  }

 private:
  // Calls body(slice) for every input that does not lie in the output already.
  template <typename Body>
  void for_copies(const LayerCall& call, Body&& body) const {
    const std::int64_t plane = call.layer.out.plane();
    int before = 0;  // channels
    for (const LayerInput& input : call.inputs) {
      Slice slice{input.tensor, call.output, input.shape.channels / parameters_.groups};
      const std::int64_t skipped = std::int64_t{parameters_.group_id} * slice.channels * plane;
      slice.from.data = static_cast<const std::byte*>(slice.from.data) +
                        bytes_of_values(skipped, slice.from.precision);
      slice.to.data = static_cast<std::byte*>(slice.to.data) +
                      bytes_of_values(before * plane, slice.to.precision);
      before += slice.channels;
      if (!slice.in_place()) body(slice);
    }
  }
};

// Along the height or the width: every channel, or every row, has a run of each input.
class JoinAlong final : public OperationWith<RouteParameters> {
 public:
  using OperationWith::OperationWith;

  void run(const LayerCall& call, const Workers& workers) const override {
    const Shape& out = call.layer.out;
    const std::int64_t pitch = out[parameters_.axis] * stride(out);
    const auto runs = static_cast<int>(out.elements() / pitch);
    std::int64_t before = 0;
    for (const LayerInput& input : call.inputs) {
      const std::int64_t length = input.shape[parameters_.axis] * stride(out);
      TensorView from = input.tensor;
      MutableTensorView to = call.output;
      to.data = static_cast<std::byte*>(to.data) + bytes_of_values(before, call.output.precision);
      if (from.precision == to.precision && from.quantization == nullptr) {
        copy_runs(from, to, runs, length, pitch, workers);
      } else {
        for (int run = 0; run < runs; ++run) {
          convert_tensor(from, to, 1, length, workers);
          from.data =
              static_cast<const std::byte*>(from.data) + bytes_of_values(length, from.precision);
          to.data = static_cast<std::byte*>(to.data) + bytes_of_values(pitch, to.precision);
        }
      }
      before += length;
    }
  }

  void run_reference(const LayerCall& call) const override { reference_route(parameters_, call); }

  bool runs_vectors(const LayerCall& call) const override { return converts_int8(call); }

 private:
  std::int64_t stride(const Shape& shape) const { return shape.stride(parameters_.axis); }

  // `count` runs of `length` values, which start `pitch` values apart in the output.
  static void copy_runs(const TensorView& from, const MutableTensorView& to, int count,
                        std::int64_t length, std::int64_t pitch, const Workers& workers) {
    with_typed(from, to, [&]<typename T>(const T* in, T* out) {
      workers.pool.parallel_for(count, [&](int, int begin, int end) {
        for (std::int64_t run = begin; run < end; ++run) {
          std::copy_n(in + run * length, length, out + run * pitch);
        }
      });
    });
  }
};

void read_along(const CfgSection& section, const Network& network, Layer& layer,
                const RouteParameters& p) {
  for (const std::string_view key : {"groups", "group_id"}) {
    if (section.find(key) != nullptr) {
      section.fail(section.line_of(key), std::string(key) + "= belongs to axis=channels");
    }
  }
  layer.out[p.axis] = 0;
  for (const int input : layer.inputs) {
    Shape shape = network.output_shape(input);
    const int places = shape[p.axis];
    shape[p.axis] = layer.in[p.axis];
    if (shape != layer.in) {
      section.fail(section.line_of("axis"),
                   "layer " + std::to_string(input) + " is " +
                       text_of(network.output_shape(input)) + " and layer " +
                       std::to_string(layer.inputs.front()) + " is " + text_of(layer.in) +
                       "; joined maps may differ in the size along axis= only");
    }
    layer.out[p.axis] += places;
  }
  layer.rules.algorithm = "copy";
  layer.rules.precision = layer.inputs.size() == 1 ? PrecisionRule::kKeeps : PrecisionRule::kJoins;
  layer.operation = std::make_shared<JoinAlong>(p);
}

void read(const CfgSection& section, const Network& network, Layer& layer) {
  const bool named = section.find("from") != nullptr;
  if (named && section.find("layers") != nullptr) {
    section.fail(section.line_of("from"), "has layers=; remove from=");
  }
  layer.inputs = read_references(section, named ? "from" : "layers", network);
  layer.in = layer.out = network.output_shape(layer.inputs.front());
  RouteParameters p;
  p.axis = read_axis(section, "channels");
  if (p.axis != Axis::kChannels) return read_along(section, network, layer, p);
  p.groups = section.integer("groups", 1, 1, Limits::kDimension);
  p.group_id = section.integer("group_id", 0, 0, p.groups - 1);
  layer.out = {0, layer.in.height, layer.in.width};
  for (const int input : layer.inputs) {
    const Shape& shape = network.output_shape(input);
    if (shape.height != layer.out.height || shape.width != layer.out.width) {
      section.fail(section.line_of("layers"),
                   "layer " + std::to_string(input) + " is " + text_of(shape) + " and layer " +
                       std::to_string(layer.inputs.front()) + " is " + text_of(layer.in) +
                       "; joined maps must have the same height and width");
    }
    if (shape.channels % p.groups != 0) {
      section.fail(section.line_of("groups"), "groups=" + std::to_string(p.groups) +
                                                  " does not divide the " +
                                                  std::to_string(shape.channels) +
                                                  " channels of layer " + std::to_string(input));
    }
    layer.out.channels += shape.channels / p.groups;
  }
  layer.rules.algorithm = "copy";
  if (layer.inputs.size() == 1) {
    layer.rules.precision = PrecisionRule::kKeeps;
    layer.rules.memory = MemoryRule::kView;
    layer.rules.view_begin = p.group_id * layer.out.elements();
  } else {
    layer.rules.precision = PrecisionRule::kJoins;
    if (p.groups == 1) layer.rules.memory = MemoryRule::kConcatenates;
  }
  layer.operation = std::make_shared<Route>(p);
}

}  // namespace

const LayerType kRouteLayer{.read = read, .loops = Loops::kPlain, .inputs = InputsRule::kOwn};

}  // namespace mpe
