// An arm64 program without a C library, for counting and for checking which instructions a core
// has.
//   marked N      runs a loop of N rounds between the marks that `mpe bench --mark` makes
//   marked rN     twice reads a byte of every cache line in N KiB, first warming the caches
//   marked wN     the same, writing
//   marked RN     once reads a byte of every cache line in N KiB, without warming the caches
//   marked WN     the same, writing
//   marked lN     like N, in two layers, of N rounds and of 2 N
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

enum { kWarmCaches = 7777776, kStart = 7777777, kEnd = 7777778, kLayerEnded = 7780000 };

static volatile char buffer[8 << 20] __attribute__((aligned(4096)));

static long number(const char* digits) {
  long value = 0;
  for (; *digits != '\0'; ++digits) value = value * 10 + (*digits - '0');
  return value;
}

static void loop(long rounds) {
  __asm__ volatile("1: subs %0, %0, #1\n b.ne 1b" : "+r"(rounds)::"cc");
}

static void walk(long bytes, char write) {
  for (long i = 0; i < bytes; i += 64) {
    if (write) {
      buffer[i] = 1;
    } else {
      (void)buffer[i];
    }
  }
}

__attribute__((used)) static void run(const char* word) {
  const char kind = word[0] | 0x20;  // in lower case
  if (word[0] == 'd') {
    __asm__ volatile(".inst 0x4e829420" ::: "v0");  // sdot v0.4s, v1.16b, v2.16b
  } else if (kind == 'r' || kind == 'w') {
    const long bytes = number(word + 1) << 10;
    if (word[0] == kind) {
      call(kClose, kWarmCaches, 0, 0);
      walk(bytes, kind == 'w');
    }
    call(kClose, kStart, 0, 0);
    walk(bytes, kind == 'w');
    call(kClose, kEnd, 0, 0);
  } else {
    const char layers = word[0] == 'l';
    const long rounds = number(word + layers);
    call(kClose, kStart, 0, 0);
    loop(rounds);
    if (layers) {
      call(kClose, kLayerEnded, 0, 0);
      loop(2 * rounds);
      call(kClose, kLayerEnded + 1, 0, 0);
    }
    call(kClose, kEnd, 0, 0);
  }
  call(kWrite, 1, "done\n", 5);
  call(kExit, 0, 0, 0);
}

// The stack holds the number of words, then their addresses: the second is the program's argument.
__asm__(".global _start\n_start:\n ldr x0, [sp, #16]\n b run\n");
