#include "model/precision.h"

namespace mpe {

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::kFp16:
      return "fp16";
    case Precision::kInt8:
      return "int8";
    default:
      return "fp32";
  }
}

}  // namespace mpe
