#include "layers/pair_sum.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "quant/requantize.h"

namespace mpe {
namespace {

// Calls kernel(a, b, to, count, channel) for runs of channels, one by one or all of a thread's.
template <typename T, typename Kernel>
void for_runs(const LayerCall& call, ThreadPool& pool, bool one_by_one, const Kernel& kernel) {
  const std::int64_t plane = call.layer.out.plane();
  const auto* a = static_cast<const T*>(call.inputs[0].tensor.data);
  const auto* b = static_cast<const T*>(call.inputs[1].tensor.data);
  auto* to = static_cast<T*>(call.output.data);
  pool.parallel_for(call.layer.out.channels, [&](int, int begin, int end) {
    while (begin < end) {
      const int next = one_by_one ? begin + 1 : end;
      const std::int64_t first = begin * plane;
      kernel(a + first, b + first, to + first, (next - begin) * plane, begin);
      begin = next;
    }
  });
}

void sum_bytes(const LayerCall& call, const Workers& workers) {
  const std::array steps = {call.inputs[0].tensor.quantization, call.inputs[1].tensor.quantization,
                            call.output.quantization};
  const bool by_channel = std::ranges::any_of(
      steps, [](const Quantization* quantization) { return quantization->per_channel(); });
  for_runs<std::int8_t>(call, workers.pool, by_channel,
                        [&](const std::int8_t* a, const std::int8_t* b, std::int8_t* to,
                            std::int64_t count, int channel) {
                          const ScaleAndZero of_a = steps[0]->of(channel);
                          const ScaleAndZero of_b = steps[1]->of(channel);
                          const ScaleAndZero of_sum = steps[2]->of(channel);
                          Int8Addition addition;
                          addition.scales[0] = of_a.scale;
                          addition.scales[1] = of_b.scale;
                          addition.zero_points[0] = of_a.zero_point;
                          addition.zero_points[1] = of_b.zero_point;
                          addition.inverse = inverse_scale(of_sum.scale);
                          addition.sum_zero_point = of_sum.zero_point;
                          addition.activation = call.layer.activation;
                          workers.vectors->add_bytes(a, b, to, count, addition);
                        });
}

template <typename T, typename Kernel>
void sum_floats(const LayerCall& call, const Workers& workers, Kernel kernel) {
  for_runs<T>(call, workers.pool, false,
              [&](const T* a, const T* b, T* to, std::int64_t count, int) {
                kernel(a, b, to, count, call.layer.activation);
              });
}

}  // namespace

bool sums_pair(const LayerCall& call) {
  const Precision precision = call.output.precision;
  const bool alike =
      call.inputs.size() == 2 && std::ranges::all_of(call.inputs, [&](const LayerInput& input) {
        return input.shape == call.layer.out && input.tensor.precision == precision;
      });
  if (precision == Precision::kInt8) return alike && is_simple(call.layer.activation);
  return alike && (precision == Precision::kFp32 || precision == Precision::kFp16);
}

void sum_pair(const LayerCall& call, const Workers& workers) {
  if (call.output.precision == Precision::kInt8) return sum_bytes(call, workers);
  if (call.output.precision == Precision::kFp16) {
    return sum_floats<std::uint16_t>(call, workers, workers.vectors->add_halves);
  }
  sum_floats<float>(call, workers, workers.vectors->add_floats);
}

}  // namespace mpe
