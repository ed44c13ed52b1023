// An arm64 program without a C library, for counting and for checking which instructions a core
// has.
//   marked N      runs a loop of N rounds between the marks that `mpe bench --mark` makes
//   marked dot    executes a dot product, which the Cortex-A72 does not have

static long call(long number, long a, const void* b, long c) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register const void* x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}

enum { kClose = 57, kWrite = 64, kExit = 93 };

__attribute__((used)) static void run(const char* word) {
  if (word[0] == 'd') {
    __asm__ volatile(".inst 0x4e829420" ::: "v0");  // sdot v0.4s, v1.16b, v2.16b
  } else {
    long rounds = 0;
    for (; *word != '\0'; ++word) rounds = rounds * 10 + (*word - '0');
    call(kClose, 7777777, 0, 0);
    __asm__ volatile("1: subs %0, %0, #1\n b.ne 1b" : "+r"(rounds)::"cc");
    call(kClose, 7777778, 0, 0);
  }
  call(kWrite, 1, "done\n", 5);
  call(kExit, 0, 0, 0);
}

// The stack holds the number of words, then their addresses: the second is the program's argument.
__asm__(".global _start\n_start:\n ldr x0, [sp, #16]\n b run\n");
