// Reads, writes and copies a GPU's memory in vectors of 16 bytes, several in flight for each thread.
#include "lab/gpu_loops.h"

#include <cuda_runtime.h>

namespace tern::lab {
namespace {

constexpr int kThreads = 256;

// In each step a block takes a stretch of kThreads * kDeep vectors, kDeep for each thread. The blocks take the
// stretches in turn.
template <int kDeep>
__global__ void __launch_bounds__(kThreads) read(const uint4* data, std::size_t vectors, std::uint64_t* sink) {
  unsigned all = 0;
  const std::size_t step = static_cast<std::size_t>(kThreads) * kDeep;
  for (std::size_t at = blockIdx.x * step + threadIdx.x; at < vectors; at += gridDim.x * step) {
    uint4 v[kDeep];
#pragma unroll
    for (int i = 0; i < kDeep; ++i) v[i] = __ldcs(data + at + static_cast<std::size_t>(i) * kThreads);
#pragma unroll
    for (int i = 0; i < kDeep; ++i) all |= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  if (all == 0x5EED5EEDU) *sink = all;  // keeps the reads alive
}

template <int kDeep>
__global__ void __launch_bounds__(kThreads) write(uint4* data, std::size_t vectors, unsigned word) {
  const std::size_t step = static_cast<std::size_t>(kThreads) * kDeep;
  for (std::size_t at = blockIdx.x * step + threadIdx.x; at < vectors; at += gridDim.x * step)
#pragma unroll
    for (int i = 0; i < kDeep; ++i)
      __stcs(data + at + static_cast<std::size_t>(i) * kThreads, make_uint4(word, word + 1, word + 2, word + 3));
}

template <int kDeep>
__global__ void __launch_bounds__(kThreads) copy(const uint4* from, uint4* to, std::size_t vectors) {
  const std::size_t step = static_cast<std::size_t>(kThreads) * kDeep;
  for (std::size_t at = blockIdx.x * step + threadIdx.x; at < vectors; at += gridDim.x * step) {
    uint4 v[kDeep];
#pragma unroll
    for (int i = 0; i < kDeep; ++i) v[i] = __ldcs(from + at + static_cast<std::size_t>(i) * kThreads);
#pragma unroll
    for (int i = 0; i < kDeep; ++i) __stcs(to + at + static_cast<std::size_t>(i) * kThreads, v[i]);
  }
}

// Launches kBlocks blocks for each multiprocessor; 0: one block for each stretch.
template <int kDeep, int kBlocks>
int launch_read(void* data, std::size_t bytes, std::uint64_t* sink, int multiprocessors, void* stream) {
  const std::size_t vectors = bytes / sizeof(uint4), stretches = vectors / (kThreads * kDeep);
  const auto blocks = static_cast<unsigned>(kBlocks == 0 ? stretches : kBlocks * multiprocessors);
  read<kDeep>
      <<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const uint4*>(data), vectors, sink);
  return cudaGetLastError();
}
template <int kDeep, int kBlocks>
int launch_write(void* data, std::size_t bytes, std::uint64_t*, int multiprocessors, void* stream) {
  const std::size_t vectors = bytes / sizeof(uint4), stretches = vectors / (kThreads * kDeep);
  const auto blocks = static_cast<unsigned>(kBlocks == 0 ? stretches : kBlocks * multiprocessors);
  write<kDeep><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<uint4*>(data), vectors, 0x1234U);
  return cudaGetLastError();
}

// Copies one half of the buffer to the other, so that each byte is either read or written.
template <int kDeep, int kBlocks>
int launch_copy(void* data, std::size_t bytes, std::uint64_t*, int multiprocessors, void* stream) {
  const std::size_t vectors = bytes / sizeof(uint4) / 2, stretches = vectors / (kThreads * kDeep);
  const auto blocks = static_cast<unsigned>(kBlocks == 0 ? stretches : kBlocks * multiprocessors);
  auto* from = static_cast<uint4*>(data);
  copy<kDeep><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(from, from + vectors, vectors);
  return cudaGetLastError();
}
static_assert(kGpuPassBytes / 2 % (sizeof(uint4) * kThreads * 8) == 0);

constexpr GpuLoop kReads[] = {{"read.4", launch_read<4, 0>},       {"read.8", launch_read<8, 0>},
                              {"read.16", launch_read<16, 0>},     {"read.4.grid8", launch_read<4, 8>},
                              {"read.8.grid8", launch_read<8, 8>}, {"read.16.grid4", launch_read<16, 4>}};
constexpr GpuLoop kWrites[] = {{"write.1", launch_write<1, 0>},
                               {"write.4", launch_write<4, 0>},
                               {"write.8", launch_write<8, 0>},
                               {"write.4.grid8", launch_write<4, 8>}};
constexpr GpuLoop kCopies[] = {{"copy.1", launch_copy<1, 0>},
                               {"copy.4", launch_copy<4, 0>},
                               {"copy.8", launch_copy<8, 0>},
                               {"copy.4.grid8", launch_copy<4, 8>}};

}  // namespace

std::span<const GpuLoop> gpu_read_loops() { return kReads; }
std::span<const GpuLoop> gpu_write_loops() { return kWrites; }
std::span<const GpuLoop> gpu_copy_loops() { return kCopies; }

}  // namespace tern::lab
