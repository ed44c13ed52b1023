/* Preloaded by a board's programs: their clock is this machine's, moved by the seconds that the
   file named in BOARD_CLOCK holds. Clocks that do not follow the calendar stay as they are. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long moved(void) {
  const char* path = getenv("BOARD_CLOCK");
  FILE* file = path ? fopen(path, "r") : NULL;
  long seconds = 0;
  if (file != NULL) {
    if (fscanf(file, "%ld", &seconds) != 1) {
      seconds = 0;
    }
    fclose(file);
  }
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  int status = (int)syscall(SYS_clock_gettime, clock, now);
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += moved();
  }
  return status;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) {
    *result = now.tv_sec;
  }
  return now.tv_sec;
}

/* "Now" as the kernel would write it into a file. */
static const struct timespec* stamped(const struct timespec times[2], struct timespec now[2]) {
  if (times != NULL) {
    return times;
  }
  clock_gettime(CLOCK_REALTIME, &now[0]);
  now[1] = now[0];
  return now;
}

int utimensat(int folder, const char* path, const struct timespec times[2], int flags) {
  struct timespec now[2];
  return (int)syscall(SYS_utimensat, folder, path, stamped(times, now), flags);
}

int futimens(int file, const struct timespec times[2]) {
  struct timespec now[2];
  return (int)syscall(SYS_utimensat, file, NULL, stamped(times, now), 0);
}
