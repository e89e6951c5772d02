// What a sanitizer is told of threads that share one stack, of barriers and of warp operations. The ordinary build
// tells nobody anything: every function here is empty then.
//
// ThreadSanitizer sees each thread of a block as a fiber of its own, and as ordered only what CUDA orders: a barrier
// orders all that came to it, a warp operation its lanes, the end of a block all of it before the next block. All of a
// meeting release before any of them acquires, and all acquire before any goes on: were they to acquire when they
// resume, one that resumes late would also acquire what others released meanwhile, and a race would stay unseen.
#pragma once
#include <stddef.h>
#include <stdint.h>

// 0: none. 1: AddressSanitizer. 2: ThreadSanitizer, the threads of a block unordered. 3: ThreadSanitizer, blocks
// unordered, the threads of one block in order.
#ifndef MUSTER_SCREEN
#define MUSTER_SCREEN 0
#endif

namespace hook {
#if MUSTER_SCREEN == 1
extern "C" {
void __sanitizer_start_switch_fiber(void** fake, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake, const void** bottom, size_t* size);
void __asan_poison_memory_region(const volatile void* address, size_t size);
void __asan_unpoison_memory_region(const volatile void* address, size_t size);
}
// Room for the red zones around local arrays.
constexpr size_t STACK_FACTOR = 4;
constexpr bool OWN_STACKS = false;
struct State { const void* outer; size_t outer_size; };
// Both halves at once: nothing instrumented runs between here and the switch itself.
static inline void becomes(State& s, unsigned, char* low, char* high) {
  const void* bottom;
  size_t size;
  __sanitizer_start_switch_fiber(nullptr, low, size_t(high - low));
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (!s.outer) { s.outer = bottom; s.outer_size = size; }
}
static inline void leaves(State& s) {
  __sanitizer_start_switch_fiber(nullptr, s.outer, s.outer_size);
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
  s.outer = nullptr;
}
// Only what was asked for may be touched, to the byte.
static inline void dynamic_shared(char* low, size_t used, char* begin, char* end) {
  __asan_poison_memory_region(begin, size_t(end - begin));
  __asan_unpoison_memory_region(low, used);
}
static inline void block_begins(State&, const unsigned*, unsigned, const unsigned (*)[3]) {}
static inline void block_ends(State&, unsigned) {}
static inline void exits(State&) {}
static inline void arrives_at_barrier(State&) {}
static inline void arrives_in_warp(State&, unsigned) {}
static inline void barrier_opens(State&, unsigned, const unsigned short*, unsigned) {}
static inline void warp_completes(State&, unsigned, unsigned, unsigned) {}

#elif MUSTER_SCREEN == 2 || MUSTER_SCREEN == 3
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_set_fiber_name(void* fiber, const char* name);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
constexpr size_t STACK_FACTOR = 2;
// Two threads that use one stack in turn would race on it, in no order.
constexpr bool OWN_STACKS = MUSTER_SCREEN == 2;
// 1 is __tsan_switch_to_fiber_no_sync of sanitizer/tsan_interface.h: the switch orders nothing by itself.
constexpr unsigned SWITCH = MUSTER_SCREEN == 2 ? 1 : 0;
struct State {
  void* outer;
  void* fiber[1024];
  // What a lane's object holds from before is part of what this lane releases next, so whoever acquires it gets no
  // more than the meeting.
  char in[1024], out[1024], barrier, end;
};
static inline char* put(char* to, unsigned value) {
  char digits[10];
  int n = 0;
  do { digits[n++] = char('0' + value % 10); value /= 10; } while (value);
  while (n) *to++ = digits[--n];
  return to;
}
static inline void block_begins(State& s, const unsigned* block, unsigned count, const unsigned (*index)[3]) {
  s.outer = __tsan_get_current_fiber();
  for (unsigned t = 0; t < count; ++t) {
    s.fiber[t] = __tsan_create_fiber(0);
    char name[80], *end = name;
    for (unsigned i = 0; i < 6; ++i) {
      *end++ = i == 0 ? 'b' : i == 3 ? 't' : ',';
      end = put(end, i < 3 ? block[i] : index[t][i - 3]);
    }
    *end = 0;
    __tsan_set_fiber_name(s.fiber[t], name);
  }
}
static inline void becomes(State& s, unsigned t, char*, char*) { __tsan_switch_to_fiber(s.fiber[t], SWITCH); }
static inline void leaves(State& s) { __tsan_switch_to_fiber(s.outer, SWITCH); }
static inline void block_ends(State& s, unsigned count) {
  __tsan_acquire(&s.end);
  for (unsigned t = 0; t < count; ++t) __tsan_destroy_fiber(s.fiber[t]);
}
static inline void arrives_at_barrier(State& s) { __tsan_release(&s.barrier); }
// A barrier waits for no thread that has exited, so what such a thread did comes before it.
static inline void exits(State& s) { __tsan_release(&s.end); arrives_at_barrier(s); }
static inline void acquire_as(State& s, unsigned t, void* object) {
  __tsan_switch_to_fiber(s.fiber[t], SWITCH);
  __tsan_acquire(object);
}
static inline void barrier_opens(State& s, unsigned current, const unsigned short* waiting, unsigned count) {
  for (unsigned i = 0; i < count; ++i) acquire_as(s, waiting[i], &s.barrier);
  __tsan_switch_to_fiber(s.fiber[current], SWITCH);
}
static inline void arrives_in_warp(State& s, unsigned t) { __tsan_release(s.in + t); }
static inline void warp_completes(State& s, unsigned first, unsigned arrived, unsigned current) {
  unsigned leader = first + unsigned(__builtin_ctz(arrived));
  __tsan_switch_to_fiber(s.fiber[leader], SWITCH);
  for (unsigned rest = arrived; rest; rest &= rest - 1) __tsan_acquire(s.in + first + unsigned(__builtin_ctz(rest)));
  __tsan_release(s.out + leader);
  for (unsigned rest = arrived & (arrived - 1); rest; rest &= rest - 1)
    acquire_as(s, first + unsigned(__builtin_ctz(rest)), s.out + leader);
  __tsan_switch_to_fiber(s.fiber[current], SWITCH);
}
static inline void dynamic_shared(char*, size_t, char*, char*) {}

#else
constexpr size_t STACK_FACTOR = 1;
constexpr bool OWN_STACKS = false;
struct State {};
static inline void block_begins(State&, const unsigned*, unsigned, const unsigned (*)[3]) {}
static inline void becomes(State&, unsigned, char*, char*) {}
static inline void leaves(State&) {}
static inline void block_ends(State&, unsigned) {}
static inline void exits(State&) {}
static inline void arrives_at_barrier(State&) {}
static inline void arrives_in_warp(State&, unsigned) {}
static inline void barrier_opens(State&, unsigned, const unsigned short*, unsigned) {}
static inline void warp_completes(State&, unsigned, unsigned, unsigned) {}
static inline void dynamic_shared(char*, size_t, char*, char*) {}
#endif
}
