// For functions in headers that are compiled for several instruction sets in one program: internal
// linkage and forced inlining, so that the linker can never put the code of one set in the place of
// another's.
#pragma once

#define MPE_INLINE static inline __attribute__((always_inline))
