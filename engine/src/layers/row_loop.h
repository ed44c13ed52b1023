// A loop over the values of a row, for rows that may be short: a compiler's vector loop would work
// on what is left over of a row one by one.
#pragma once

namespace mpe {

// Calls body(from[x], to[x]) for every x, eight at a time where a row has as many. The last eight
// overlap those before them, so that some values are set twice. The rows must not overlap.
template <typename From, typename To, typename Body>
void for_row(const From* __restrict from, To* __restrict to, int count, const Body& body) {
  constexpr int kEight = 8;
  if (count < kEight) {
    for (int x = 0; x < count; ++x) body(from[x], to[x]);
    return;
  }
  const auto eight = [&](int x) {
    for (int i = 0; i < kEight; ++i) body(from[x + i], to[x + i]);
  };
  for (int x = 0; x + kEight <= count; x += kEight) eight(x);
  if (count % kEight != 0) eight(count - kEight);
}

}  // namespace mpe
