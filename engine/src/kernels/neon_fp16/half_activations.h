// SiLU and the logistic function of halves in half arithmetic: twice as many lanes as in float, and
// no conversions, for which a Cortex-A76 takes the time of four additions.
#pragma once

#include <arm_neon.h>

#include "kernels/generic/unroll.h"
#include "model/activation.h"

namespace mpe {
namespace {

// With u = |x| and e = e^-u, SiLU is max(x, 0) - u e / (1 + e), and the logistic function
// e / (1 + e) for x < 0 and 1 - e / (1 + e) else: nothing overflows, and what is subtracted is at
// most 0.28 and 0.5. Off by at most 3.5 * 2^-11 of the result down to x = -10, by 1e-6 below; by a
// third of that in the mean. NaN stays.
//
// e = 2^-n e^-r with |r| <= ln 2 / 2. It is multiplied by -2^10: so 2^(10 - n) is a normal half up
// to the limit of u, beyond which the difference is next to nothing.
struct HalfConstants {
  // Adding 1.5 * 2^10 rounds to an integer in the lowest bits; 32 + 25 is there the sign and the
  // exponent of -2^10.
  float16x8_t magic = all(1536.0F + 32.0F + 25.0F);
  float16x8_t limit = all(16.875F);
  float16x8_t scale = all(1024.0F);
  float16x8_t curve = all(0.50364502F);
  float16x8_t minus_one = all(-1.00025969F);
  // 1 / ln 2, ln 2 as a half and what that lacks, the curve's last term: lanes, as what multiplies
  // can be one.
  float16x8_t factors = {half(1.44269504F), half(0.69336F), half(-2.1219444e-4F),
                         half(-0.1638779F)};

  // In registers: compilers would make some of them again for every few values.
  HalfConstants() {
    asm("" : "+w"(magic), "+w"(limit), "+w"(scale), "+w"(curve), "+w"(minus_one), "+w"(factors));
  }

  static float16_t half(float value) { return static_cast<float16_t>(value); }
  static float16x8_t all(float value) { return vdupq_n_f16(half(value)); }
};

// Several vectors side by side, so that none waits for its own results.
template <Activation kActivation, int kCount>
inline __attribute__((always_inline)) void activate_halves(const HalfConstants& constants,
                                                           float16x8_t (&x)[kCount]) {
  static_assert(kActivation == Activation::kSwish || kActivation == Activation::kLogistic);
  constexpr bool kSwish = kActivation == Activation::kSwish;
  const auto each = [](auto&& function) MPE_UNROLLED {
    unroll<kCount>([&](auto i) MPE_UNROLLED { function(i.value); });
  };
  const float16x8_t factors = constants.factors;
  float16x8_t u[kCount];
  float16x8_t e[kCount];
  float16x8_t r[kCount];
  float16x8_t curve[kCount];
  each([&](int i) MPE_UNROLLED { u[i] = vminq_f16(vabsq_f16(x[i]), constants.limit); });
  each([&](int i)
           MPE_UNROLLED { r[i] = vsubq_f16(constants.magic, vmulq_laneq_f16(u[i], factors, 0)); });
  each([&](int i) MPE_UNROLLED {
    e[i] = vreinterpretq_f16_u16(vshlq_n_u16(vreinterpretq_u16_f16(r[i]), 10));
  });
  each([&](int i) MPE_UNROLLED {
    const float16x8_t n = vsubq_f16(constants.magic, r[i]);
    r[i] = vfmsq_laneq_f16(vfmsq_laneq_f16(u[i], n, factors, 1), n, factors, 2);
  });
  // (e^-r - 1) / r, minimax.
  each([&](int i) MPE_UNROLLED { curve[i] = vfmaq_laneq_f16(constants.curve, r[i], factors, 3); });
  each([&](int i) MPE_UNROLLED { curve[i] = vfmaq_f16(constants.minus_one, r[i], curve[i]); });
  each([&](int i) MPE_UNROLLED { e[i] = vfmaq_f16(e[i], e[i], vmulq_f16(r[i], curve[i])); });
  if constexpr (kSwish) each([&](int i) MPE_UNROLLED { u[i] = vmulq_f16(u[i], e[i]); });
  each([&](int i) MPE_UNROLLED {
    // An estimate of 1 / (1 + e) to eight bits, and a step of Newton's.
    const float16x8_t sum = vsubq_f16(constants.scale, e[i]);
    const float16x8_t estimate = vrecpeq_f16(sum);
    const float16x8_t reciprocal = vmulq_f16(estimate, vrecpsq_f16(sum, estimate));
    if constexpr (kSwish) {
      const float16x8_t positive = vmaxq_f16(x[i], HalfConstants::all(0.0F));
      x[i] = vfmaq_f16(positive, u[i], reciprocal);
    } else {
      const float16x8_t less = vmulq_f16(e[i], reciprocal);
      const float16x8_t more = vaddq_f16(HalfConstants::all(1.0F), less);
      x[i] = vbslq_f16(vcltzq_f16(x[i]), vnegq_f16(less), more);
    }
  });
}

}  // namespace
}  // namespace mpe
