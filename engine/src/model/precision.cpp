#include "model/precision.h"

namespace mpe {

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::kFp16:
      return "fp16";
    case Precision::kInt8:
      return "int8";
    case Precision::kInt16:
      return "int16";
    default:
      return "fp32";
  }
}

}  // namespace mpe
