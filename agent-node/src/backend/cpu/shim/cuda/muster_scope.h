// Scopes of libcu++, and sizes with a promise of alignment.
#pragma once

namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
template <size_t ALIGNMENT> struct aligned_size_t {
  size_t value;
  explicit aligned_size_t(size_t bytes) : value(bytes) {}
  operator size_t() const { return value; }
};
}
