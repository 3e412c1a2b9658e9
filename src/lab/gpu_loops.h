// Kernels that only read, write or copy memory of a GPU, or only multiply. They measure its limits.
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
std::span<const GpuLoop> gpu_copy_loops();

// Matrix instructions and nothing else.
struct GpuComputeLoop {
  const char* name;
  int capability;     // the lowest that has the instructions, such as 80
  double operations;  // per multiprocessor and launch
  int (*launch)(std::uint64_t* sink, int multiprocessors, void* stream);
};
std::span<const GpuComputeLoop> gpu_int8_loops();
std::span<const GpuComputeLoop> gpu_bf16_loops();

}  // namespace tern::lab
