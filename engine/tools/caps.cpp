// mpe caps: the instruction sets of this machine and the kernels they bring, as JSON.
#include <cstdio>

#include "commands.h"
#include "error.h"
#include "io/json_writer.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_sets.h"

namespace mpe {
namespace {

#if defined(__aarch64__)
constexpr const char* kArchitecture = "aarch64";
#else
constexpr const char* kArchitecture = "x86_64";
#endif

constexpr LayerKind kWithoutWeights[] = {
    LayerKind::kMaxpool, LayerKind::kAvgpool,  LayerKind::kUpsample,
    LayerKind::kRoute,   LayerKind::kShortcut, LayerKind::kScaleChannels,
    LayerKind::kReorg,   LayerKind::kCrop,     LayerKind::kSoftmax};

void write_kernel(JsonWriter& json, const KernelUse& use) {
  json.begin_object().field("type", use.kind).field("precision", name_of(use.precision));
  json.field("isa", use.isa).field("algorithm", use.algorithm).end_object();
}

}  // namespace

int run_caps(std::span<char*> arguments) {
  if (!arguments.empty()) throw Error("mpe caps takes no options");
  const std::vector<KernelSetInfo> sets = kernel_sets();
  const std::string_view elementwise = choose_elementwise({}, {}).isa;
  JsonWriter json;
  json.begin_object().field("architecture", kArchitecture);
  json.field("best", best_kernel_set());
  json.key("algorithms").begin_array();
  for (const std::string_view name : algorithms()) json.value(name);
  json.end_array();
  json.key("sets").begin_array();
  for (const KernelSetInfo& set : sets) {
    json.begin_object().field("isa", set.name).field("supported", set.supported);
    json.key("kernels").begin_array();
    for (const KernelUse& use : set.kernels) write_kernel(json, use);
    json.end_array().end_object();
  }
  json.end_array();

  json.key("kernels").begin_array();
  for (const KernelSetInfo& set : sets) {
    if (set.name != best_kernel_set()) continue;
    for (const KernelUse& use : set.kernels) write_kernel(json, use);
  }
  for (const LayerKind kind : kWithoutWeights) {
    // The same in every precision. The others are plain loops, but for conversions of int8.
    const bool vectors = kind == LayerKind::kMaxpool || kind == LayerKind::kShortcut;
    json.begin_object().field("type", name_of(kind)).key("precision").null();
    json.field("isa", vectors ? elementwise : "reference").field("algorithm", "direct");
    json.end_object();
  }
  json.end_array().end_object();
  std::printf("%s\n", json.text().c_str());
  return 0;
}

}  // namespace mpe
