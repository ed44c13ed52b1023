// Any bytes as an npy file: an array of the size it claims, or one sentence.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "error.h"
#include "io/npy.h"

namespace {

// The shape of one image, as far as the array has one that fits.
mpe::Shape image_of(const mpe::NpyReader& file) {
  constexpr std::int64_t kMost = 1 << 16;
  const std::vector<std::int64_t>& shape = file.shape();
  if (shape.size() != 4) return {1, 1, 1};
  for (const std::int64_t size : shape) {
    if (size > kMost) return {1, 1, 1};
  }
  const auto at = [&shape](std::size_t i) { return static_cast<int>(shape[i]); };
  return file.type() == mpe::NpyType::kUint8 ? mpe::Shape{at(3), at(1), at(2)}
                                             : mpe::Shape{at(1), at(2), at(3)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    mpe::NpyReader file(std::make_unique<std::istringstream>(bytes), "fuzz.npy");
    const mpe::Shape shape = image_of(file);
    if (shape.elements() == 0) return 0;
    mpe::ImageReader images(std::move(file), shape);
    std::vector<float> image(static_cast<std::size_t>(shape.elements()));
    for (std::int64_t i = 0; i < images.images(); ++i) images.next(image);
  } catch (const mpe::Error&) {
  }
  return 0;
}
