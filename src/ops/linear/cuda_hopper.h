// The instructions of sm_90a that kernels of linear use: barriers in shared memory, the copy engine (TMA),
// matrix products of a warpgroup, and registers moved between warpgroups. For .cu files only.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace tern::hopper {
namespace {

__device__ inline unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// --- barriers in shared memory: a phase ends when its arrivals and its announced bytes have come ---

__device__ inline void barrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Call it before other blocks of the cluster, or the copy engine, use a barrier that barrier_init() made.
__device__ inline void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_and_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline bool phase_ended(unsigned barrier, unsigned parity) {
  unsigned ended;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.b32 %0, 1, 0, p;\n\t}"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}
// Waits until the phase of that parity has ended. For a new barrier, the phase of parity 1 has ended.
__device__ inline void wait(unsigned barrier, unsigned parity) {
  while (!phase_ended(barrier, parity)) {
  }
}

// A position in a ring of stages, and the parity of the current phase of its barriers.
template <int kStages>
struct Ring {
  unsigned stage = 0;
  unsigned parity = 0;
  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

// --- numbered barriers of some warps; number 0 is __syncthreads() ---

__device__ inline void sync_threads(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ inline void arrive_threads(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// --- clusters ---

__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release;\n\t"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}
// The two halves of a sync that makes no writes visible. It is enough for reads: a read has ended when its value was
// used.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
// Reads 16 bytes at the same shared address of another block of the cluster.
__device__ inline int4 read_from(unsigned address, unsigned block) {
  int4 v;
  asm volatile(
      "{\n\t.reg .b32 there;\n\t"
      "mapa.shared::cluster.u32 there, %4, %5;\n\t"
      "ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [there];\n\t}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "r"(address), "r"(block)
      : "memory");
  return v;
}

// --- programmatic dependent launch ---

// The next kernel of the stream may start.
__device__ inline void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Waits until the kernel before has ended and its writes are visible.
__device__ inline void wait_for_kernel_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// --- the copy engine: contiguous bytes; their number and both addresses are multiples of 16 ---

__device__ inline void load_bytes(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(reinterpret_cast<std::uint64_t>(from)), "r"(bytes), "r"(barrier)
               : "memory");
}

// --- the copy engine: boxes of two-dimensional tensors; elements outside of the tensor are 0 ---

__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<std::uint64_t>(map)) : "memory");
}
__device__ inline void load_box(unsigned to, const CUtensorMap* map, int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(reinterpret_cast<std::uint64_t>(map)), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
__device__ inline void store_box(const CUtensorMap* map, int x, int y, unsigned from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
                   reinterpret_cast<std::uint64_t>(map)),
               "r"(x), "r"(y), "r"(from)
               : "memory");
}
// Makes a group of the boxes that this thread has stored since the last call.
__device__ inline void store_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most kLeft groups are yet to be read from shared memory.
template <int kLeft>
__device__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}
// Waits until all groups are written.
__device__ inline void wait_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Call it between this thread's writes to shared memory and the copy engine's reads of them.
__device__ inline void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- 8 x 8 matrices of 16-bit elements between registers and rows of 16 bytes, transposed on the way: lane 4g + t
// holds elements g of rows 2t and 2t + 1; lane 8i + r has the address of row r of matrix i ---

// No memory clobber: these stay in order among themselves and before the next fence or barrier, but other loads may
// pass them.
__device__ inline void store_transposed(unsigned to, const unsigned (&m)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(m[0]), "r"(m[1]),
               "r"(m[2]), "r"(m[3]));
}
__device__ inline void load_transposed(unsigned from, unsigned (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(from));
}

// --- registers that a warpgroup returns to the block's pool or takes from it ---

template <int kCount>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// --- products of a warpgroup: d[64 x kN] += a[64 x 32] * b[kN x 32]^T in int8 ---
//
// a in registers: of warp w, lane 4g + t, register i holds row 16w + g + 8 * (i % 2), columns 16 * (i / 2) + 4t ...
// + 3. d: element 4j + i is row 16w + g + 8 * (i / 2), column 8j + 2t + i % 2. b in shared memory, rows of 128 bytes
// whose 16-byte pieces p lie at p ^ (row % 8) (the 128-byte swizzle).

// Makes registers written so far readable by the products that follow.
__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Makes a group of the products since the last call.
__device__ inline void products_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most kLeft groups are unfinished.
template <int kLeft>
__device__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

//      63 62  61    46  45           32  31 30  29        16  15 14  13                0
//     [  1  ][    0   ][ 1024 / 16     ][  0  ][     1      ][  0  ][ address / 16      ]
//      swizzle          from 8 rows to          (unused)
//      128 bytes        the next 8
__device__ inline std::uint64_t operand_at(unsigned address) {
  return std::uint64_t{1} << 62 | std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 16 | (address & 0x3FFFFU) >> 4;
}
constexpr int kOperandStep = 32 / 16;  // to the next 32 columns

#define TERN_R8(d, i)                                                                                                 \
  "+r"((d)[(i)]), "+r"((d)[(i) + 1]), "+r"((d)[(i) + 2]), "+r"((d)[(i) + 3]), "+r"((d)[(i) + 4]), "+r"((d)[(i) + 5]), \
      "+r"((d)[(i) + 6]), "+r"((d)[(i) + 7])
#define TERN_R16(d, i) TERN_R8(d, i), TERN_R8(d, (i) + 8)
#define TERN_R32(d, i) TERN_R16(d, i), TERN_R16(d, (i) + 16)
#define TERN_R64(d, i) TERN_R32(d, i), TERN_R32(d, (i) + 32)
#define TERN_N8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TERN_N16 TERN_N8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TERN_N24 TERN_N16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TERN_N32 TERN_N24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TERN_N40 TERN_N32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TERN_N48 TERN_N40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TERN_N64 TERN_N48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TERN_N128                                                                                            \
  TERN_N64                                                                                                   \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "   \
  "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, "   \
  "%121, %122, %123, %124, %125, %126, %127"

#define TERN_PRODUCT(n, numbers, a, b, ...)                                                               \
  __device__ inline void product(int(&d)[(n) / 2], const unsigned(&r)[4], std::uint64_t operand) {        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k32.s32.s8.s8 {" numbers "}, {" a "}, " b ", 1;" \
                 : __VA_ARGS__                                                                            \
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(operand));                             \
  }
TERN_PRODUCT(16, TERN_N8, "%8, %9, %10, %11", "%12", TERN_R8(d, 0))
TERN_PRODUCT(32, TERN_N16, "%16, %17, %18, %19", "%20", TERN_R16(d, 0))
TERN_PRODUCT(48, TERN_N24, "%24, %25, %26, %27", "%28", TERN_R16(d, 0), TERN_R8(d, 16))
TERN_PRODUCT(64, TERN_N32, "%32, %33, %34, %35", "%36", TERN_R32(d, 0))
TERN_PRODUCT(80, TERN_N40, "%40, %41, %42, %43", "%44", TERN_R32(d, 0), TERN_R8(d, 32))
TERN_PRODUCT(96, TERN_N48, "%48, %49, %50, %51", "%52", TERN_R32(d, 0), TERN_R16(d, 32))
TERN_PRODUCT(128, TERN_N64, "%64, %65, %66, %67", "%68", TERN_R64(d, 0))
TERN_PRODUCT(256, TERN_N128, "%128, %129, %130, %131", "%132", TERN_R64(d, 0), TERN_R64(d, 64))
#undef TERN_PRODUCT
#undef TERN_R8
#undef TERN_R16
#undef TERN_R32
#undef TERN_R64
#undef TERN_N8
#undef TERN_N16
#undef TERN_N24
#undef TERN_N32
#undef TERN_N40
#undef TERN_N48
#undef TERN_N64
#undef TERN_N128

}  // namespace
}  // namespace tern::hopper
