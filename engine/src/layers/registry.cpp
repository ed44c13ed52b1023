#include "layers/registry.h"

#include <cstddef>

namespace mpe {
namespace {

struct Entry {
  std::string_view name;
  std::string_view short_name;  // empty: none
  std::vector<std::string_view> keys;
  const LayerType* type;
};

// In the order of LayerKind.
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
#define LAYER(kind, name, short_name, ...) {name, short_name, {__VA_ARGS__}, &k##kind##Layer},
#include "layers/registry.def"
  };
  return all;
}

const Entry& entry_of(LayerKind kind) { return entries()[static_cast<std::size_t>(kind)]; }

}  // namespace

std::string_view name_of(LayerKind kind) { return entry_of(kind).name; }

std::vector<LayerKind> layer_kinds() {
  return {
#define LAYER(kind, ...) LayerKind::k##kind,
#include "layers/registry.def"
  };
}

const LayerType& type_of(LayerKind kind) { return *entry_of(kind).type; }

std::vector<std::string_view> keys_of(LayerKind kind) { return entry_of(kind).keys; }

std::vector<std::string_view> section_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  for (const Entry& entry : entries()) {
    if (!entry.short_name.empty()) names.push_back(entry.short_name);
  }
  return names;
}

std::optional<LayerKind> find_kind(std::string_view section_name) {
  for (std::size_t i = 0; i < entries().size(); ++i) {
    const Entry& entry = entries()[i];
    const bool is_short = !section_name.empty() && section_name == entry.short_name;
    if (section_name == entry.name || is_short) return static_cast<LayerKind>(i);
  }
  return std::nullopt;
}

}  // namespace mpe
