// What kernels have beside buffers: output, a heap, and variables that begin anew with every plan. Part of runtime.cpp.
#pragma once
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

namespace {
// Bytes of one call of `printf`, and of all calls in a process.
constexpr size_t PRINT_LINE_MAX = 1024, PRINT_MAX = 48 * 1024;
// What CUDA grants by default (cudaLimitMallocHeapSize).
constexpr size_t HEAP_MAX = 8 * 1024 * 1024;
// Bytes of the heap that are taken; a variable like the candidate's, so that it begins anew with them.
size_t allocated;
// What must outlast a reset of the variables.
struct Outlasting {
  char *variables, *saved, *heap;
  size_t bytes, printed;
} outlasting;

// Finds the writable variables of this library: all of its writable segment that the loader has not sealed.
int find_variables(dl_phdr_info* info, size_t, void* found) {
  uintptr_t here = reinterpret_cast<uintptr_t>(&outlasting), low = 0, high = 0, sealed = 0;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + p.p_vaddr, end = start + p.p_memsz;
    if (p.p_type == PT_LOAD && here >= start && here < end) { low = start; high = end; }
    if (p.p_type == PT_GNU_RELRO) sealed = end;
  }
  if (!low) return 0;
  if (sealed > low && sealed <= high) low = sealed;
  Outlasting& into = *static_cast<Outlasting*>(found);
  into.variables = reinterpret_cast<char*>(low);
  into.bytes = high - low;
  return 1;
}
}

extern "C" {
// What kernels print goes to the process's standard output, which is kept as it is and never read. Bounded for the
// whole process, since a kernel is launched many times.
HIDDEN int muster_print(const char* format, ...) noexcept {
  char text[PRINT_LINE_MAX];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length <= 0) return length;
  size_t bytes = size_t(length) < sizeof text ? size_t(length) : sizeof text - 1;
  size_t before = __atomic_fetch_add(&outlasting.printed, bytes, __ATOMIC_RELAXED);
  if (before + bytes <= PRINT_MAX && write(1, text, bytes) < 0) return -1;
  return length;
}

// Memory of `malloc` and `new` in kernels: null beyond the bound. Nothing comes back before the next plan begins.
HIDDEN void* muster_allocate(size_t bytes) noexcept {
  char* heap = __atomic_load_n(&outlasting.heap, __ATOMIC_ACQUIRE);
  if (!heap) {
    void* fresh = mmap(nullptr, HEAP_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return nullptr;
    if (__atomic_compare_exchange_n(&outlasting.heap, &heap, static_cast<char*>(fresh), false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
      heap = static_cast<char*>(fresh);
    else
      munmap(fresh, HEAP_MAX);
  }
  if (bytes > HEAP_MAX) return nullptr;
  size_t rounded = (bytes + 15) & ~size_t(15), at = __atomic_fetch_add(&allocated, rounded, __ATOMIC_RELAXED);
  return at > HEAP_MAX - rounded ? nullptr : heap + at;
}

// Before every plan: variables of the candidate have the values that they had when it was loaded, so that nothing is
// carried from one launch of the plan to the next. The first call keeps those values.
EXPORT void muster_reset() {
  Outlasting keep = outlasting;
  if (!keep.variables) {
    dl_iterate_phdr(find_variables, &keep);
    if (keep.bytes) {
      void* saved = mmap(nullptr, keep.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (saved == MAP_FAILED) return;
      keep.saved = static_cast<char*>(saved);
      memcpy(keep.saved, keep.variables, keep.bytes);
    }
  } else if (keep.bytes) {
    memcpy(keep.variables, keep.saved, keep.bytes);
  }
  outlasting = keep;
}
}

#if MUSTER_SCREEN == 0 // a sanitizer brings its own, and watches what they give
// `new` in kernels. A GPU's answers null as well.
void* operator new(size_t bytes) { return muster_allocate(bytes); }
void* operator new[](size_t bytes) { return muster_allocate(bytes); }
void operator delete(void*) noexcept {}
void operator delete[](void*) noexcept {}
void operator delete(void*, size_t) noexcept {}
void operator delete[](void*, size_t) noexcept {}
#endif
