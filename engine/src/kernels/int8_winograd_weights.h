// The transform of the weights of int8's Winograd convolution (generic/int8_winograd.h): G w, with
// the rows of G scaled so that they are whole, as far as 16 bits allow: so the output's transform
// multiplies less. In both directions no value is above 144 times a weight of 127.
//
// Written once over a type `V` that is a number where weights are prepared and a vector in the
// kernels, with +, -, times<n>(a) and add_multiple<n>(sum, a); internal linkage, as in
// kernels/activation.h.
#pragma once

namespace mpe {
namespace {

template <typename V>
inline __attribute__((always_inline)) void transform_int8_weights(const V (&w)[3], V (&t)[6]) {
  const V outer = w[0] + w[2];
  const V far = add_multiple<4>(w[0], w[2]);
  t[0] = times<6>(w[0]);
  t[1] = times<-4>(outer + w[1]);
  t[2] = times<-4>(outer - w[1]);
  t[3] = add_multiple<2>(far, w[1]);
  t[4] = add_multiple<-2>(far, w[1]);
  t[5] = times<3>(w[2]);
}

}  // namespace
}  // namespace mpe
