// The scheduler of one block: lazy fibers. Threads run one after another on the same stack; only a thread that has
// to wait keeps its stack, and the loop goes on with another one. A kernel that never waits is a plain loop.
//
//   unstarted ──run──► running ──returns──► exited
//                      │    ▲
//                 waits│    │all have come
//                      ▼    │
//              at barrier / in warp operation ──► ready (first in, first out)
//
// Everything here belongs to one operating system thread, so nothing is locked. The whole library is part of the
// untrusted worker: the supervisor believes none of what it writes.
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include "sanitizer_hooks.h"

#include "muster_state.h"

struct Index { unsigned x, y, z; };

namespace {
constexpr unsigned THREADS_MAX = 1024;
constexpr size_t PAGE = 4096;
// A power of two apart, stacks of waiting threads would compete for the same cache lines: each starts on another
// page and another line.
constexpr size_t STACK = 64 * 1024 * hook::STACK_FACTOR;
constexpr size_t STRIDE = STACK + PAGE;
// The first stack serves kernels that never wait; CUDA grants a thread 512 KiB of local memory.
constexpr size_t FIRST_STACK = 576 * 1024 * hook::STACK_FACTOR;
constexpr size_t SHARED_MAX = 256 * 1024;
constexpr size_t GUARD = 1024 * 1024;
constexpr int GUARD_INSTALL = 102; // MADV_GUARD_INSTALL, Linux 6.13: guards a page without splitting the mapping

enum State : unsigned char { RUNNING, READY, AT_BARRIER, IN_WARP, ASKING, EXITED };
// What a lane wants of its group, beside the lane that it reads from.
enum Want : int { VOTE = -1, GATHER = -2 };
enum Stop : int { DEADLOCK = 0, ASSERTION = 1, TRAP = 2, MIXED_BARRIERS = 3, BAD_MASK = 4 };

struct Thread {
  void* stack_pointer;
  uint64_t value, result;
  // Where a gathering lane wants the values of all.
  uint64_t* all;
  int source, line;
  unsigned short stack;
  State state;
};
struct Group { unsigned mask, arrived; };
struct Warp { unsigned alive, asking, groups; Group group[32]; };
}

extern "C" {
struct muster_launch {
  void (*entry)(void**);
  void** arguments;
  unsigned grid[3], block[3], shared_bytes;
  // In which order blocks and threads begin (0: by index, 1: backwards, 2: drawn from `seed`), and the bytes that
  // unwritten shared memory and lanes that take no part are made of.
  unsigned order, seed, shared_poison, lane_poison;
  void (*stop)(int kind, int line, unsigned waiting, unsigned alive);
};
struct muster_place {
  unsigned block[3], thread[3];
  uint64_t shared_low, shared_high, stack_low, stack_high;
};
}

// The names that the prelude declares constant; only this file writes them.
#define LOCAL __attribute__((visibility("hidden"), tls_model("local-dynamic"))) __thread
LOCAL Index threadIdx, blockIdx, blockDim, gridDim;
LOCAL unsigned muster_linear;
extern "C" { LOCAL char* muster_dynamic_shared; }

struct Scheduler {
  const muster_launch* launch;
  unsigned count, next, alive, current;
  unsigned ready_head, ready_count;
  unsigned barrier_count, barrier_sum, barrier_result;
  int barrier_line;
  bool barrier_mixed, start_first;
  unsigned free_count, stacks_guarded;
  void* outer;
  char* stacks;
  char* shared_top;
  char* static_shared;
  size_t static_size;
  unsigned short ready[THREADS_MAX], waiting[THREADS_MAX], free[THREADS_MAX + 1];
  Index index[THREADS_MAX];
  Thread thread[THREADS_MAX];
  Warp warp[THREADS_MAX / 32];
  // Thread by place in the order of beginning, and the reverse.
  unsigned short sequence[THREADS_MAX], position[THREADS_MAX];
  uint64_t no_lane;
  hook::State hooks;
};
// Not in the unnamed namespace: the compiler must expect them to change when all thread-local storage is overwritten.
LOCAL Scheduler* scheduler;
LOCAL unsigned running_stack;

namespace {

extern "C" void muster_switch(void** save, void* restore) __attribute__((visibility("hidden")));
#if defined(__x86_64__)
constexpr unsigned SAVED = 6;
__asm__(".text\n.p2align 4\n.hidden muster_switch\n.globl muster_switch\n.type muster_switch,@function\n"
        "muster_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  retq\n"
        ".size muster_switch,.-muster_switch\n");
#elif defined(__aarch64__)
constexpr unsigned SAVED = 20;
__asm__(".text\n.p2align 4\n.hidden muster_switch\n.globl muster_switch\n.type muster_switch,%function\n"
        "muster_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n  ret\n"
        ".size muster_switch,.-muster_switch\n");
#else
#error "the fiber switch is written for x86-64 and aarch64"
#endif

void fiber_main();

[[noreturn]] void stop(int kind, int line, unsigned waiting, unsigned alive) {
  scheduler->launch->stop(kind, line, waiting, alive);
  __builtin_trap();
}

char* stack_low(unsigned stack) { return stack == 0 ? scheduler->stacks + PAGE : scheduler->stacks + FIRST_STACK + stack * STRIDE + PAGE; }
char* stack_high(unsigned stack) { return stack_low(stack) + (stack == 0 ? FIRST_STACK - PAGE : STACK); }

void guard_stack(unsigned stack) {
  char* page = stack_low(stack) - PAGE;
  if (madvise(page, PAGE, GUARD_INSTALL) == 0) return;
  // Each protected page splits the mapping, and a process may have 65530 of them: the first stacks are guarded.
  if (scheduler->stacks_guarded < 128) { mprotect(page, PAGE, PROT_NONE); ++scheduler->stacks_guarded; }
}

// A stack pointer from which muster_switch "returns" into fiber_main.
void* fresh(unsigned stack) {
  char* top = stack_high(stack) - (stack % 48) * 64;
  uintptr_t* slot = reinterpret_cast<uintptr_t*>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15));
#if defined(__x86_64__)
  *--slot = 0;
  *--slot = reinterpret_cast<uintptr_t>(&fiber_main);
  for (unsigned i = 0; i < SAVED; ++i) *--slot = 0;
#else
  for (unsigned i = 0; i < SAVED; ++i) *--slot = 0;
  slot[11] = reinterpret_cast<uintptr_t>(&fiber_main);
#endif
  return slot;
}

void push_ready(unsigned t) {
  Scheduler& s = *scheduler;
  s.thread[t].state = READY;
  unsigned at = s.ready_head + s.ready_count++;
  s.ready[at >= THREADS_MAX ? at - THREADS_MAX : at] = (unsigned short)t;
}
unsigned pop_ready() {
  Scheduler& s = *scheduler;
  unsigned t = s.ready[s.ready_head];
  s.ready_head = s.ready_head + 1 == THREADS_MAX ? 0 : s.ready_head + 1;
  --s.ready_count;
  return t;
}
void become(unsigned t) {
  Scheduler& s = *scheduler;
  s.current = t;
  s.thread[t].state = RUNNING;
  threadIdx = s.index[t];
  muster_linear = t;
  hook::becomes(s.hooks, t, stack_low(running_stack), stack_high(running_stack));
}

[[noreturn]] void deadlock() {
  Scheduler& s = *scheduler;
  int line = s.barrier_line;
  for (unsigned t = 0; t < s.count && line == 0; ++t) line = s.thread[t].state == IN_WARP ? s.thread[t].line : 0;
  stop(DEADLOCK, line, s.barrier_count, s.alive);
}

// Gives the processor to a thread that can run; returns when the current one is ready again.
void wait() {
  Scheduler& s = *scheduler;
  unsigned self = s.current;
  Thread& me = s.thread[self];
  me.stack = (unsigned short)running_stack;
  if (s.ready_count) {
    unsigned t = pop_ready();
    running_stack = s.thread[t].stack;
    become(t);
    muster_switch(&me.stack_pointer, s.thread[t].stack_pointer);
  } else if (s.next < s.count) {
    running_stack = s.free[--s.free_count];
    muster_switch(&me.stack_pointer, fresh(running_stack));
  } else {
    deadlock();
  }
}

void release_barrier() {
  Scheduler& s = *scheduler;
  if (s.barrier_mixed) stop(MIXED_BARRIERS, s.barrier_line, s.barrier_count, s.alive);
  s.barrier_result = s.barrier_sum;
  unsigned count = s.barrier_count;
  s.barrier_count = s.barrier_sum = 0;
  s.barrier_line = 0;
  hook::barrier_opens(s.hooks, s.current, s.waiting, count);
  for (unsigned i = 0; i < count; ++i) {
    unsigned t = s.waiting[i];
    if (s.thread[t].state == AT_BARRIER) push_ready(t);
  }
}

// Finishes group `g` of warp `w` if every living lane of its mask has come.
bool complete_group(unsigned w, unsigned g) {
  Scheduler& s = *scheduler;
  Warp& warp = s.warp[w];
  unsigned arrived = warp.group[g].arrived;
  if (arrived != (warp.group[g].mask & warp.alive)) return false;
  hook::warp_completes(s.hooks, w * 32, arrived, s.current);
  Thread* lanes = s.thread + w * 32;
  unsigned ballot = 0;
  for (unsigned rest = arrived; rest; rest &= rest - 1) {
    unsigned l = unsigned(__builtin_ctz(rest));
    if (lanes[l].source < 0 && lanes[l].value) ballot |= 1u << l;
  }
  for (unsigned rest = arrived; rest; rest &= rest - 1) {
    unsigned l = unsigned(__builtin_ctz(rest));
    unsigned from = unsigned(lanes[l].source);
    if (lanes[l].source == GATHER)
      for (unsigned each = arrived; each; each &= each - 1)
        lanes[l].all[__builtin_ctz(each)] = lanes[__builtin_ctz(each)].value;
    // Reading a lane that takes no part is undefined: the answer is poison, never a plausible value.
    if (lanes[l].source < 0) lanes[l].result = (uint64_t(arrived) << 32) | ballot;
    else lanes[l].result = from < 32 && (arrived >> from & 1) ? lanes[from].value : s.no_lane;
    unsigned t = w * 32 + l;
    if (t != s.current || s.thread[t].state == IN_WARP) push_ready(t);
  }
  warp.group[g] = warp.group[--warp.groups];
  return true;
}

// Answers the lanes of warp `w` that ask who is active, once no lane of the warp can run on: those that stand at the
// same line are active together.
void settle(unsigned w) {
  Scheduler& s = *scheduler;
  Warp& warp = s.warp[w];
  if (!warp.asking) return;
  for (unsigned rest = warp.alive; rest; rest &= rest - 1) {
    unsigned t = w * 32 + unsigned(__builtin_ctz(rest));
    if (s.position[t] >= s.next || s.thread[t].state <= READY) return;
  }
  Thread* lanes = s.thread + w * 32;
  for (unsigned rest = warp.asking; rest; rest &= rest - 1) {
    unsigned l = unsigned(__builtin_ctz(rest)), together = 0;
    for (unsigned each = warp.asking; each; each &= each - 1)
      if (lanes[__builtin_ctz(each)].line == lanes[l].line) together |= each & -each;
    lanes[l].result = together;
  }
  unsigned asking = warp.asking;
  warp.asking = 0;
  for (unsigned rest = asking; rest; rest &= rest - 1) {
    unsigned t = w * 32 + unsigned(__builtin_ctz(rest));
    if (t == s.current) s.thread[t].state = RUNNING;
    else push_ready(t);
  }
}

uint64_t meet(unsigned mask, uint64_t value, int source, int line) {
  Scheduler& s = *scheduler;
  unsigned self = s.current, w = self / 32, bit = 1u << (self % 32);
  Thread& me = s.thread[self];
  Warp& warp = s.warp[w];
  if (!(mask & bit)) stop(BAD_MASK, line, 1, s.alive);
  me.value = value;
  me.source = source;
  me.line = line;
  hook::arrives_in_warp(s.hooks, self);
  unsigned g = 0;
  while (g < warp.groups && warp.group[g].mask != mask) ++g;
  if (g == warp.groups) warp.group[warp.groups++] = Group{mask, 0};
  warp.group[g].arrived |= bit;
  // The last lane goes on at once: its state stays RUNNING while its group completes.
  if (complete_group(w, g)) return me.result;
  me.state = IN_WARP;
  settle(w);
  wait();
  return me.result;
}

void thread_exits() {
  Scheduler& s = *scheduler;
  unsigned t = s.current, w = t / 32;
  Warp& warp = s.warp[w];
  hook::exits(s.hooks);
  s.thread[t].state = EXITED;
  --s.alive;
  warp.alive &= ~(1u << (t % 32));
  // As on hardware since Volta, a barrier waits for the threads that have not exited.
  if (s.barrier_count && s.barrier_count == s.alive) release_barrier();
  for (unsigned g = 0; g < warp.groups;) if (!complete_group(w, g)) ++g;
  settle(w);
}

void fiber_main() {
  Scheduler& s = *scheduler;
  void (*entry)(void**) = s.launch->entry;
  void** arguments = s.launch->arguments;
  bool is_used = false;
  for (;;) {
    // Woken threads go first: fewer stacks are in use, and the ones in use stay in the cache.
    if (s.ready_count && !s.start_first) {
      unsigned t = pop_ready();
      if (!hook::OWN_STACKS) s.free[s.free_count++] = (unsigned short)running_stack;
      running_stack = s.thread[t].stack;
      become(t);
      void* ignored;
      muster_switch(&ignored, s.thread[t].stack_pointer);
    } else if (s.next < s.count) {
      s.start_first = false;
      if (hook::OWN_STACKS && is_used) {
        running_stack = s.free[--s.free_count];
        void* ignored;
        muster_switch(&ignored, fresh(running_stack));
      }
      is_used = true;
      become(s.sequence[s.next++]);
      entry(arguments);
      thread_exits();
    } else if (s.alive == 0) {
      hook::leaves(s.hooks);
      void* ignored;
      muster_switch(&ignored, s.outer);
    } else {
      deadlock();
    }
  }
}

// Finds this library's thread-local block: all of it but our own variables is `__shared__` memory.
int find_static_shared(dl_phdr_info* info, size_t, void*) {
  uintptr_t here = reinterpret_cast<uintptr_t>(&fiber_main);
  bool mine = false;
  const ElfW(Phdr)* tls = nullptr;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    uintptr_t low = info->dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_LOAD && here >= low && here < low + p.p_memsz) mine = true;
    if (p.p_type == PT_TLS) tls = &p;
  }
  if (!mine) return 0;
  if (tls && info->dlpi_tls_data) {
    scheduler->static_shared = static_cast<char*>(info->dlpi_tls_data);
    scheduler->static_size = tls->p_memsz;
  }
  return 1;
}

bool start_scheduler() {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  size_t stacks = PAGE + FIRST_STACK + (THREADS_MAX + 1) * STRIDE + PAGE;
  void* memory = mmap(nullptr, sizeof(Scheduler), PROT_READ | PROT_WRITE, flags, -1, 0);
  void* stack = mmap(nullptr, stacks, PROT_READ | PROT_WRITE, flags, -1, 0);
  void* shared = mmap(nullptr, SHARED_MAX + 2 * GUARD, PROT_NONE, flags, -1, 0);
  if (memory == MAP_FAILED || stack == MAP_FAILED || shared == MAP_FAILED) return false;
  if (mprotect(static_cast<char*>(shared) + GUARD, SHARED_MAX, PROT_READ | PROT_WRITE)) return false;
  scheduler = static_cast<Scheduler*>(memory);
  scheduler->stacks = static_cast<char*>(stack);
  scheduler->shared_top = static_cast<char*>(shared) + GUARD + SHARED_MAX;
  for (unsigned i = 0; i <= THREADS_MAX; ++i) {
    scheduler->free[i] = (unsigned short)(THREADS_MAX - i);
    guard_stack(i);
  }
  scheduler->free_count = THREADS_MAX + 1;
  dl_iterate_phdr(find_static_shared, nullptr);
  return true;
}

// A kernel without static shared memory has no more than our own variables there, with their padding.
constexpr size_t OWN_LOCALS_MAX = 96;

// clang puts a sanitizer's library into the program itself, and with it the library's own thread-local state beside the
// static shared memory of a candidate: overwriting all of it takes the sanitizer its state. (GCC's are libraries with a
// part of their own.) Static shared memory then begins with what the block before left.
#if MUSTER_SCREEN && defined(__clang__)
constexpr bool STATIC_SHARED_BEGINS_AS_POISON = false;
#else
constexpr bool STATIC_SHARED_BEGINS_AS_POISON = true;
#endif

// Shared memory begins as poison, usually NaN or -1, so that reading before writing shows.
void poison() {
  Scheduler& s = *scheduler;
  struct { Index a, b, c, d; unsigned linear, stack; char* dynamic; Scheduler* scheduler; } keep = {
      threadIdx, blockIdx, blockDim, gridDim, muster_linear, running_stack, muster_dynamic_shared, scheduler};
  if (STATIC_SHARED_BEGINS_AS_POISON && s.static_size > OWN_LOCALS_MAX) {
    memset(s.static_shared, int(s.launch->shared_poison), s.static_size);
    threadIdx = keep.a, blockIdx = keep.b, blockDim = keep.c, gridDim = keep.d;
    muster_linear = keep.linear, running_stack = keep.stack;
    muster_dynamic_shared = keep.dynamic, scheduler = keep.scheduler;
  }
  memset(muster_dynamic_shared, int(s.launch->shared_poison), s.launch->shared_bytes);
}

unsigned draw(unsigned& state) { return (state = state * 1664525u + 1013904223u) >> 16; } // Knuth's "quick" generator

void order_threads() {
  Scheduler& s = *scheduler;
  unsigned state = s.launch->seed;
  for (unsigned i = 0; i < s.count; ++i) s.sequence[i] = (unsigned short)(s.launch->order == 1 ? s.count - 1 - i : i);
  for (unsigned i = s.count; s.launch->order == 2 && i > 1; --i) {
    unsigned other = draw(state) % i;
    unsigned short kept = s.sequence[i - 1];
    s.sequence[i - 1] = s.sequence[other];
    s.sequence[other] = kept;
  }
  for (unsigned i = 0; i < s.count; ++i) s.position[s.sequence[i]] = (unsigned short)i;
}

// The block that comes `i`th. Multiplying by an odd prime that does not divide the count visits each once.
uint64_t block_at(uint64_t i, uint64_t blocks) {
  const muster_launch& launch = *scheduler->launch;
  if (launch.order == 1) return blocks - 1 - i;
  if (launch.order != 2) return i;
  uint64_t step = blocks % 2654435761u ? 2654435761u : 1;
  return uint64_t(((unsigned __int128)(i)*step + launch.seed) % blocks);
}

void run_block() {
  Scheduler& s = *scheduler;
  s.next = s.ready_head = s.ready_count = 0;
  s.start_first = false;
  s.barrier_count = s.barrier_sum = 0;
  s.barrier_line = 0;
  s.barrier_mixed = false;
  s.alive = s.count;
  for (unsigned w = 0; w * 32 < s.count; ++w) {
    unsigned lanes = s.count - w * 32;
    s.warp[w].alive = lanes >= 32 ? ~0u : (1u << lanes) - 1;
    s.warp[w].groups = s.warp[w].asking = 0;
  }
  if (hook::OWN_STACKS)
    for (s.free_count = 0; s.free_count <= THREADS_MAX; ++s.free_count)
      s.free[s.free_count] = (unsigned short)(THREADS_MAX - s.free_count);
  // The biggest stack is number 0; it is always the last on the list between blocks or is swapped there.
  unsigned last = s.free_count - 1;
  for (unsigned i = 0; i < s.free_count && s.free[last] != 0; ++i)
    if (s.free[i] == 0) { s.free[i] = s.free[last]; s.free[last] = 0; }
  running_stack = s.free[--s.free_count];
  hook::block_begins(s.hooks, &blockIdx.x, s.count, reinterpret_cast<const unsigned (*)[3]>(s.index));
  muster_switch(&s.outer, fresh(running_stack));
  hook::block_ends(s.hooks, s.count);
  s.free[s.free_count++] = (unsigned short)running_stack;
}
}

extern "C" {
HIDDEN int muster_barrier(int predicate, int line) noexcept {
  Scheduler& s = *scheduler;
  hook::arrives_at_barrier(s.hooks);
  if (s.barrier_count == 0) { s.barrier_line = line; s.barrier_mixed = false; }
  if (line != s.barrier_line) s.barrier_mixed = true;
  s.barrier_sum += unsigned(predicate);
  s.waiting[s.barrier_count++] = (unsigned short)s.current;
  if (s.barrier_count == s.alive) {
    release_barrier();
  } else {
    s.thread[s.current].state = AT_BARRIER;
    settle(s.current / 32);
    wait();
  }
  return int(s.barrier_result);
}
HIDDEN uint64_t muster_exchange(unsigned mask, uint64_t value, int source, int line) noexcept {
  return meet(mask, value, source & 0x7fffffff, line);
}
HIDDEN uint64_t muster_vote(unsigned mask, int predicate, int line) noexcept {
  return meet(mask, uint64_t(predicate), VOTE, line);
}
HIDDEN unsigned muster_gather(unsigned mask, uint64_t value, uint64_t* all, int line) noexcept {
  scheduler->thread[scheduler->current].all = all;
  return unsigned(meet(mask, value, GATHER, line) >> 32);
}
HIDDEN unsigned muster_active(int line) noexcept {
  Scheduler& s = *scheduler;
  unsigned self = s.current, w = self / 32;
  Thread& me = s.thread[self];
  me.line = line;
  me.state = ASKING;
  s.warp[w].asking |= 1u << (self % 32);
  settle(w);
  if (me.state == ASKING) wait();
  return unsigned(me.result);
}
// Lets other threads of the block run: those that have not begun first, since they may be the ones waited for.
HIDDEN void muster_yield() noexcept {
  Scheduler& s = *scheduler;
  unsigned self = s.current;
  if (s.next < s.count) {
    Thread& me = s.thread[self];
    push_ready(self);
    me.stack = (unsigned short)running_stack;
    s.start_first = true;
    running_stack = s.free[--s.free_count];
    muster_switch(&me.stack_pointer, fresh(running_stack));
  } else if (s.ready_count) {
    push_ready(self);
    wait();
  }
}
HIDDEN void muster_stop(int kind, int line) noexcept { stop(kind, line, 1, scheduler->alive); }

// Runs blocks `first` to `last` (exclusive) of a launch on this thread; false without memory for its stacks.
EXPORT int muster_run(const muster_launch* launch, uint64_t first, uint64_t last) {
  if (!scheduler && !start_scheduler()) return 0;
  Scheduler& s = *scheduler;
  s.launch = launch;
  s.count = launch->block[0] * launch->block[1] * launch->block[2];
  if (s.count == 0 || s.count > THREADS_MAX || launch->shared_bytes > SHARED_MAX) return 0;
  blockDim = Index{launch->block[0], launch->block[1], launch->block[2]};
  gridDim = Index{launch->grid[0], launch->grid[1], launch->grid[2]};
  // Ends at the guard, so that an overrun of dynamic shared memory faults.
  muster_dynamic_shared = s.shared_top - ((size_t(launch->shared_bytes) + 15) & ~size_t(15));
  hook::dynamic_shared(muster_dynamic_shared, launch->shared_bytes, s.shared_top - SHARED_MAX, s.shared_top);
  s.no_lane = launch->lane_poison * 0x0101010101010101u;
  order_threads();
  unsigned t = 0;
  for (unsigned z = 0; z < launch->block[2]; ++z)
    for (unsigned y = 0; y < launch->block[1]; ++y)
      for (unsigned x = 0; x < launch->block[0]; ++x) s.index[t++] = Index{x, y, z};
  uint64_t blocks = uint64_t(launch->grid[0]) * launch->grid[1] * launch->grid[2];
  for (uint64_t i = first; i < last; ++i) {
    uint64_t b = block_at(i, blocks);
    uint64_t row = b / launch->grid[0];
    blockIdx = Index{unsigned(b % launch->grid[0]), unsigned(row % launch->grid[1]), unsigned(row / launch->grid[1])};
    poison();
    run_block();
  }
  return 1;
}

// Where this thread is; called from the handler of a fault.
EXPORT void muster_where(muster_place* place) {
  if (!scheduler) return;
  memcpy(place->block, &blockIdx, sizeof blockIdx);
  memcpy(place->thread, &threadIdx, sizeof threadIdx);
  place->shared_high = reinterpret_cast<uint64_t>(scheduler->shared_top);
  place->shared_low = reinterpret_cast<uint64_t>(muster_dynamic_shared);
  place->stack_low = reinterpret_cast<uint64_t>(stack_low(running_stack));
  place->stack_high = reinterpret_cast<uint64_t>(stack_high(running_stack));
}
}
