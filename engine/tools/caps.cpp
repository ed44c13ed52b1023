// mpe caps: the instruction sets of this machine and the kernels they bring, as JSON.
#include <cstdio>

#include "commands.h"
#include "error.h"
#include "io/json_writer.h"
#include "kernels/cpu.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_sets.h"
#include "layers/registry.h"

namespace mpe {
namespace {

#if defined(__aarch64__)
constexpr const char* kArchitecture = "aarch64";
#else
constexpr const char* kArchitecture = "x86_64";
#endif

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
  // With the instruction set, they decide on the layers' algorithms, and so on the bits of fp32.
  json.key("caches").begin_object().field("resident_bytes", cpu_caches().resident_bytes);
  json.field("second_bytes", cpu_caches().second_bytes).end_object();
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
  for (const LayerKind kind : layer_kinds()) {
    const Loops loops = type_of(kind).loops;
    if (loops == Loops::kNone) continue;
    json.begin_object().field("type", name_of(kind)).key("precision").null();  // any
    json.field("isa", loops == Loops::kVectors ? elementwise : "reference");
    json.field("algorithm", "direct");
    json.end_object();
  }
  json.end_array().end_object();
  std::printf("%s\n", json.text().c_str());
  return 0;
}

}  // namespace mpe
