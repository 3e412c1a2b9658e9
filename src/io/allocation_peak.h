// Measures the peak memory of a task, for fuzz targets; works in programs built with the address sanitizer.
#pragma once

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstddef>

namespace tern {

// The hooks count every allocation of the process from the first call on; fuzzers have one thread.
class AllocationPeak {
 public:
  template <class Task>
  static std::size_t of(Task&& task) {
    static const bool installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) != 0;
    live_bytes_ = peak_bytes_ = 0;
    task();
    return installed ? static_cast<std::size_t>(peak_bytes_) : SIZE_MAX;
  }

 private:
  static void on_malloc(const volatile void*, std::size_t bytes) {
    live_bytes_ += static_cast<std::ptrdiff_t>(bytes);
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  }
  static void on_free(const volatile void* memory) {
    if (memory == nullptr) return;
    live_bytes_ -= static_cast<std::ptrdiff_t>(__sanitizer_get_allocated_size(const_cast<const void*>(memory)));
  }
  static inline std::ptrdiff_t live_bytes_ = 0;
  static inline std::ptrdiff_t peak_bytes_ = 0;
};

}  // namespace tern
