#include "quant/quantizer.h"

#include "error.h"
#include "io/text.h"
#include "quant/tensorflow_quantizer.h"

namespace mpe {
namespace {

class BuiltinQuantizer : public Quantizer {
 public:
  void prepare(const TensorView&, std::int64_t) override {}

  void quantize(const TensorView& from, std::int8_t* to, ScaleAndZero quantization, int channels,
                std::int64_t plane, const Workers& workers) override {
    quantize_tensor(from, to, quantization, channels, plane, workers);
  }

  const void* dequantize(const TensorView& from, const MutableTensorView& to, int channels,
                         std::int64_t plane, const Workers& workers) override {
    convert_tensor(from, to, channels, plane, workers);
    return to.data;
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_quantizer(std::string_view name, int threads) {
  if (name == "builtin") return std::make_unique<BuiltinQuantizer>();
  if (name == "tensorflow") return make_tensorflow_quantizer(threads);
  throw Error("there is no quantizer " + quoted(name) + "; there are builtin and tensorflow");
}

}  // namespace mpe
