// Launches a CUDA kernel with the launch attributes that its grid needs. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/cuda_launch.h"

namespace tern::cuda {
namespace {

struct Grid {
  dim3 blocks, threads;
  std::int64_t shared_bytes = 0;
  unsigned cluster = 1;    // blocks per cluster, along x
  bool dependent = false;  // programmatic dependent launch; only for code compiled for sm_90 or newer
};

// Returns the cudaError_t of this launch, not of an earlier one.
template <class... Arguments, class... Given>
int start(void (*kernel)(Arguments...), const Grid& grid, const Launch& launch, const Given&... given) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (grid.dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {grid.cluster, 1, 1};
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = static_cast<std::size_t>(grid.shared_bytes);
  config.stream = static_cast<cudaStream_t>(launch.stream);
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, given...);
}

}  // namespace
}  // namespace tern::cuda
