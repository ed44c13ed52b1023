// Turns a cfg's sections into layers with resolved inputs and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layers/registry.h"
#include "model/cfg_file.h"
#include "model/cfg_keys.h"
#include "model/network.h"

namespace mpe {

class NetworkBuilder {
 public:
  explicit NetworkBuilder(std::string_view file);

  // Throws mpe::Error, naming the line, at the first thing that does not fit.
  Network build(const std::vector<CfgSection>& sections);

 private:
  void net(const CfgSection& section);
  void read_input_values(const CfgSection& section);
  void layer(const CfgSection& section);
  // The inputs that from= names; the preceding layer where it is absent.
  void read_inputs(const CfgSection& section, InputsRule rule, Layer& layer) const;
  // Keeps the section's name=, if it has one, for those who refer to `tensor`.
  std::string take_name(const CfgSection& section, int tensor);
  static void check_shape(const CfgSection& section, const Layer& layer);
  // Fills in the layer's parameters and multiply-adds and checks the network's totals.
  void count(const CfgSection& section, Layer& layer);

  Network network_;
  KeyCheck keys_;
  std::int64_t elements_ = 0;
  std::int64_t parameters_ = 0;
  std::int64_t macs_ = 0;
};

}  // namespace mpe
