// What CUDA kernels of several ops share: the four float element types, quads of elements, reports of bad data, and
// cheap integer division. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/cuda_launch.h"
#include "tern/types.h"

namespace tern::cuda {
namespace {

// An element type: Raw holds its bits, and its schemes compute in Math. widen() is exact; round() rounds to nearest
// even and keeps denormals. Neither depends on --fmad or --ftz.
struct F32 {
  using Raw = float;
  using Math = float;
  static __device__ float widen(Raw v) { return v; }
  static __device__ Raw round(float v) { return v; }
  static __device__ float largest() { return __uint_as_float(0x7F7FFFFFU); }
};
struct F64 {
  using Raw = double;
  using Math = double;
  static __device__ double widen(Raw v) { return v; }
  static __device__ Raw round(double v) { return v; }
  static __device__ double largest() { return __longlong_as_double(0x7FEFFFFFFFFFFFFFLL); }
};
struct Bf16 {
  using Raw = std::uint16_t;
  using Math = float;
  static __device__ float widen(Raw v) { return __uint_as_float(static_cast<unsigned>(v) << 16); }
  static __device__ Raw round(float v) {  // v is never NaN
    const unsigned bits = __float_as_uint(v);
    return static_cast<Raw>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
  // Rounds two values; the first goes to the low half.
  static __device__ unsigned round_pair(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    return both;
#else
    return round(a) | static_cast<unsigned>(round(b)) << 16;
#endif
  }
  static __device__ float largest() { return widen(0x7F7F); }
};
struct F16 {
  using Raw = std::uint16_t;
  using Math = float;
  static __device__ float widen(Raw v) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v));
    return wide;
  }
  static __device__ Raw round(float v) {
    Raw half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(v));
    return half;
  }
  static __device__ unsigned round_pair(float a, float b) { return round(a) | static_cast<unsigned>(round(b)) << 16; }
  static __device__ float largest() { return 65504.0F; }
};

// Calls f<E>() with the element type of `dtype`.
template <class F>
int with_element(DType dtype, F f) {
  switch (dtype) {
    case DType::f64: return f.template operator()<F64>();
    case DType::f16: return f.template operator()<F16>();
    case DType::bf16: return f.template operator()<Bf16>();
    default: return f.template operator()<F32>();
  }
}

__device__ inline bool finite(float v) { return (__float_as_uint(v) & 0x7FFFFFFFU) < 0x7F800000U; }
__device__ inline bool finite(double v) {
  return (static_cast<unsigned>(__double2hiint(v)) & 0x7FFFFFFFU) < 0x7FF00000U;
}

// NaN becomes +0, an infinity the largest finite value of its sign.
template <class E>
__device__ typename E::Math saturated(typename E::Math v) {
  if (finite(v)) return v;
  if (v != v) return 0;
  return v > 0 ? E::largest() : -E::largest();
}

// Where a kernel reports what it found.
struct Report {
  std::uint64_t* status;
  std::uint64_t call;
  __device__ void operator()(Finding kind, std::int64_t index) const {
    atomicMin(reinterpret_cast<unsigned long long*>(status), finding(call, kind, index));
  }
};
inline Report report_of(const Launch& launch) { return {launch.status, launch.call}; }

// Four neighbouring elements, aligned to their total size (at most to 16 bytes) so that vector loads can read them.
template <class E>
struct alignas(sizeof(typename E::Raw) * 4 > 16 ? 16 : sizeof(typename E::Raw) * 4) Quad {
  typename E::Raw v[4];
};
template <class E>
inline bool quads_aligned(const void* x, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(x) % alignof(Quad<E>) == 0 &&
         stride * sizeof(typename E::Raw) % alignof(Quad<E>) == 0;
}

// Quotient and remainder of numbers that are not negative. Divides in 32 bits if both fit, as for most tensors: that is
// far cheaper.
__device__ inline std::int64_t divide(std::int64_t a, std::int64_t b, std::int64_t& rest) {
  const std::int64_t quotient = (a | b) >> 32 == 0 ? static_cast<unsigned>(a) / static_cast<unsigned>(b) : a / b;
  rest = a - quotient * b;
  return quotient;
}

// Divides numbers below 2^31 by a fixed divisor, at most 2^31, with a multiplication and a shift. With 2^shift >=
// divisor and factor = ceil(2^(31 + shift) / divisor), n * factor / 2^(31 + shift) exceeds n / divisor by less than
// 1 / divisor, so both have the same floor.
struct Divisor {
  std::uint32_t factor = 0;
  int shift = 0;
  Divisor() = default;
  explicit Divisor(std::int64_t divisor) {
    while ((std::int64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<std::uint32_t>(((std::int64_t{1} << (31 + shift)) + divisor - 1) / divisor);
  }
  __device__ std::uint32_t quotient(std::uint32_t n) const { return __umulhi(n << 1, factor) >> shift; }
};
constexpr std::int64_t kDivisible = std::int64_t{1} << 31;  // quotient() takes numbers below this

}  // namespace
}  // namespace tern::cuda
