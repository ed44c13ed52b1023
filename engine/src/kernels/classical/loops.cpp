// Compiled without vectorisation, unrolling and interchange of loops by the compiler, so that each
// technique's loops do what its name says and no more.
#include "kernels/classical/loops.h"

#include "half.h"
#include "kernels/activation.h"
#include "kernels/generic/direct.h"
#include "quant/requantize.h"

namespace mpe {
namespace {

void write_output(const OutputStage& stage, int channel, float sum, void* output, int index) {
  const float value = activate(stage.activation, sum + stage.bias[channel]);
  if (stage.kind == OutputKind::kHalf) {
    static_cast<Half*>(output)[index] = half_from_float(value);
  } else {
    static_cast<float*>(output)[index] = value;
  }
}

// By the rules of quant/requantize.h.
void write_output(const OutputStage& stage, int channel, std::int32_t sum, void* output,
                  int index) {
  const float scaled = static_cast<float>(sum + stage.offset[channel]) * stage.multiplier[channel];
  if (stage.kind != OutputKind::kInt8) {
    static_cast<float*>(output)[index] = activate(stage.activation, scaled);
    return;
  }
  const float six = stage.activation == Activation::kRelu6 ? stage.six[channel] : 0.0F;
  const float steps = is_foldable(stage.activation)
                          ? activate_folded(stage.activation, scaled, six)
                          : activate_by_lines(stage.lines, scaled) * stage.inverse_scale[channel];
  static_cast<std::int8_t*>(output)[index] = saturate_int8(steps, stage.zero_point[channel]);
}

template <typename SumType>
void write_row(const OutputStage& stage, int channel, const SumType* sums, int count,
               void* output) {
  for (int i = 0; i < count; ++i) write_output(stage, channel, sums[i], output, i);
}

// A block of four channels and four columns: as many sums as the smallest set has registers.
template <typename Arithmetic>
struct Block : Arithmetic {
  using Scalar = Arithmetic;
  static constexpr int kRows = 4;
  static constexpr int kSteps = 4;
  static void write(const OutputStage& stage, int channel, const typename Arithmetic::Sum* sums,
                    int count, void* output) {
    write_row(stage, channel, sums, count, output);
  }
};

// fp16 is storage.
struct DirectHalf : DirectFloat {
  using Stored = Half;
  static float load(const Half* from, int /*stride*/, int /*zero_point*/) {
    return half_to_float(*from);
  }
  static float broadcast(Half weight) { return half_to_float(weight); }
};

struct DirectInt8 {
  using Stored = std::int8_t;
  using Sum = std::int32_t;
  using Values = std::int32_t;
  static constexpr int kLanes = 1;

  static std::int32_t load(const std::int8_t* from, int /*stride*/, int zero_point) {
    return *from - zero_point;
  }
  static std::int32_t broadcast(std::int8_t weight) { return weight; }
  static std::int32_t multiply_add(std::int32_t sum, std::int32_t weight, std::int32_t value) {
    return sum + weight * value;
  }
  static std::int32_t load_sums(const std::int32_t* from) { return *from; }
  static void store_sums(std::int32_t* to, std::int32_t sum, int /*count*/) { *to = sum; }
};

// The definition of a convolution, term by term.
template <typename A>
void run_plain(const DirectWork& work) {
  using Stored = typename A::Stored;
  const ConvolutionGeometry g = *work.geometry;
  const OutputStage& stage = *work.stage;
  const auto* input = static_cast<const Stored*>(work.input);
  const auto* weights = static_cast<const Stored*>(work.weights);
  const int zero_point = work.zero_point;
  const int pixels = g.pixels();
  for (int channel = work.channel_begin; channel < work.channel_end; ++channel) {
    auto* output = static_cast<std::byte*>(work.output) +
                   static_cast<std::int64_t>(channel) * pixels * stored_bytes(stage.kind);
    const Stored* filter = weights + static_cast<std::int64_t>(channel) * g.channels * g.taps();
    for (int row = work.row_begin; row < work.row_end; ++row) {
      for (int column = 0; column < g.out_width; ++column) {
        typename A::Sum sum{};
        for (int c = 0; c < g.channels; ++c) {
          for (int ky = 0; ky < g.kernel_y; ++ky) {
            for (int kx = 0; kx < g.kernel_x; ++kx) {
              const int y = row * g.stride_y + ky * g.dilation_y - g.padding_y;
              const int x = column * g.stride_x + kx * g.dilation_x - g.padding_x;
              if (y < 0 || y >= g.in_height || x < 0 || x >= g.in_width) continue;
              const Stored value =
                  input[(static_cast<std::int64_t>(c) * g.in_height + y) * g.in_width + x];
              const Stored weight = filter[(c * g.kernel_y + ky) * g.kernel_x + kx];
              sum = A::multiply_add(sum, A::broadcast(weight), A::load(&value, 1, zero_point));
            }
          }
        }
        write_output(stage, work.first_channel + channel, sum, output, row * g.out_width + column);
      }
    }
  }
}

// One weight times a row of inputs, added to a row of sums.
template <typename A>
void run_rows(const DirectWork& work) {
  using Stored = typename A::Stored;
  using Sum = typename A::Sum;
  const ConvolutionGeometry& g = *work.geometry;
  const int rows = work.row_end - work.row_begin;
  const int channels = work.channel_end - work.channel_begin;
  auto* const tile = reinterpret_cast<Sum*>(work.sums);
  const std::int64_t count = static_cast<std::int64_t>(channels) * rows * work.sum_stride;
  for (std::int64_t i = 0; i < count; ++i) tile[i] = Sum{};

  for (int first = 0; first < g.channels; first += work.depth_step) {
    const int last = first + work.depth_step < g.channels ? first + work.depth_step : g.channels;
    for (int channel = 0; channel < channels; ++channel) {
      const Stored* weights =
          static_cast<const Stored*>(work.weights) +
          static_cast<std::int64_t>(work.channel_begin + channel) * g.channels * g.taps();
      for (int row = 0; row < rows; ++row) {
        Sum* sums = tile + (static_cast<std::int64_t>(channel) * rows + row) * work.sum_stride;
        const int y = (work.row_begin + row) * g.stride_y - g.padding_y;
        const TapRange taps = row_taps(g, work.row_begin + row);
        for (int c = first; c < last; ++c) {
          for (int ky = taps.begin; ky < taps.end; ++ky) {
            const Stored* line =
                static_cast<const Stored*>(work.input) +
                (static_cast<std::int64_t>(c) * g.in_height + y + ky * g.dilation_y) * g.in_width;
            for (int kx = 0; kx < g.kernel_x; ++kx) {
              const auto weight = A::broadcast(weights[(c * g.kernel_y + ky) * g.kernel_x + kx]);
              const int offset = kx * g.dilation_x - g.padding_x;
              const ColumnRange inside = g.inside[kx];
              for (int x = inside.begin; x < inside.end; ++x) {
                const auto value = A::load(line + (x * g.stride_x + offset), 1, work.zero_point);
                sums[x] = A::multiply_add(sums[x], weight, value);
              }
            }
          }
        }
      }
    }
  }

  const int size = stored_bytes(work.stage->kind);
  for (int channel = 0; channel < channels; ++channel) {
    for (int row = 0; row < rows; ++row) {
      const int index = work.channel_begin + channel;
      const std::int64_t start =
          (static_cast<std::int64_t>(index) * g.out_height + work.row_begin + row) * g.out_width;
      write_row(*work.stage, work.first_channel + index,
                tile + (static_cast<std::int64_t>(channel) * rows + row) * work.sum_stride,
                g.out_width, static_cast<std::byte*>(work.output) + start * size);
    }
  }
}

template <typename Arithmetic>
DirectKernel loops_of(Technique technique) {
  switch (technique) {
    case Technique::kPlain:
      return run_plain<Arithmetic>;
    case Technique::kReordered:
    case Technique::kTiled:
      return run_rows<Arithmetic>;
    default:
      return Direct<Block<Arithmetic>>::run;
  }
}

}  // namespace

DirectKernel classical_loops(Technique technique, Precision precision) {
  switch (precision) {
    case Precision::kFp16:
      return loops_of<DirectHalf>(technique);
    case Precision::kInt8:
      return loops_of<DirectInt8>(technique);
    default:
      return loops_of<DirectFloat>(technique);
  }
}

}  // namespace mpe
