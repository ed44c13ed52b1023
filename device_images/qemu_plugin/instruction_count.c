// A QEMU plugin that counts the instructions that a program executes between two marks: system
// calls that do nothing, close() of the file numbers kStart and kEnd, which `mpe bench --mark`
// makes around its last run. For programs of one thread.
//
// Argument: out=FILE, to which the number is written in decimal when the program exits; no file is
// written if there were no marks. What is used of QEMU's plugin header is declared here, as in
// block_profile.c.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef struct {
  const char* target_name;  // what follows is not used
} qemu_info_t;
struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*callback)(qemu_plugin_id_t,
                                                            struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block,
                                          void (*callback)(unsigned int, void*), int flags,
                                          void* data);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id,
                                          void (*callback)(qemu_plugin_id_t, unsigned int, int64_t,
                                                           uint64_t, uint64_t, uint64_t, uint64_t,
                                                           uint64_t, uint64_t, uint64_t, uint64_t));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, void*),
                                    void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);

EXPORT int qemu_plugin_version = PLUGIN_API;

enum { kCloseOnX86 = 3, kCloseOnArm64 = 57, kUsesNoRegisters = 0 };
enum { kStart = 7777777, kEnd = 7777778 };

static int64_t close_number;
static bool counting;
static bool counted;
static uint64_t instructions;
static char output[4096];

static void on_block(unsigned int cpu, void* length) {
  (void)cpu;
  if (counting) instructions += (uintptr_t)length;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, kUsesNoRegisters,
                                       (void*)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void on_system_call(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t a1,
                           uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                           uint64_t a7, uint64_t a8) {
  (void)id, (void)cpu, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != close_number) return;
  if (a1 == kStart) {
    instructions = 0;
    counting = true;
  } else if (a1 == kEnd && counting) {
    counting = false;
    counted = true;
  }
}

static void at_exit(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  if (!counted) return;
  FILE* file = fopen(output, "w");
  if (file == NULL) return;
  fprintf(file, "%llu\n", (unsigned long long)instructions);
  fclose(file);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int count,
                               char** arguments) {
  if (strcmp(info->target_name, "x86_64") == 0) {
    close_number = kCloseOnX86;
  } else if (strcmp(info->target_name, "aarch64") == 0) {
    close_number = kCloseOnArm64;
  } else {
    return -1;
  }
  if (count != 1 || strncmp(arguments[0], "out=", 4) != 0 ||
      strlen(arguments[0] + 4) >= sizeof output) {
    return -1;
  }
  strcpy(output, arguments[0] + 4);
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_vcpu_syscall_cb(id, on_system_call);
  qemu_plugin_register_atexit_cb(id, at_exit, NULL);
  return 0;
}
