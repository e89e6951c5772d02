// Asynchronous copies of one thread: done at once, so that waiting for them is nothing.
#pragma once

static inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  memcpy(to, from, bytes - zeros);
  memset(static_cast<char*>(to) + (bytes - zeros), 0, zeros);
}
static inline void __pipeline_commit() {}
static inline void __pipeline_wait_prior(size_t) {}
