/* Half precision as the target's compiler and core have it: numbers of 16 bits, each result rounded
   to the nearest, ties to even.

   The operands are single: of 1.8 and 0.44 in half precision the difference lies halfway between
   two numbers of that format, and 1.359375 would be printed. They are volatile so that nothing is
   computed by the compiler. */
#include <stdio.h>

int main(void) {
  volatile float a = 1.8F, b = 0.44F;
  __fp16 c = a + b;
  __fp16 d = a - b;
  printf("c: %f, d: %f\n", (double)c, (double)d);
  d = d + (__fp16)b;
  printf("d: %f\n", (double)d);
  return 0;
}
