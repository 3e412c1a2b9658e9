// Counts what a fuzz target allocates: replaces operator new of the program that includes it, once.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace tern {

struct AllocationPeak {
  static inline std::size_t live_bytes = 0;
  static inline std::size_t peak_bytes = 0;
  // How far the peak of `task` lies above where it began.
  template <class Task>
  static std::size_t of(Task&& task) {
    const std::size_t before = peak_bytes = live_bytes;
    task();
    return peak_bytes - before;
  }
};

}  // namespace tern

void* operator new(std::size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  tern::AllocationPeak::live_bytes += ::malloc_usable_size(memory);
  tern::AllocationPeak::peak_bytes = std::max(tern::AllocationPeak::peak_bytes, tern::AllocationPeak::live_bytes);
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) tern::AllocationPeak::live_bytes -= ::malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
