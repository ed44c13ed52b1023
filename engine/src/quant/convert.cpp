#include "quant/convert.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "quant/requantize.h"
#include "threads/thread_pool.h"

namespace mpe {
namespace {

// The quantisation of one channel's plane, ready for use in a loop.
struct Step {
  float scale = 1.0F;
  float inverse = 1.0F;
  std::int32_t zero_point = 0;
};

Step step_of(const Quantization* quantization, int channel) {
  if (quantization == nullptr) return {};
  const ScaleAndZero step = quantization->of(channel);
  return {step.scale, inverse_scale(step.scale), step.zero_point};
}

bool same_step(const Step& a, const Step& b) {
  return a.scale == b.scale && a.zero_point == b.zero_point;
}

struct Float {
  using Stored = float;
  static float load(float value, const Step&) { return value; }
  static float store(float value, const Step&) { return value; }
};

struct Fp16 {
  using Stored = Half;
  static float load(Half value, const Step&) { return half_to_float(value); }
  static Half store(float value, const Step&) { return half_from_float(value); }
};

struct Int8 {
  using Stored = std::int8_t;
  static float load(std::int8_t value, const Step& step) {
    return static_cast<float>(value - step.zero_point) * step.scale;
  }
  static std::int8_t store(float value, const Step& step) {
    return saturate_int8(value * step.inverse, step.zero_point);
  }
};

struct Int16 {
  using Stored = std::int16_t;
  static float load(std::int16_t value, const Step& step) {
    return static_cast<float>(value - step.zero_point) * step.scale;
  }
  static std::int16_t store(float value, const Step& step) {
    return saturate_int16(value * step.inverse, step.zero_point);
  }
};

// A run of values from one storage to another: vector code where there is some.
template <typename From, typename To>
void convert_run(const typename From::Stored* in, const Step& from, typename To::Stored* out,
                 const Step& to, std::int64_t count, const ElementwiseKernels* /*vectors*/) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = To::store(From::load(in[i], from), to);
}

template <>
void convert_run<Float, Int8>(const float* in, const Step& from, std::int8_t* out, const Step& to,
                              std::int64_t count, const ElementwiseKernels* vectors) {
  if (vectors != nullptr) {
    return vectors->quantize(in, out, count, to.inverse, to.zero_point);
  }
  for (std::int64_t i = 0; i < count; ++i) out[i] = Int8::store(Float::load(in[i], from), to);
}

template <>
void convert_run<Int8, Float>(const std::int8_t* in, const Step& from, float* out, const Step& to,
                              std::int64_t count, const ElementwiseKernels* vectors) {
  if (vectors != nullptr) {
    return vectors->dequantize(in, out, count, from.scale, from.zero_point);
  }
  for (std::int64_t i = 0; i < count; ++i) out[i] = Float::store(Int8::load(in[i], from), to);
}

bool per_channel(const Quantization* quantization) {
  return quantization != nullptr && quantization->per_channel();
}

// A tensor cut into runs of values with one quantisation each: its planes, or pieces of a size that
// suits threads where the quantisation is the whole tensor's.
struct Runs {
  int count;
  std::int64_t length;
  std::int64_t total;
};

Runs runs_of(int channels, std::int64_t plane, bool by_channel) {
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t total = channels * plane;
  if (by_channel) return {channels, plane, total};
  return {static_cast<int>((total + kPiece - 1) / kPiece), kPiece, total};
}

// Calls body(thread, channel, offset, length) for every run, shared over the threads.
template <typename Body>
void for_runs(const Runs& runs, const Workers& workers, Body&& body) {
  workers.pool.parallel_for(runs.count, [&](int thread, int begin, int end) {
    for (int run = begin; run < end; ++run) {
      const std::int64_t offset = run * runs.length;
      body(thread, run, offset, std::min(runs.length, runs.total - offset));
    }
  });
}

template <typename From, typename To>
void convert(const TensorView& from, const MutableTensorView& to, const Runs& runs,
             const Workers& workers) {
  const auto* source = static_cast<const typename From::Stored*>(from.data);
  auto* target = static_cast<typename To::Stored*>(to.data);
  for_runs(runs, workers, [&](int, int channel, std::int64_t offset, std::int64_t length) {
    const Step from_step = step_of(from.quantization, channel);
    const Step to_step = step_of(to.quantization, channel);
    convert_run<From, To>(source + offset, from_step, target + offset, to_step, length,
                          workers.vectors);
  });
}

void requantize(const TensorView& from, const MutableTensorView& to, const Runs& runs,
                const Workers& workers) {
  const ElementwiseKernels* vectors = workers.vectors;
  const auto* source = static_cast<const std::int8_t*>(from.data);
  auto* target = static_cast<std::int8_t*>(to.data);
  for_runs(runs, workers, [&](int, int channel, std::int64_t offset, std::int64_t length) {
    const Step a = step_of(from.quantization, channel);
    const Step b = step_of(to.quantization, channel);
    const std::int8_t* in = source + offset;
    std::int8_t* out = target + offset;
    if (same_step(a, b)) {
      std::memcpy(out, in, static_cast<std::size_t>(length));
      return;
    }
    const float ratio = requantize_multiplier(a.scale, 1.0F, b.scale);
    if (vectors != nullptr) {
      return vectors->requantize(in, out, length, a.zero_point, ratio, b.zero_point);
    }
    for (std::int64_t i = 0; i < length; ++i) {
      out[i] = saturate_int8(static_cast<float>(in[i] - a.zero_point) * ratio, b.zero_point);
    }
  });
}

template <typename From>
void convert_from(const TensorView& from, const MutableTensorView& to, const Runs& runs,
                  const Workers& workers) {
  switch (to.precision) {
    case Precision::kFp32:
      return convert<From, Float>(from, to, runs, workers);
    case Precision::kFp16:
      return convert<From, Fp16>(from, to, runs, workers);
    case Precision::kInt8:
      return convert<From, Int8>(from, to, runs, workers);
    case Precision::kInt16:
      return convert<From, Int16>(from, to, runs, workers);
  }
}

// Calls body(accessor, pointer) for the type that the tensor holds.
template <typename Body>
void with_values(const TensorView& tensor, std::int64_t offset, Body&& body) {
  switch (tensor.precision) {
    case Precision::kFp32:
      return body(Float{}, static_cast<const float*>(tensor.data) + offset);
    case Precision::kFp16:
      return body(Fp16{}, static_cast<const Half*>(tensor.data) + offset);
    case Precision::kInt8:
      return body(Int8{}, static_cast<const std::int8_t*>(tensor.data) + offset);
    case Precision::kInt16:
      return body(Int16{}, static_cast<const std::int16_t*>(tensor.data) + offset);
  }
}

template <typename From>
Range range_of(const typename From::Stored* values, std::int64_t count, const Step& step,
               Range range, [[maybe_unused]] const ElementwiseKernels* vectors) {
  float low = range.min;
  float high = range.max;
  if constexpr (std::is_same_v<From, Float>) {
    if (vectors != nullptr) {
      vectors->measure(values, count, low, high);
      return {low, high};
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = From::load(values[i], step);
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  return {low, high};
}

constexpr Range kEmptyRange{3.402823466e38F, -3.402823466e38F};

}  // namespace

void load_values(const TensorView& from, int channel, std::int64_t offset, int count, float* values,
                 const ElementwiseKernels* vectors) {
  const Step step = step_of(from.quantization, channel);
  with_values(from, offset, [&]<typename From>(From, const typename From::Stored* in) {
    convert_run<From, Float>(in, step, values, {}, count, vectors);
  });
}

void store_values(const float* values, const MutableTensorView& to, int channel,
                  std::int64_t offset, int count, const ElementwiseKernels* vectors) {
  const Step step = step_of(to.quantization, channel);
  const auto run = [&]<typename To>(To, typename To::Stored* out) {
    convert_run<Float, To>(values, {}, out, step, count, vectors);
  };
  switch (to.precision) {
    case Precision::kFp32:
      return run(Float{}, static_cast<float*>(to.data) + offset);
    case Precision::kFp16:
      return run(Fp16{}, static_cast<Half*>(to.data) + offset);
    case Precision::kInt8:
      return run(Int8{}, static_cast<std::int8_t*>(to.data) + offset);
    case Precision::kInt16:
      return run(Int16{}, static_cast<std::int16_t*>(to.data) + offset);
  }
}

void convert_tensor(const TensorView& from, const MutableTensorView& to, int channels,
                    std::int64_t plane, const Workers& workers) {
  const Runs runs =
      runs_of(channels, plane, per_channel(from.quantization) || per_channel(to.quantization));
  if (from.precision == to.precision && from.quantization == nullptr) {
    const auto size = static_cast<std::int64_t>(bytes_of(from.precision));
    for_runs(runs, workers, [&](int, int, std::int64_t offset, std::int64_t length) {
      std::memcpy(static_cast<std::byte*>(to.data) + offset * size,
                  static_cast<const std::byte*>(from.data) + offset * size,
                  static_cast<std::size_t>(length * size));
    });
    return;
  }
  switch (from.precision) {
    case Precision::kFp32:
      return convert_from<Float>(from, to, runs, workers);
    case Precision::kFp16:
      return convert_from<Fp16>(from, to, runs, workers);
    case Precision::kInt8:
      if (to.precision == Precision::kInt8) return requantize(from, to, runs, workers);
      return convert_from<Int8>(from, to, runs, workers);
    case Precision::kInt16:
      return convert_from<Int16>(from, to, runs, workers);
  }
}

bool converts_by_vectors(const TensorView& from, const MutableTensorView& to) {
  if (from.precision != Precision::kInt8 || to.precision != Precision::kInt8) {
    return (from.precision == Precision::kInt8 && to.precision == Precision::kFp32) ||
           (from.precision == Precision::kFp32 && to.precision == Precision::kInt8);
  }
  return from.quantization->scale != to.quantization->scale ||
         from.quantization->zero_point != to.quantization->zero_point;
}

Range measure_range(const TensorView& tensor, int channels, std::int64_t plane,
                    const Workers& workers) {
  std::array<Range, kMaxThreads> partial;
  partial.fill(kEmptyRange);
  const Runs runs = runs_of(channels, plane, per_channel(tensor.quantization));
  for_runs(runs, workers, [&](int thread, int channel, std::int64_t offset, std::int64_t length) {
    const Step step = step_of(tensor.quantization, channel);
    Range& range = partial[static_cast<std::size_t>(thread)];
    with_values(tensor, offset, [&]<typename From>(From, const typename From::Stored* values) {
      range = range_of<From>(values, length, step, range, workers.vectors);
    });
  });
  Range total = kEmptyRange;
  for (const Range& range : partial) {
    total.min = range.min < total.min ? range.min : total.min;
    total.max = range.max > total.max ? range.max : total.max;
  }
  return total.min <= total.max ? total : Range{};
}

void quantize_tensor(const TensorView& from, std::int8_t* to, ScaleAndZero quantization,
                     int channels, std::int64_t plane, const Workers& workers) {
  const Step to_step{quantization.scale, inverse_scale(quantization.scale),
                     quantization.zero_point};
  const Runs runs = runs_of(channels, plane, per_channel(from.quantization));
  for_runs(runs, workers, [&](int, int channel, std::int64_t offset, std::int64_t length) {
    const Step from_step = step_of(from.quantization, channel);
    std::int8_t* out = to + offset;
    with_values(from, offset, [&]<typename From>(From, const typename From::Stored* values) {
      convert_run<From, Int8>(values, from_step, out, to_step, length, workers.vectors);
    });
  });
}

}  // namespace mpe
