#include "layers/section_keys.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "io/text.h"
#include "model/limits.h"

namespace mpe {
namespace {

// fp32, fp16 and int8 are switches of which one at most may be on.
Precision precision_of(const CfgSection& section) {
  constexpr Precision kAll[] = {Precision::kFp32, Precision::kFp16, Precision::kInt8};
  std::optional<Precision> chosen;
  for (const Precision precision : kAll) {
    const std::string_view key = name_of(precision);
    if (section.integer(key, 0, 0, 1) == 0) continue;
    if (chosen) {
      section.fail(section.line_of(key), std::string(name_of(*chosen)) + " and " +
                                             std::string(key) +
                                             " are both 1; a layer has one precision");
    }
    chosen = precision;
  }
  return chosen.value_or(Precision::kFp32);
}

// A negative reference counts from the layer that makes it.
int resolve(const CfgSection& section, std::string_view key, int layer, int reference) {
  const std::int64_t index = reference < 0 ? std::int64_t{layer} + reference : reference;
  if (index < 0 || index >= layer) {
    section.fail(section.line_of(key), std::string(key) + "=" + std::to_string(reference) +
                                           " at layer " + std::to_string(layer) +
                                           " points to layer " + std::to_string(index) +
                                           ", which does not come before it");
  }
  return static_cast<int>(index);
}

}  // namespace

Activation read_activation(const CfgSection& section, std::string_view absent) {
  const std::string_view word = section.word("activation", absent);
  const auto names = activation_names();
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) {
    const std::string_view near = nearest(word, names);
    section.fail(section.line_of("activation"),
                 "activation " + quoted(word) + " is not one this engine has" +
                     (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
  }
  return static_cast<Activation>(found - names.begin());
}

void read_precision(const CfgSection& section, Layer& layer) {
  layer.precision = precision_of(section);
  layer.quantize = section.integer("quantize", 0, 0, 1) == 1;
}

std::vector<int> read_references(const CfgSection& section, std::string_view key,
                                 const Network& network) {
  if (section.find(key) == nullptr) section.fail("needs " + std::string(key) + "=");
  std::vector<int> indices = section.integers(key);
  if (indices.size() > NetworkLimits::kInputs) {
    section.fail(section.line_of(key),
                 "names more than " + std::to_string(NetworkLimits::kInputs) + " layers");
  }
  const int layer = static_cast<int>(network.layers.size());
  for (int& index : indices) index = resolve(section, key, layer, index);
  return indices;
}

void refuse(const CfgSection& section, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (section.flag(key)) {
      section.fail(section.line_of(key),
                   quoted(key) + " changes what is computed and is not supported; remove it");
    }
  }
}

}  // namespace mpe
