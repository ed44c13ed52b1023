#include "layers/section_keys.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "io/text.h"
#include "model/limits.h"

namespace mpe {
namespace {

// fp32, fp16, int8 and int16 are switches of which one at most may be on.
Precision precision_of(const CfgSection& section) {
  constexpr Precision kAll[] = {Precision::kFp32, Precision::kFp16, Precision::kInt8,
                                Precision::kInt16};
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
int resolve_index(const CfgSection& section, std::string_view key, int layer, int reference) {
  const std::int64_t index = reference < 0 ? std::int64_t{layer} + reference : reference;
  if (index < 0 || index >= layer) {
    section.fail(section.line_of(key), std::string(key) + "=" + std::to_string(reference) +
                                           " at layer " + std::to_string(layer) +
                                           " points to layer " + std::to_string(index) +
                                           ", which does not come before it");
  }
  return static_cast<int>(index);
}

int resolve_name(const CfgSection& section, std::string_view key, const Network& network,
                 std::string_view name) {
  if (const auto found = network.names.find(name); found != network.names.end()) {
    return found->second;
  }
  std::vector<std::string_view> names;
  for (const auto& [known, index] : network.names) names.push_back(known);
  const std::string_view near = nearest(name, names);
  section.fail(section.line_of(key),
               std::string(key) + "= names " + quoted(name) +
                   ", but no layer before this one has that name" +
                   (near.empty() ? "" : "; did you mean " + quoted(near) + "?"));
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
  if (layer.quantize && layer.precision == Precision::kInt16) {
    section.fail(
        section.line_of("quantize"),
        "quantize=1 does not go with int16=1, which needs the calibrated range of its input");
  }
}

std::vector<int> read_references(const CfgSection& section, std::string_view key,
                                 const Network& network) {
  if (section.find(key) == nullptr) section.fail("needs " + std::string(key) + "=");
  const std::vector<std::string_view> words = section.words(key);
  if (words.size() > NetworkLimits::kInputs) {
    section.fail(section.line_of(key),
                 "names more than " + std::to_string(NetworkLimits::kInputs) + " layers");
  }
  const int layer = static_cast<int>(network.layers.size());
  std::vector<int> indices;
  for (const std::string_view word : words) {
    indices.push_back(is_name(word)
                          ? resolve_name(section, key, network, word)
                          : resolve_index(section, key, layer, section.integer_of(key, word)));
  }
  return indices;
}

Shape read_shape(const CfgSection& section) {
  const auto size = [&](std::string_view key) {
    if (section.find(key) == nullptr) section.fail("needs " + std::string(key) + "=");
    return section.integer(key, 0, 1, NetworkLimits::kDimension);
  };
  const Shape shape = {size("channels"), size("height"), size("width")};
  if (shape.elements() > NetworkLimits::kElements) {
    section.fail("makes " + text_of(shape) + ", which is not a size this engine can hold");
  }
  return shape;
}

namespace {

constexpr std::string_view kAxes[] = {"channels", "height", "width"};

std::size_t choose(const CfgSection& section, std::string_view key, std::string_view word,
                   std::span<const std::string_view> words) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) {
    std::string known;
    for (const std::string_view choice : words)
      known += (known.empty() ? "" : ", ") + std::string(choice);
    section.fail(section.line_of(key),
                 std::string(key) + "= is " + quoted(word) + "; choose from " + known);
  }
  return static_cast<std::size_t>(found - words.begin());
}

}  // namespace

std::size_t read_choice(const CfgSection& section, std::string_view key, std::string_view absent,
                        std::span<const std::string_view> words) {
  return choose(section, key, section.word(key, absent), words);
}

Axis read_axis(const CfgSection& section, std::string_view absent) {
  return static_cast<Axis>(read_choice(section, "axis", absent, kAxes));
}

std::vector<Axis> read_axes(const CfgSection& section) {
  std::vector<Axis> axes;
  for (const std::string_view word : section.words("axes")) {
    axes.push_back(static_cast<Axis>(choose(section, "axes", word, kAxes)));
  }
  if (axes.empty()) section.fail("needs axes=");
  return axes;
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
