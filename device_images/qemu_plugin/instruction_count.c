// A QEMU plugin that counts the instructions a guest executes between two marks.
//
// The marks are system calls that do nothing: close() of the file numbers 7777777 (start) and
// 7777778 (end), as `mpe bench --mark` makes them. At the end mark the count is written as
// "instructions N" to QEMU's log
// (`-d plugin`). A system call ends a translation block, so the count is exact.
//
// QEMU's plugin header is not packaged by distributions; what is used of it is declared here. The
// build sets PLUGIN_API: 1 up to QEMU 8, 2 from QEMU 9 on. No C library: the plugin is loaded into
// any QEMU.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*callback)(qemu_plugin_id_t,
                                                            struct qemu_plugin_tb*));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
// `flags` says which registers the callback uses: 0 is none.
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block,
                                          void (*callback)(unsigned int, void*), int flags,
                                          void* data);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id,
                                          void (*callback)(qemu_plugin_id_t, unsigned int, int64_t,
                                                           uint64_t, uint64_t, uint64_t, uint64_t,
                                                           uint64_t, uint64_t, uint64_t, uint64_t));
void qemu_plugin_outs(const char* text);

EXPORT int qemu_plugin_version = PLUGIN_API;

enum { kCloseOnArm64 = 57, kStartMark = 7777777, kEndMark = 7777778 };

static uint64_t executed;
static uint64_t executed_at_start;
static bool started;

static void block_executed(unsigned int cpu, void* instructions) {
  (void)cpu;
  __atomic_fetch_add(&executed, (uint64_t)(uintptr_t)instructions, __ATOMIC_RELAXED);
}

static void block_translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, block_executed, 0,
                                       (void*)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void report(uint64_t count) {
  char digits[20];
  size_t length = 0;
  do {
    digits[length++] = (char)('0' + count % 10);
    count /= 10;
  } while (count != 0);
  char line[40] = "instructions ";
  size_t end = 13;
  while (length != 0) line[end++] = digits[--length];
  line[end++] = '\n';
  line[end] = '\0';
  qemu_plugin_outs(line);
}

static void system_called(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t a1,
                          uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                          uint64_t a7, uint64_t a8) {
  (void)id, (void)cpu, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != kCloseOnArm64) return;
  const uint64_t now = __atomic_load_n(&executed, __ATOMIC_RELAXED);
  if (a1 == kStartMark) {
    executed_at_start = now;
    started = true;
  } else if (a1 == kEndMark && started) {
    report(now - executed_at_start);
    started = false;
  }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                               char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
  qemu_plugin_register_vcpu_syscall_cb(id, system_called);
  return 0;
}
