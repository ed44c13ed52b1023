// The kernels of neon/, scheduled for in-order cores: the same code, compiled for the Cortex-A53.
#define MPE_NEON_KERNELS kNeonInOrderKernels
#define MPE_NEON_IN_ORDER
#include "kernels/neon/implementation.cpp"
