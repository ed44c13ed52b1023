#include "model/network_builder.h"

#include <cstddef>
#include <string>
#include <utility>

#include "error.h"
#include "layers/registry.h"
#include "layers/section_keys.h"
#include "model/limits.h"

namespace mpe {

using Limits = NetworkLimits;

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
}

void NetworkBuilder::layer(const CfgSection& section) {
  Layer layer;
  layer.kind = layer_kind_of(section);
  layer.index = static_cast<int>(network_.layers.size());
  layer.line = section.line();
  keys_.layer(section, layer.kind);
  refuse(section, {"dontload", "dontloadscales", "numload"});
  layer.inputs = {layer.index - 1};
  layer.in = network_.output_shape(layer.index - 1);
  layer.out = layer.in;
  type_of(layer.kind).read(section, network_, layer);
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
  if (layer.has_weights()) {
    // Bounded step by step: an output has at most 2^16 channels, a sum at most 2^36 terms.
    layer.parameters = layer.out.channels * (layer.sum_terms + (layer.batch_normalize ? 4 : 1));
    if (layer.parameters > Limits::kParameters) {
      section.fail("layer " + std::to_string(layer.index) + " has " +
                   std::to_string(layer.parameters) + " parameters, more than this engine accepts");
    }
    layer.macs = layer.out.elements() * layer.sum_terms;
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
