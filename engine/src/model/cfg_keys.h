// Which keys a section may have. Darknet's files carry many that only matter for training; those
// are known and ignored. Any other key is an error: what it was meant to change would be missing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/cfg_file.h"
#include "model/network.h"

namespace mpe {

// The kind a section's name stands for (Darknet has short forms: conv, conn, max, avg, soft).
// Throws mpe::Error, naming the nearest known section, for any other.
LayerKind layer_kind_of(const CfgSection& section);

// Throws mpe::Error at a key that a section cannot have. Collects sentences about keys that are set
// twice, at most a few dozen.
class KeyCheck {
 public:
  explicit KeyCheck(std::string_view file) : file_(file) {}

  void net(const CfgSection& section);
  void layer(const CfgSection& section, LayerKind kind);
  std::vector<std::string> take_warnings();

 private:
  void check(const CfgSection& section, const std::vector<std::string_view>& known);
  void warn(int line, const std::string& message);

  std::string_view file_;
  std::vector<std::string> warnings_;
  int suppressed_ = 0;
};

}  // namespace mpe
