// A QEMU plugin that profiles what a program executes between two marks, for the prediction of a
// board's time: how often each block of instructions ran, and where its memory accesses missed in
// the board's data caches.
//
// The marks are system calls that do nothing: close() of file numbers that are never open.
// kWarmCaches lets the caches fill, kStart begins the profile, kEnd ends it; `mpe bench --mark`
// makes them, and with --profile those from kFirstOfSegments on, which divide the profile into
// segments of layers and of threads' parts. Only the thread that makes them is profiled.
//
// Without kWarmCaches the caches are empty at kStart, but the profile is that of a second run with
// the same accesses: at kEnd, the misses of the first cache are replayed on the caches as the run
// has left them. This takes half of the time of a run for warm caches. Runs of more than
// kMostEvents misses are not replayed: what the caches hold at their beginning is nothing to them.
//
// The caches are physically what the data says and no more: inclusive
// of nothing, least recently used, written back, allocated on writes; lines have 64 bytes.
//
// Arguments: out=FILE, and for every level of data cache, from the first on, cache=KIB/WAYS.
// The file, little-endian: the eight bytes of kMagic, then records of { u32 kind, u32 count, ... }:
//   kBlock:   u64 address, count x u32 instruction. Blocks are numbered in their order.
//   kSegment: u64 mark that ended it, u64 lines written back to memory,
//             count x { u64 runs, u32 block,
//                       3 x u32 misses of a level, 3 x u32 misses that continue a stream }
//             Where a count does not fit, all bits are set. Several threads' parallel loops end
//             thousands of segments, each with rows of the same blocks: hence 32 bits.
//   kFinish:  nothing; a file without it is not whole.
//
// QEMU's plugin header is not packaged by distributions; what is used of it is declared here. The
// build sets PLUGIN_API (1 up to QEMU 8, 2 from QEMU 9 on) and INSTRUCTION_COPIED (from QEMU 9.1
// on an instruction's bytes are copied out instead of pointed to).

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

// `flags` of a callback says which registers it uses: 0 is none. `kind` of accesses: 3 is all.
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*callback)(qemu_plugin_id_t,
                                                            struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block,
                                          void (*callback)(unsigned int, void*), int flags,
                                          void* data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn* instruction,
                                      void (*callback)(unsigned int, qemu_plugin_meminfo_t,
                                                       uint64_t, void*),
                                      int flags, int kind, void* data);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id,
                                          void (*callback)(qemu_plugin_id_t, unsigned int, int64_t,
                                                           uint64_t, uint64_t, uint64_t, uint64_t,
                                                           uint64_t, uint64_t, uint64_t, uint64_t));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* block);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block, size_t index);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
void qemu_plugin_outs(const char* text);
#if INSTRUCTION_COPIED
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn* instruction, void* to, size_t size);
#else
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn* instruction);
#endif

EXPORT int qemu_plugin_version = PLUGIN_API;

enum { kCloseOnArm64 = 57, kLineShift = 6, kMaxLevels = 3, kStreams = 16 };
enum { kAllAccesses = 3, kUsesNoRegisters = 0 };
enum { kWarmCaches = 7777776, kStart = 7777777, kEnd = 7777778 };
enum { kFirstOfSegments = 7780000, kLastOfSegments = 7790256 };
enum { kBlock = 1, kSegment = 2, kFinish = 3 };
enum { kMostEvents = 8 << 20 };
static const char kMagic[] = "MPEBLK02";

// ---------------------------------------------------------------- what is counted

typedef struct {
  uint64_t runs;
  uint64_t misses[kMaxLevels];    // to a line that nothing foretold
  uint64_t streamed[kMaxLevels];  // to one that follows a recent miss: a prefetcher had it
} Counts;

typedef struct Block {
  Counts counts;
  struct Block* next_run;  // of those that ran since the last mark
  Counts* replayed;        // where a replay counts
  uint64_t address;
  int64_t number;  // in the file; -1: not there yet
  uint32_t length;
  uint32_t instructions[];
} Block;

// What ran between two marks.
typedef struct Segment {
  struct Segment* next;
  uint64_t mark;
  uint64_t written_back;
  size_t events_end;  // of `events`
  uint32_t count;
  struct {
    Block* block;
    Counts counts;
  } rows[];
} Segment;

static Segment* segments;
static Segment** last_segment = &segments;
static Block* ran;
static enum { kOff, kWarming, kCounting } state = kOff;
static unsigned int profiled_cpu;
static uint64_t written_back;

// ---------------------------------------------------------------- caches

typedef struct {
  uint32_t ways;
  uint64_t set_mask;
  uint64_t* lines;  // [set][way], the most recently used first: line number * 2 + dirty; ~0: empty
  uint64_t streams[kStreams];  // the last line of each recent stream of misses
  unsigned int oldest_stream;
  uint32_t* filled;  // [set]: lines that a replay has brought, at most `ways`
} Cache;

static Cache caches[kMaxLevels];
static int levels;

static const uint64_t kNoLine = ~UINT64_C(0);

static void empty(Cache* cache) {
  memset(cache->lines, 0xff, (size_t)(cache->set_mask + 1) * cache->ways * sizeof *cache->lines);
}

// Makes a line the most recently used of its set. Returns whether it was there; if it was not, and
// a dirty one had to make room, `*evicted` is that one's number.
static bool touch(Cache* cache, uint64_t line, bool dirty, uint64_t* evicted) {
  uint64_t* set = cache->lines + (line & cache->set_mask) * cache->ways;
  const uint32_t last = cache->ways - 1;
  uint32_t way = 0;
  while (way < last && set[way] >> 1 != line) way++;
  const uint64_t found = set[way];
  const bool hit = found >> 1 == line;
  memmove(set + 1, set, way * sizeof *set);
  *evicted = !hit && found != kNoLine && (found & 1) != 0 ? found >> 1 : kNoLine;
  set[0] = line << 1 | (uint64_t)dirty | (hit ? found & 1 : 0);
  return hit;
}

static bool continues_stream(Cache* cache, uint64_t line) {
  for (int i = 0; i < kStreams; i++) {
    const uint64_t step = line - cache->streams[i];
    if (step == 1 || step == 2) {
      cache->streams[i] = line;
      return true;
    }
  }
  cache->streams[cache->oldest_stream++ % kStreams] = line;
  return false;
}

static void count_miss(Counts* counts, int level, uint64_t line) {
  if (continues_stream(&caches[level], line)) {
    counts->streamed[level]++;
  } else {
    counts->misses[level]++;
  }
}

// A dirty line leaves the level above `level`.
static void write_back(int level, uint64_t line) {
  for (; level < levels; level++) {
    uint64_t evicted;
    touch(&caches[level], line, true, &evicted);
    if (evicted == kNoLine) return;
    line = evicted;
  }
  written_back++;
}

// ---------------------------------------------------------------- misses that are replayed

// A miss of the first cache.
typedef struct {
  Block* block;
  uint64_t line;     // * 2 + whether it was a store
  uint64_t evicted;  // a dirty line that left the cache, or kNoLine
} Event;

static bool recording;
static Event* events;
static size_t event_count;
static size_t event_room;

static void record(Block* block, uint64_t line, bool store, uint64_t evicted) {
  if (!recording) return;
  if (event_count == event_room) {
    event_room = event_room == 0 ? 1 << 16 : 2 * event_room;
    Event* more = event_room > kMostEvents ? NULL : realloc(events, event_room * sizeof *events);
    recording = more != NULL;
    if (!recording) return;
    events = more;
  }
  events[event_count++] = (Event){block, line << 1 | (uint64_t)store, evicted};
}

// A line comes to the first cache, from which `evicted` has to leave.
static void missed(Counts* counts, uint64_t line, uint64_t evicted) {
  count_miss(counts, 0, line);
  if (evicted != kNoLine) write_back(1, evicted);
  for (int level = 1; level < levels; level++) {
    if (touch(&caches[level], line, false, &evicted)) return;
    count_miss(counts, level, line);
    if (evicted != kNoLine) write_back(level + 1, evicted);
  }
}

static void access_line(Block* block, uint64_t line, bool store) {
  // Most accesses are to the line that was used last.
  uint64_t* first = caches[0].lines + (line & caches[0].set_mask) * caches[0].ways;
  if (*first >> 1 == line) {
    *first |= (uint64_t)store;
    return;
  }
  uint64_t evicted;
  if (touch(&caches[0], line, store, &evicted)) return;
  record(block, line, store, evicted);
  missed(&block->counts, line, evicted);
}

static void memory_accessed(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address,
                            void* data) {
  if (state == kOff || cpu != profiled_cpu) return;
  Block* block = data;
  const bool store = qemu_plugin_mem_is_store(info);
  const uint64_t size = UINT64_C(1) << qemu_plugin_mem_size_shift(info);
  const uint64_t first = address >> kLineShift;
  const uint64_t last = (address + size - 1) >> kLineShift;
  access_line(block, first, store);
  if (last != first) access_line(block, last, store);
}

static void block_executed(unsigned int cpu, void* data) {
  if (state == kOff || cpu != profiled_cpu) return;
  Block* block = data;
  if (block->counts.runs++ == 0) {
    block->next_run = ran;
    ran = block;
  }
}

static void block_translated(qemu_plugin_id_t id, struct qemu_plugin_tb* translated) {
  (void)id;
  const size_t length = qemu_plugin_tb_n_insns(translated);
  Block* block = calloc(1, sizeof(Block) + length * sizeof(uint32_t));
  if (block == NULL) abort();
  block->address = qemu_plugin_tb_vaddr(translated);
  block->number = -1;
  block->length = (uint32_t)length;
  qemu_plugin_register_vcpu_tb_exec_cb(translated, block_executed, kUsesNoRegisters, block);
  for (size_t i = 0; i < length; i++) {
    struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(translated, i);
#if INSTRUCTION_COPIED
    qemu_plugin_insn_data(instruction, &block->instructions[i], sizeof(uint32_t));
#else
    memcpy(&block->instructions[i], qemu_plugin_insn_data(instruction), sizeof(uint32_t));
#endif
    if (levels != 0) {
      qemu_plugin_register_vcpu_mem_cb(instruction, memory_accessed, kUsesNoRegisters, kAllAccesses,
                                       block);
    }
  }
}

// ---------------------------------------------------------------- the file

static const char* path;
static FILE* file;
static int64_t blocks_written;

static void write_record(uint32_t kind, uint32_t count) {
  const uint32_t head[2] = {kind, count};
  fwrite(head, sizeof head, 1, file);
}

static void forget_counts(void) {
  while (ran != NULL) {
    Block* block = ran;
    ran = block->next_run;
    memset(&block->counts, 0, sizeof block->counts);
  }
  written_back = 0;
}

static void end_segment(uint64_t mark) {
  uint32_t count = 0;
  for (Block* block = ran; block != NULL; block = block->next_run) count++;
  Segment* segment = malloc(sizeof *segment + count * sizeof segment->rows[0]);
  if (segment == NULL) abort();
  segment->next = NULL;
  segment->mark = mark;
  segment->written_back = written_back;
  segment->events_end = event_count;
  segment->count = count;
  uint32_t row = 0;
  for (Block* block = ran; block != NULL; block = block->next_run, row++) {
    segment->rows[row].block = block;
    segment->rows[row].counts = block->counts;
  }
  *last_segment = segment;
  last_segment = &segment->next;
  forget_counts();
}

// The first cache holds what the run has left there. Until as many lines have come to a set as it
// has ways, they may be there already; from then on the set is as it was in the run.
static void replay_event(const Event* event) {
  Cache* first = &caches[0];
  const uint64_t line = event->line >> 1;
  uint64_t evicted = event->evicted;
  uint32_t* filled = &first->filled[line & first->set_mask];
  if (*filled < first->ways) {
    ++*filled;
    if (touch(first, line, (event->line & 1) != 0, &evicted)) return;
  }
  missed(event->block->replayed, line, evicted);
}

static void replay(void) {
  const size_t sets = (size_t)caches[0].set_mask + 1;
  caches[0].filled = calloc(sets, sizeof *caches[0].filled);
  if (caches[0].filled == NULL) abort();
  size_t place = 0;
  for (Segment* segment = segments; segment != NULL; segment = segment->next) {
    for (uint32_t i = 0; i < segment->count; i++) {
      Counts* counts = &segment->rows[i].counts;
      memset(counts->misses, 0, sizeof counts->misses);
      memset(counts->streamed, 0, sizeof counts->streamed);
      segment->rows[i].block->replayed = counts;
    }
    written_back = 0;
    for (; place < segment->events_end; place++) replay_event(&events[place]);
    segment->written_back = written_back;
  }
  free(caches[0].filled);
}

static void forget_segments(void) {
  while (segments != NULL) {
    Segment* segment = segments;
    segments = segment->next;
    free(segment);
  }
  last_segment = &segments;
  free(events);
  events = NULL;
  event_count = event_room = 0;
}

static void write_counts(const uint64_t* counts) {
  for (int level = 0; level < kMaxLevels; level++) {
    const uint32_t count = counts[level] < UINT32_MAX ? (uint32_t)counts[level] : UINT32_MAX;
    fwrite(&count, sizeof count, 1, file);
  }
}

static void write_segment(const Segment* segment) {
  for (uint32_t i = 0; i < segment->count; i++) {
    Block* block = segment->rows[i].block;
    if (block->number >= 0) continue;
    block->number = blocks_written++;
    write_record(kBlock, block->length);
    fwrite(&block->address, sizeof block->address, 1, file);
    fwrite(block->instructions, sizeof(uint32_t), block->length, file);
  }
  write_record(kSegment, segment->count);
  fwrite(&segment->mark, sizeof segment->mark, 1, file);
  fwrite(&segment->written_back, sizeof segment->written_back, 1, file);
  for (uint32_t i = 0; i < segment->count; i++) {
    const Counts* counts = &segment->rows[i].counts;
    const uint32_t number = (uint32_t)segment->rows[i].block->number;
    fwrite(&counts->runs, sizeof counts->runs, 1, file);
    fwrite(&number, sizeof number, 1, file);
    write_counts(counts->misses);
    write_counts(counts->streamed);
  }
}

static void fail(const char* what) {
  qemu_plugin_outs("block_profile: ");
  qemu_plugin_outs(what);
  qemu_plugin_outs("\n");
}

static void begin(bool warm) {
  // A program that starts anew is profiled anew: the last profile counts.
  if (file != NULL) fclose(file);
  file = fopen(path, "wb");
  if (file == NULL) {
    fail("cannot write its file");
    return;
  }
  forget_counts();
  forget_segments();
  recording = !warm && levels > 0;
  if (recording) {
    for (int level = 0; level < levels; level++) empty(&caches[level]);
  }
  fwrite(kMagic, strlen(kMagic), 1, file);
}

static void finish(void) {
  if (recording) replay();
  recording = false;
  for (const Segment* segment = segments; segment != NULL; segment = segment->next) {
    write_segment(segment);
  }
  forget_segments();
  write_record(kFinish, 0);
  const bool failed = ferror(file) != 0;
  if (fclose(file) != 0 || failed) {
    remove(path);
    fail("no room for its file");
  }
  file = NULL;
}

static void system_called(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t a1,
                          uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                          uint64_t a7, uint64_t a8) {
  (void)id, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != kCloseOnArm64) return;
  const uint32_t mark = (uint32_t)a1;
  if (mark == kWarmCaches || mark == kStart) {
    profiled_cpu = cpu;
    if (mark == kStart) begin(state == kWarming);
    state = mark == kStart ? kCounting : kWarming;
  } else if (state == kCounting && file != NULL && cpu == profiled_cpu &&
             (mark == kEnd || (mark >= kFirstOfSegments && mark <= kLastOfSegments))) {
    end_segment(mark);
    if (mark == kEnd) {
      state = kOff;
      finish();
    }
  }
}

// ---------------------------------------------------------------- start

static bool add_cache(const char* text) {
  unsigned int kib;
  unsigned int ways;
  if (levels == kMaxLevels || sscanf(text, "%u/%u", &kib, &ways) != 2 || ways == 0) return false;
  const uint64_t sets = ((uint64_t)kib << 10 >> kLineShift) / ways;
  if (sets == 0 || (sets & (sets - 1)) != 0) return false;
  Cache* cache = &caches[levels++];
  cache->ways = ways;
  cache->set_mask = sets - 1;
  cache->lines = malloc((size_t)(sets * ways) * sizeof *cache->lines);
  if (cache->lines == NULL) return false;
  empty(cache);
  return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                               char** argv) {
  (void)info;
  for (int i = 0; i < argc; i++) {
    if (strncmp(argv[i], "out=", 4) == 0) {
      path = argv[i] + 4;
    } else if (strncmp(argv[i], "cache=", 6) != 0 || !add_cache(argv[i] + 6)) {
      fprintf(stderr, "block_profile: bad argument %s\n", argv[i]);
      return 1;
    }
  }
  if (path == NULL) {
    fprintf(stderr, "block_profile: no out=FILE\n");
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
  qemu_plugin_register_vcpu_syscall_cb(id, system_called);
  return 0;
}
