// The program around a candidate that is built with a sanitizer: reads a plan with the contents of its buffers from an
// inherited descriptor, runs it once, and says on standard error where everything lies, so that the sanitizer's report
// can be read. The candidate lives in this process: what it says can lower a verdict and never raise one.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sanitizer_hooks.h"

extern "C" {
struct muster_launch {
  void (*entry)(void**);
  void** arguments;
  unsigned grid[3], block[3], shared_bytes, order, seed, shared_poison, lane_poison;
  void (*stop)(int kind, int line, unsigned waiting, unsigned alive);
};
struct muster_place {
  unsigned block[3], thread[3];
  uint64_t shared_low, shared_high, stack_low, stack_high;
};
int muster_run(const muster_launch* launch, uint64_t first, uint64_t last);
void muster_where(muster_place* place);
extern void (*const muster_entries[])(void**);
extern const int muster_arities[];
extern const unsigned muster_entry_count;
extern char __executable_start;
}

namespace {
constexpr int DESCRIPTOR = 3;
constexpr uint64_t MAGIC = 0x316e656572637375; // "uscreen1"
constexpr uint64_t FILL = ~uint64_t(0), SCALAR = ~uint64_t(0);
constexpr size_t GUARD = 4 << 20, PAGE = 4096;
constexpr unsigned BUFFERS_MAX = 128, ARGUMENTS_MAX = 64;
constexpr int FAULT = 66, BROKEN = 67;

struct Buffer { char* address; uint64_t bytes; };
Buffer buffers[BUFFERS_MAX];
const uint64_t* words;
size_t word_count, at;

void say(const char* text) {
  size_t left = strlen(text);
  while (left) {
    ssize_t written = write(2, text, left);
    if (written <= 0) return;
    text += written;
    left -= size_t(written);
  }
}
[[noreturn]] void broken(const char* what) {
  char line[160];
  snprintf(line, sizeof line, "\nmuster-broken %s\n", what);
  say(line);
  _exit(BROKEN);
}
uint64_t next() {
  if (at >= word_count) broken("the plan is too short");
  return words[at++];
}
void say_place() {
  muster_place place = {};
  muster_where(&place);
  char line[256];
  snprintf(line, sizeof line, "\nmuster-place b%u,%u,%ut%u,%u,%u shared %llx %llx\n", place.block[0], place.block[1],
           place.block[2], place.thread[0], place.thread[1], place.thread[2], (unsigned long long)place.shared_low,
           (unsigned long long)place.shared_high);
  say(line);
}
void on_stop(int kind, int line, unsigned waiting, unsigned alive) {
  char text[128];
  say_place();
  snprintf(text, sizeof text, "\nmuster-stop %d %d %u %u\n", kind, line, waiting, alive);
  say(text);
  _exit(FAULT);
}

void take_buffer(unsigned index, const char* file, size_t size) {
  uint64_t offset = next(), bytes = next();
  if (offset > size || bytes > size - offset) broken("a buffer lies outside the plan");
  size_t pages = (size_t(bytes) + PAGE) & ~(PAGE - 1);
  void* memory = mmap(nullptr, pages + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) broken("no memory for a buffer");
  char* start = static_cast<char*>(memory) + GUARD;
  memcpy(start, file + offset, size_t(bytes));
#if MUSTER_SCREEN == 1
  hook::__asan_poison_memory_region(memory, GUARD);
  hook::__asan_poison_memory_region(start + bytes, pages - size_t(bytes) + GUARD);
#endif
  buffers[index] = Buffer{start, bytes};
  char line[128];
  snprintf(line, sizeof line, "muster-buffer %u %llx %llu\n", index, (unsigned long long)start, (unsigned long long)bytes);
  say(line);
}

struct Part { const muster_launch* launch; uint64_t block; pthread_t thread; pthread_barrier_t *begin, *end; };
void* run_part(void* part) {
  const Part* p = static_cast<const Part*>(part);
  // All begin before one runs, and none ends before all have run: on a busy machine one could be over before the next is
  // made, and the sanitizer forgets what threads did that are gone. Two barriers: one that leaves the first late would be
  // ordered behind those that wait at the same one again.
  pthread_barrier_wait(p->begin);
  if (!muster_run(p->launch, p->block, p->block + 1)) broken("no memory for the stacks of a block");
  pthread_barrier_wait(p->end);
  return nullptr;
}
// The first blocks and the last one, which is the one with an edge.
void run_blocks(const muster_launch* launch, uint64_t blocks, uint64_t blocks_max) {
  uint64_t few = blocks < blocks_max ? blocks : blocks_max;
#if MUSTER_SCREEN == 3
  Part* parts = static_cast<Part*>(calloc(few, sizeof(Part)));
  pthread_barrier_t begin, end;
  if (!parts || pthread_barrier_init(&begin, nullptr, unsigned(few)) || pthread_barrier_init(&end, nullptr, unsigned(few)))
    broken("no threads for the blocks");
  for (uint64_t i = 0; i < few; ++i) {
    parts[i].launch = launch;
    parts[i].block = i + 1 == few ? blocks - 1 : i;
    parts[i].begin = &begin;
    parts[i].end = &end;
    if (pthread_create(&parts[i].thread, nullptr, run_part, parts + i)) broken("no thread for a block");
  }
  for (uint64_t i = 0; i < few; ++i) pthread_join(parts[i].thread, nullptr);
  pthread_barrier_destroy(&begin);
  pthread_barrier_destroy(&end);
  free(parts);
#else
  if (few > 1 && !muster_run(launch, 0, few - 1)) broken("no memory for the stacks of a block");
  if (!muster_run(launch, blocks - 1, blocks)) broken("no memory for the stacks of a block");
#endif
}

void run_step(uint64_t blocks_max) {
  uint64_t entry = next();
  if (entry == FILL) {
    uint64_t buffer = next(), byte = next();
    if (buffer >= BUFFERS_MAX) broken("a fill of no buffer");
    memset(buffers[buffer].address, int(byte), size_t(buffers[buffer].bytes));
    return;
  }
  if (entry >= muster_entry_count) broken("a launch of no kernel");
  muster_launch launch = {};
  launch.entry = muster_entries[entry];
  for (unsigned& size : launch.grid) size = unsigned(next());
  for (unsigned& size : launch.block) size = unsigned(next());
  launch.shared_bytes = unsigned(next());
  launch.shared_poison = launch.lane_poison = 0xff;
  launch.stop = on_stop;
  uint64_t count = next();
  if (count > ARGUMENTS_MAX || int(count) != muster_arities[entry]) broken("another number of arguments");
  // Every parameter finds an aligned slot of 16 bytes, as large as any scalar that a task can pass.
  alignas(16) uint64_t values[ARGUMENTS_MAX][2] = {};
  void* pointers[ARGUMENTS_MAX];
  for (unsigned i = 0; i < count; ++i) {
    uint64_t buffer = next(), scalar = next();
    if (buffer != SCALAR && buffer >= BUFFERS_MAX) broken("an argument of no buffer");
    values[i][0] = buffer == SCALAR ? scalar : reinterpret_cast<uint64_t>(buffers[buffer].address);
    pointers[i] = values[i];
  }
  launch.arguments = pointers;
  run_blocks(&launch, uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2], blocks_max);
#if MUSTER_SCREEN == 2
  // All blocks had their dynamic shared memory in one place; reports of races are read with it.
  say_place();
#endif
}
}

// A sanitizer may start no other program here: lines are found from the places in this one that a report names.
#if MUSTER_SCREEN == 1
extern "C" {
uintptr_t __asan_get_report_address();
uintptr_t __asan_get_report_pc();
int __asan_get_report_access_type();
size_t __asan_get_report_access_size();
const char* __asan_get_report_description();
__attribute__((visibility("default"))) void __asan_on_error() {
  say_place();
  char line[256];
  snprintf(line, sizeof line, "\nmuster-address %llx %s %llu %s\n", (unsigned long long)__asan_get_report_address(),
           __asan_get_report_access_type() ? "write" : "read", (unsigned long long)__asan_get_report_access_size(),
           __asan_get_report_description());
  say(line);
}
__attribute__((visibility("default"))) void __ubsan_on_report() { say_place(); }
__attribute__((visibility("default"))) const char* __asan_default_options() {
  return "halt_on_error=1:exitcode=66:detect_leaks=0:detect_stack_use_after_return=0:handle_segv=1:handle_sigfpe=1:"
         "handle_sigill=1:handle_abort=0:allocator_may_return_null=1:print_summary=0:print_legend=0:color=never:"
         "external_symbolizer_path=:"
         "stack_trace_format='    #%n (%m+%o) %F %S'";
}
__attribute__((visibility("default"))) const char* __ubsan_default_options() {
  return "print_stacktrace=1:halt_on_error=1:color=never:stack_trace_format='    #%n (%m+%o) %F %S'";
}
}
#elif MUSTER_SCREEN >= 2
extern "C" {
__attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "halt_on_error=0:exitcode=66:report_thread_leaks=0:report_destroy_locked=0:report_signal_unsafe=0:"
         "history_size=4:detect_deadlocks=0:die_after_fork=0:print_summary=0:color=never:external_symbolizer_path=:"
         "stack_trace_format='    #%n (%m+%o) %F %S'";
}
// Between blocks, volatile is how a kernel says that another one may look at any time. (GCC's parameter
// tsan-distinguish-volatile makes these calls.) Inside a block it orders nothing, and nothing here is called.
#define MUSTER_VOLATILE(n)                                                                                  \
  __attribute__((visibility("default"))) void __tsan_volatile_read##n(void* a) { hook::__tsan_acquire(a); } \
  __attribute__((visibility("default"))) void __tsan_volatile_write##n(void* a) { hook::__tsan_release(a); } \
  __attribute__((visibility("default"))) void __tsan_unaligned_volatile_read##n(void* a) { hook::__tsan_acquire(a); } \
  __attribute__((visibility("default"))) void __tsan_unaligned_volatile_write##n(void* a) { hook::__tsan_release(a); }
MUSTER_VOLATILE(1)
MUSTER_VOLATILE(2)
MUSTER_VOLATILE(4)
MUSTER_VOLATILE(8)
MUSTER_VOLATILE(16)
}
#endif

int main() {
  struct stat status;
  if (fstat(DESCRIPTOR, &status)) broken("there is no plan");
  size_t size = size_t(status.st_size);
  void* file = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, DESCRIPTOR, 0);
  if (file == MAP_FAILED) broken("the plan cannot be mapped");
  words = static_cast<const uint64_t*>(file);
  word_count = size / 8;
  if (next() != MAGIC) broken("another plan");
  char line[96];
  snprintf(line, sizeof line, "muster-base %llx\n", (unsigned long long)&__executable_start);
  say(line);
  uint64_t blocks_max = next(), buffer_count = next(), step_count = next();
  if (buffer_count > BUFFERS_MAX || blocks_max == 0) broken("too many buffers");
  for (unsigned i = 0; i < buffer_count; ++i) take_buffer(i, static_cast<const char*>(file), size);
  for (uint64_t i = 0; i < step_count; ++i) run_step(blocks_max);
  say("muster-done\n");
  return 0;
}
