#include "model/cfg_keys.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "io/text.h"
#include "layers/registry.h"

namespace mpe {
namespace {

constexpr std::size_t kMostWarnings = 20;

// [net]'s, and those of every other section.
#define NET_KEYS(...) constexpr std::string_view kNet[] = {__VA_ARGS__};
#define ANY_LAYER_KEYS(...) constexpr std::string_view kAnyLayer[] = {__VA_ARGS__};
#include "layers/registry.def"

}  // namespace

LayerKind layer_kind_of(const CfgSection& section) {
  if (const auto kind = find_kind(section.name())) return *kind;
  const std::vector<std::string_view> names = section_names();
  const std::string_view near = nearest(section.name(), names);
  std::string known;
  for (const std::string_view name : names) known += " " + std::string(name);
  section.fail("is not a section this engine knows; " +
               (near.empty() ? "known are:" + known : "did you mean [" + std::string(near) + "]?"));
}

void KeyCheck::warn(int line, const std::string& message) {
  if (warnings_.size() < kMostWarnings) {
    warnings_.push_back(std::string(file_) + ":" + std::to_string(line) + ": " + message);
  } else {
    ++suppressed_;
  }
}

void KeyCheck::check(const CfgSection& section, const std::vector<std::string_view>& known) {
  for (const CfgOption& option : section.options()) {
    if (std::find(known.begin(), known.end(), option.key) != known.end()) continue;
    const std::string_view near = nearest(option.key, known);
    section.fail(option.line,
                 "there is no key " + quoted(option.key) + "; " +
                     (near.empty() ? "remove it" : "did you mean " + quoted(near) + "?"));
  }
}

void KeyCheck::net(const CfgSection& section) {
  check(section, {std::begin(kNet), std::end(kNet)});
}

void KeyCheck::layer(const CfgSection& section, LayerKind kind) {
  std::vector<std::string_view> known = keys_of(kind);
  known.insert(known.end(), std::begin(kAnyLayer), std::end(kAnyLayer));
  check(section, known);
  for (const CfgOption& option : section.options()) {
    if (suppressed_ > 0) break;
    const CfgOption* first = section.find(option.key);
    if (first->value != option.value) {
      warn(option.line, quoted(option.key) + " is ignored: line " + std::to_string(first->line) +
                            " has set it already");
    }
  }
}

std::vector<std::string> KeyCheck::take_warnings() {
  if (suppressed_ > 0) {
    warnings_.push_back(std::string(file_) + ": " + std::to_string(suppressed_) +
                        " more keys are set twice");
  }
  return std::move(warnings_);
}

}  // namespace mpe
