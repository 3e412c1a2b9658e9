// The instructions of linear's mma.sync kernels, one function each. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace tern::linear {
namespace {

// --- programmatic dependent launch; no operation before sm_90 ---

// The next kernel on the stream may start; it will still wait for this one before it reads what this one writes.
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Waits until the kernels before this one are done and their writes are visible. Every block must call it.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// --- loads and copies ---

// Loads a lane's 16 bytes of a tile, if wanted. Weights are read once, so L1 does not keep them. They never change, so
// they may be read before wait_for_previous().
__device__ inline void load_weights(uint4& into, const uint4* from, bool wanted) {
  asm volatile(
      "{\n"
      "  .reg .pred p;\n"
      "  setp.ne.b32 p, %5, 0;\n"
      "  @p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}\n"
      : "+r"(into.x), "+r"(into.y), "+r"(into.z), "+r"(into.w)
      : "l"(from), "r"(static_cast<int>(wanted)));
}

// Loads 16 bytes that the kernel before may have written, so not through the read-only cache.
__device__ inline uint4 load_written(const void* from) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
  return v;
}

// Hides the origin of a value from the compiler: the value is computed here, not later, and nothing that depends on it
// is computed earlier.
__device__ inline int opaque(int v) {
  asm volatile("" : "+r"(v));
  return v;
}
__device__ inline unsigned opaque(unsigned v) {
  asm volatile("" : "+r"(v));
  return v;
}
template <class T>
__device__ T* opaque(T* v) {
  asm volatile("" : "+l"(v));
  return v;
}

// The shared memory that the launch asked for.
__device__ inline std::byte* launched_shared() {
  extern __shared__ __align__(128) std::byte bytes[];
  return bytes;
}
__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// Loads four matrices of 8 rows of 16 bytes. Lanes 8i to 8i + 7 pass the addresses of the rows of matrix i. Lane 4g + t
// gets, of each matrix, the four bytes from 4t on of row g: the operand of tokens as mma() wants it.
__device__ inline void load_matrices(unsigned (&into)[4], unsigned row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
               : "r"(row_address)
               : "memory");
}

// --- instruction sets ---

// mma() adds the product of 16 rows of weights and 8 tokens over 32 columns. Lane 4g + t has
//     weights (a)   rows g and g + 8 at columns 4t to 4t + 3, then the same rows 16 columns further
//     tokens (b)    token g at those columns
//     sums (c)      row g at tokens 2t and 2t + 1, then row g + 8
// copy16() copies 16 bytes to shared memory; they can be read after wait_for_copies() and a barrier.
struct Sm75 {
  static constexpr int kArch = 750;
  static __device__ void mma(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    mma8(c[0], c[1], a[0], b0);
    mma8(c[2], c[3], a[1], b0);
    mma8(c[0], c[1], a[2], b1);
    mma8(c[2], c[3], a[3], b1);
  }
  static __device__ void copy16(std::byte* to, const std::byte* from) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  }
  static __device__ void wait_for_copies() {}

 private:
  static __device__ void mma8(int& c0, int& c1, unsigned a, unsigned b) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(c0), "+r"(c1)
        : "r"(a), "r"(b));
  }
};

struct Sm80 {
  static constexpr int kArch = 800;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  static __device__ void mma(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ void copy16(std::byte* to, const std::byte* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
  }
  static __device__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif
};

}  // namespace
}  // namespace tern::linear
