// How threads share work that has two directions, as the panels of pixels of a product and its
// blocks of output channels.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mpe {

// Calls body(first, last, inner_first, inner_last) for the ranges of one of so many parts of
// count x inner units. Each part has as many whole rows of `inner` units as all can have. The rows
// that are left over are shared by their units: the first ones, as the last row may be a short one
// that belongs with the row before it.
template <typename Body>
void for_share(int count, int inner, int part, int parts, Body&& body) {
  const int whole = count / parts;
  const int left = count - whole * parts;
  const auto first_of = [=](int index) {
    return static_cast<int>(std::int64_t{left} * inner * index / parts);
  };
  const int end = first_of(part + 1);
  for (int begin = first_of(part); begin < end;) {
    const int row = begin / inner;
    const int last = std::min(end, (row + 1) * inner);
    body(row, row + 1, begin - row * inner, last - row * inner);
    begin = last;
  }
  if (whole > 0) body(left + part * whole, left + (part + 1) * whole, 0, inner);
}

}  // namespace mpe
