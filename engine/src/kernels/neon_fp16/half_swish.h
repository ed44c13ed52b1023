// x / (1 + e^-x) of halves in half arithmetic: twice as many lanes as in float, and no conversions,
// for which a Cortex-A76 takes the time of four additions.
#pragma once

#include <arm_neon.h>

#include "kernels/generic/unroll.h"

namespace mpe {
namespace {

// With u = |x| and e = e^-u this is max(x, 0) - u e / (1 + e): nothing overflows, and the
// difference is at most 0.28. Off by at most 3.5 * 2^-11 of the result down to x = -10, by 1e-6
// below; by a third of that in the mean. NaN stays.
//
// e = 2^-n e^-r with |r| <= ln 2 / 2. It is multiplied by -2^10: so 2^(10 - n) is a normal half up
// to the limit of u, beyond which the difference is next to nothing. Several vectors side by side,
// so that none waits for its own results.
template <int kCount>
inline __attribute__((always_inline)) void swish_halves(float16x8_t (&x)[kCount]) {
  const auto all = [](float value) { return vdupq_n_f16(static_cast<float16_t>(value)); };
  constexpr float kLn2 = 0.69336F;  // a half, and what it lacks
  constexpr float kLn2Rest = -2.1219444e-4F;
  // Adding 1.5 * 2^10 rounds to an integer in the lowest bits; 32 + 25 is there the sign and the
  // exponent of -2^10.
  const float16x8_t magic = all(1536.0F + 32.0F + 25.0F);
  const float16x8_t scale = all(1024.0F);
  const auto each = [](auto&& function) MPE_UNROLLED {
    unroll<kCount>([&](auto i) MPE_UNROLLED { function(i.value); });
  };
  float16x8_t u[kCount];
  float16x8_t e[kCount];
  float16x8_t r[kCount];
  float16x8_t curve[kCount];
  each([&](int i) MPE_UNROLLED { u[i] = vminq_f16(vabsq_f16(x[i]), all(16.875F)); });
  each([&](int i) MPE_UNROLLED { r[i] = vsubq_f16(magic, vmulq_f16(u[i], all(1.44269504F))); });
  each([&](int i) MPE_UNROLLED {
    e[i] = vreinterpretq_f16_u16(vshlq_n_u16(vreinterpretq_u16_f16(r[i]), 10));
  });
  each([&](int i) MPE_UNROLLED {
    const float16x8_t n = vsubq_f16(magic, r[i]);
    r[i] = vfmsq_f16(vfmsq_f16(u[i], n, all(kLn2)), n, all(kLn2Rest));
  });
  // (e^-r - 1) / r, minimax.
  each([&](int i) MPE_UNROLLED { curve[i] = vfmaq_f16(all(0.50364502F), r[i], all(-0.1638779F)); });
  each([&](int i) MPE_UNROLLED { curve[i] = vfmaq_f16(all(-1.00025969F), r[i], curve[i]); });
  each([&](int i) MPE_UNROLLED { e[i] = vfmaq_f16(e[i], e[i], vmulq_f16(r[i], curve[i])); });
  // An estimate of 1 / (1 + e) to eight bits, and a step of Newton's.
  each([&](int i) MPE_UNROLLED { u[i] = vmulq_f16(u[i], e[i]); });
  each([&](int i) MPE_UNROLLED { e[i] = vsubq_f16(scale, e[i]); });
  each([&](int i) MPE_UNROLLED {
    const float16x8_t estimate = vrecpeq_f16(e[i]);
    const float16x8_t reciprocal = vmulq_f16(estimate, vrecpsq_f16(e[i], estimate));
    x[i] = vfmaq_f16(vmaxq_f16(x[i], all(0.0F)), u[i], reciprocal);
  });
}

}  // namespace
}  // namespace mpe
