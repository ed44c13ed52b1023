// The direct convolution of neon/: the same code, compiled for the Cortex-A53.
#define MPE_NEON_DIRECT direct_neon_in_order
#include "kernels/neon/direct.cpp"
