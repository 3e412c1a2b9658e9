// Loops of matrix instructions only: the peak of a GPU's arithmetic. Operands are in registers; wgmma reads its second
// one from shared memory.
#include <cuda_runtime.h>

#include "lab/gpu_loops.h"

namespace tern::lab {
namespace {

constexpr int kWarp = 32;

// Bits without a pattern, because arithmetic on zeros takes less power and runs faster.
__device__ unsigned scrambled(unsigned v) {
  v = (v ^ 61U) ^ (v >> 16);
  v *= 9U;
  v ^= v >> 4;
  v *= 0x27D4EB2DU;
  return v ^ (v >> 15);
}
// The same as two bf16 between 1 and 2, of either sign.
[[maybe_unused]] __device__ unsigned scrambled_bf16(unsigned v) { return (scrambled(v) & 0x807F807FU) | 0x3F803F80U; }

// --- instructions of one warp, from sm_80 on ---

constexpr int kWarps = 8, kChains = 8, kSteps = 4096;

template <bool kInt8>
__global__ void __launch_bounds__(kWarp* kWarps) warp_products([[maybe_unused]] std::uint64_t* sink) {
#if __CUDA_ARCH__ >= 800
  unsigned a[4], b[kChains][2], d[kChains][4] = {};
  for (int i = 0; i < 4; ++i) {
    const unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 64U + static_cast<unsigned>(i);
    a[i] = kInt8 ? scrambled(at) : scrambled_bf16(at);
  }
  for (int c = 0; c < kChains; ++c)
    for (int i = 0; i < 2; ++i) {
      const unsigned at = (threadIdx.x * 64U + static_cast<unsigned>(2 * c + i)) * 7U;
      b[c][i] = kInt8 ? scrambled(at) : scrambled_bf16(at);
    }
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
      if constexpr (kInt8)
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+r"(d[c][0]), "+r"(d[c][1]), "+r"(d[c][2]), "+r"(d[c][3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[c][0]), "r"(b[c][1]));
      else
        asm volatile(
            "{.reg .f32 f<4>; mov.b32 f0, %0; mov.b32 f1, %1; mov.b32 f2, %2; mov.b32 f3, %3; "
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {f0, f1, f2, f3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {f0, f1, f2, f3}; "
            "mov.b32 %0, f0; mov.b32 %1, f1; mov.b32 %2, f2; mov.b32 %3, f3;}"
            : "+r"(d[c][0]), "+r"(d[c][1]), "+r"(d[c][2]), "+r"(d[c][3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[c][0]), "r"(b[c][1]));
    }
  unsigned all = 0;
  for (const auto& chain : d) all ^= chain[0] ^ chain[1] ^ chain[2] ^ chain[3];
  if (all == 0x5EED5EEDU) *sink = all;
#endif
}

// --- instructions of four warps, sm_90a: 64 x 128 x 32 bytes, the first operand from registers ---

constexpr int kGroup = 128, kGroups = 2;

template <bool kInt8>
__device__ void group_product([[maybe_unused]] unsigned (&d)[64], [[maybe_unused]] const unsigned (&a)[4],
                              [[maybe_unused]] std::uint64_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TERN_SUMS(C)                                                                                                \
  C(d[0]), C(d[1]), C(d[2]), C(d[3]), C(d[4]), C(d[5]), C(d[6]), C(d[7]), C(d[8]), C(d[9]), C(d[10]), C(d[11]),     \
      C(d[12]), C(d[13]), C(d[14]), C(d[15]), C(d[16]), C(d[17]), C(d[18]), C(d[19]), C(d[20]), C(d[21]), C(d[22]), \
      C(d[23]), C(d[24]), C(d[25]), C(d[26]), C(d[27]), C(d[28]), C(d[29]), C(d[30]), C(d[31]), C(d[32]), C(d[33]), \
      C(d[34]), C(d[35]), C(d[36]), C(d[37]), C(d[38]), C(d[39]), C(d[40]), C(d[41]), C(d[42]), C(d[43]), C(d[44]), \
      C(d[45]), C(d[46]), C(d[47]), C(d[48]), C(d[49]), C(d[50]), C(d[51]), C(d[52]), C(d[53]), C(d[54]), C(d[55]), \
      C(d[56]), C(d[57]), C(d[58]), C(d[59]), C(d[60]), C(d[61]), C(d[62]), C(d[63])
  if constexpr (kInt8)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1;"
        : TERN_SUMS("+r")
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
        : TERN_SUMS("+r")
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#undef TERN_SUMS
#endif
}

template <bool kInt8>
__global__ void __launch_bounds__(kGroup* kGroups, 1) group_products([[maybe_unused]] std::uint64_t* sink) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kRows = 128, kBytes = 128;  // of the second operand
  __shared__ __align__(1024) unsigned second[kRows * kBytes / 4];
  for (unsigned i = threadIdx.x; i < kRows * kBytes / 4; i += blockDim.x)
    second[i] = kInt8 ? scrambled(i) : scrambled_bf16(i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  unsigned a[4], d[64] = {};
  for (unsigned i = 0; i < 4; ++i) a[i] = kInt8 ? scrambled(threadIdx.x * 4 + i) : scrambled_bf16(threadIdx.x * 4 + i);
  // Rows of 128 bytes swizzled by 128, eight rows 1024 bytes apart.
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(second));
  const std::uint64_t b =
      (address & 0x3FFFFU) >> 4 | std::uint64_t{1} << 16 | std::uint64_t{64} << 32 | std::uint64_t{1} << 62;
  for (int step = 0; step < kSteps; ++step) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 4; ++i) group_product<kInt8>(d, a, b + static_cast<std::uint64_t>(2 * i));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  unsigned all = 0;
  for (const unsigned sum : d) all ^= sum;
  if (all == 0x5EED5EEDU) *sink = all;
#endif
}

template <auto* kKernel, int kThreads, int kBlocks>
int launch(std::uint64_t* sink, int multiprocessors, void* stream) {
  kKernel<<<static_cast<unsigned>(kBlocks * multiprocessors), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(sink);
  return cudaGetLastError();
}

// Operations per multiprocessor and launch.
constexpr double warp_operations(int k) { return 2.0 * 16 * 8 * k * kChains * kSteps * kWarps * 2; }
constexpr double group_operations(int k) { return 2.0 * 64 * 128 * k * 4 * kSteps * kGroups; }

constexpr GpuComputeLoop kInt8[] = {
    {"wgmma.m64n128k32", 90, group_operations(32), launch<group_products<true>, kGroup * kGroups, 1>},
    {"mma.m16n8k32", 80, warp_operations(32), launch<warp_products<true>, kWarp * kWarps, 2>}};
constexpr GpuComputeLoop kBf16[] = {
    {"wgmma.m64n128k16", 90, group_operations(16), launch<group_products<false>, kGroup * kGroups, 1>},
    {"mma.m16n8k16", 80, warp_operations(16), launch<warp_products<false>, kWarp * kWarps, 2>}};

}  // namespace

std::span<const GpuComputeLoop> gpu_int8_loops() { return kInt8; }
std::span<const GpuComputeLoop> gpu_bf16_loops() { return kBf16; }

}  // namespace tern::lab
