// Builds without CUDA have no loops for GPUs.
#include "lab/gpu_loops.h"

namespace tern::lab {

std::span<const GpuLoop> gpu_read_loops() { return {}; }
std::span<const GpuLoop> gpu_write_loops() { return {}; }
std::span<const GpuLoop> gpu_copy_loops() { return {}; }
std::span<const GpuComputeLoop> gpu_int8_loops() { return {}; }
std::span<const GpuComputeLoop> gpu_bf16_loops() { return {}; }

}  // namespace tern::lab
