// Kernels that do nothing but read or write memory of a GPU: its limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tern::lab {

struct GpuLoop {
  const char* name;
  // Puts one pass over a buffer (a multiple of kGpuPassBytes) on a stream; returns the runtime's code.
  int (*launch)(void* data, std::size_t bytes, std::uint64_t* sink, int multiprocessors, void* stream);
};
inline constexpr std::size_t kGpuPassBytes = std::size_t{1} << 20;

std::span<const GpuLoop> gpu_read_loops();
std::span<const GpuLoop> gpu_write_loops();

}  // namespace tern::lab
