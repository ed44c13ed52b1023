#include "model/network_builder.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "error.h"
#include "io/text.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"

namespace mpe {

using Limits = NetworkLimits;

// The input's name beside that of name= in [net].
constexpr std::string_view kInputName = "input";

NetworkBuilder::NetworkBuilder(std::string_view file) : keys_(file) { network_.file = file; }

Network NetworkBuilder::build(const std::vector<CfgSection>& sections) {
  if (sections.empty()) throw Error(network_.file + ": no sections; this is not a Darknet cfg");
  net(sections.front());
  if (sections.size() == 1) sections.front().fail("is the only section; there are no layers");
  if (sections.size() - 1 > Limits::kLayers) {
    sections[Limits::kLayers + 1].fail("is beyond the limit of " + std::to_string(Limits::kLayers) +
                                       " layers");
  }
  network_.layers.reserve(sections.size() - 1);
  for (std::size_t i = 1; i < sections.size(); ++i) layer(sections[i]);
  if (sections.front().find("outputs") != nullptr) {
    network_.outputs = read_references(sections.front(), "outputs", network_);
  }
  network_.warnings = keys_.take_warnings();
  return std::move(network_);
}

void NetworkBuilder::net(const CfgSection& section) {
  if (section.name() != "net" && section.name() != "network") {
    section.fail("comes first, but a cfg must start with [net]");
  }
  keys_.net(section);
  const auto dimension = [&section](std::string_view key) {
    if (section.find(key) == nullptr) section.fail("needs " + std::string(key) + "=");
    return section.integer(key, 0, 1, Limits::kDimension);
  };
  network_.input = {dimension("channels"), dimension("height"), dimension("width")};
  if (network_.input.elements() > Limits::kElements) {
    section.fail("input " + text_of(network_.input) + " is too large");
  }
  network_.names.emplace(kInputName, kNetworkInput);
  take_name(section, kNetworkInput);
  read_input_values(section);
}

void NetworkBuilder::read_input_values(const CfgSection& section) {
  InputValues& values = network_.input_values;
  const auto read = [&](std::string_view key, std::vector<float>& into) {
    if (section.find(key) == nullptr) return;
    into = section.reals(key);
    const auto channels = static_cast<std::size_t>(network_.input.channels);
    if (into.size() != 1 && into.size() != channels) {
      section.fail(section.line_of(key), std::string(key) + "= has " + std::to_string(into.size()) +
                                             " numbers; give one, or one for each of the " +
                                             std::to_string(channels) + " channels");
    }
  };
  read("mean", values.mean);
  read("std", values.deviation);
  if (std::ranges::any_of(values.deviation, [](float value) { return !(value > 0.0F); })) {
    section.fail(section.line_of("std"), "std= must be above 0");
  }
  const std::string_view colors = section.word("colors", "rgb");
  if (colors != "rgb" && colors != "bgr") {
    section.fail(section.line_of("colors"), "colors=" + std::string(colors) + " is not rgb or bgr");
  }
  values.blue_first = colors == "bgr";
}

void NetworkBuilder::read_inputs(const CfgSection& section, InputsRule rule, Layer& layer) const {
  const bool named = section.find("from") != nullptr;
  if (rule == InputsRule::kNone) {
    if (named) section.fail(section.line_of("from"), "has no inputs; remove from=");
    return;
  }
  layer.inputs = {layer.index - 1};
  if (rule != InputsRule::kOwn && named) {
    layer.inputs = read_references(section, "from", network_);
    if (rule == InputsRule::kOne && layer.inputs.size() != 1) {
      section.fail(section.line_of("from"),
                   "has one input, but from= names " + std::to_string(layer.inputs.size()));
    }
  }
  layer.in = network_.output_shape(layer.inputs.front());
  layer.out = layer.in;
}

std::string NetworkBuilder::take_name(const CfgSection& section, int tensor) {
  if (section.find("name") == nullptr) return {};
  const std::string name(section.word("name", ""));
  if (!is_name(name) || name.find_first_of(",=[]") != std::string::npos) {
    section.fail(section.line_of("name"),
                 quoted(name) +
                     " is no name: names begin with a letter or _ and have "
                     "none of , # ; = [ ]");
  }
  if (network_.names.emplace(name, tensor).first->second != tensor) {
    section.fail(section.line_of("name"), "the name " + quoted(name) + " is taken already");
  }
  return name;
}

void NetworkBuilder::layer(const CfgSection& section) {
  Layer layer;
  layer.kind = layer_kind_of(section);
  layer.index = static_cast<int>(network_.layers.size());
  layer.line = section.line();
  keys_.layer(section, layer.kind);
  refuse(section, {"dontload", "dontloadscales", "numload"});
  const LayerType& type = type_of(layer.kind);
  read_inputs(section, type.inputs, layer);
  type.read(section, network_, layer);
  layer.name = take_name(section, layer.index);
  check_shape(section, layer);
  count(section, layer);
  network_.layers.push_back(std::move(layer));
}

void NetworkBuilder::check_shape(const CfgSection& section, const Layer& layer) {
  const auto fits = [](int value) { return value >= 1 && value <= Limits::kDimension; };
  if (!fits(layer.out.channels) || !fits(layer.out.height) || !fits(layer.out.width) ||
      layer.out.elements() > Limits::kElements) {
    section.fail("layer " + std::to_string(layer.index) + " makes " + text_of(layer.out) + " of " +
                 text_of(layer.in) + ", which is not a size this engine can hold");
  }
}

void NetworkBuilder::count(const CfgSection& section, Layer& layer) {
  elements_ += layer.out.elements();
  if (layer.has_filters()) {
    // Bounded step by step: an output has at most 2^16 channels, a sum at most 2^36 terms.
    layer.parameters = layer.out.channels * (layer.sum_terms + (layer.batch_normalize ? 4 : 1));
    layer.macs = layer.out.elements() * layer.sum_terms;
  }
  if (layer.parameters > Limits::kParameters) {
    section.fail("layer " + std::to_string(layer.index) + " has " +
                 std::to_string(layer.parameters) + " parameters, more than this engine accepts");
  }
  parameters_ += layer.parameters;
  macs_ += layer.macs;
  if (elements_ > Limits::kAllElements || parameters_ > Limits::kAllParameters ||
      macs_ > Limits::kAllMacs) {
    section.fail("layer " + std::to_string(layer.index) + " brings the network to " +
                 std::to_string(elements_) + " activations, " + std::to_string(parameters_) +
                 " parameters and " + std::to_string(macs_) +
                 " multiply-adds, more than this engine accepts");
  }
}

}  // namespace mpe
