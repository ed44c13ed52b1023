// Small helpers for the text of messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mpe {

// The text in single quotes, unprintable bytes as \xNN and long texts cut, fit for one line.
std::string quoted(std::string_view text);

// The candidate that takes the fewest single-letter edits to reach from `word`, whatever their
// case, or an empty view if none is near enough to be meant. harness suggests keys of a cfg by the
// same rule (harness/config/cfg_keys.py).
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace mpe
