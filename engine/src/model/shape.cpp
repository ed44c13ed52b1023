#include "model/shape.h"

namespace mpe {

std::string text_of(const Shape& shape) {
  return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

}  // namespace mpe
