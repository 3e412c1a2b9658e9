// Vectors of floats and of their codes, as the CUDA kernels of the affine ops read and write them: 16 bytes of floats,
// at least four elements, so that their codes fill whole bytes in every format. For .cu files only.
#pragma once

#include <type_traits>

#include "ops/cuda_words.h"

namespace tern::affine {
namespace {

template <class E>
constexpr int kElems = sizeof(typename E::Raw) == 2 ? 8 : 4;

// How to access a tensor along a line: elements are `stride` apart; `whole` means that vectors are contiguous and
// 16-byte aligned.
struct Access {
  std::int64_t stride = 1;
  bool whole = false;
};

template <class E>
struct Vector {
  using Raw = typename E::Raw;
  using Math = typename E::Math;
  static constexpr int kWords = kElems<E> * static_cast<int>(sizeof(Raw)) / 4;
  unsigned w[kWords];

  [[nodiscard]] __device__ Raw raw(int j) const {
    if constexpr (sizeof(Raw) == 2)
      return static_cast<Raw>(w[j / 2] >> (16 * (j % 2)));
    else if constexpr (sizeof(Raw) == 4)
      return __uint_as_float(w[j]);
    else
      return __hiloint2double(static_cast<int>(w[2 * j + 1]), static_cast<int>(w[2 * j]));
  }
  [[nodiscard]] __device__ Math value(int j) const {
    if constexpr (std::is_same_v<E, cuda::Bf16>)
      return __uint_as_float(j % 2 == 0 ? w[j / 2] << 16 : w[j / 2] & 0xFFFF0000U);
    else
      return E::widen(raw(j));
  }
  // The words must be 0 before the first set(): 16-bit elements are ORed in.
  __device__ void set(int j, Raw v) {
    if constexpr (sizeof(Raw) == 2) {
      w[j / 2] |= static_cast<unsigned>(v) << (16 * (j % 2));
    } else if constexpr (sizeof(Raw) == 4) {
      w[j] = __float_as_uint(v);
    } else {
      w[2 * j] = static_cast<unsigned>(__double2loint(v));
      w[2 * j + 1] = static_cast<unsigned>(__double2hiint(v));
    }
  }
  // Sets all elements, each rounded once.
  __device__ void round(const Math (&v)[kElems<E>]) {
    if constexpr (sizeof(Raw) == 2) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) w[i] = E::round_pair(v[2 * i], v[2 * i + 1]);
    } else {
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) set(j, v[j]);
    }
  }

  // Reads n elements of a line from `column` on; sets the others to 0.
  __device__ void read(const void* line, const Access& access, std::int64_t column, int n) {
    const auto* from = static_cast<const Raw*>(line) + column * access.stride;
    if (access.whole && n == kElems<E>) {
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i) {
        const uint4 four = __ldcs(reinterpret_cast<const uint4*>(from) + i);
        w[4 * i] = four.x, w[4 * i + 1] = four.y, w[4 * i + 2] = four.z, w[4 * i + 3] = four.w;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) w[i] = 0;
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j)
      if (j < n) set(j, from[j * access.stride]);
  }
  __device__ void write(void* line, const Access& access, std::int64_t column, int n) const {
    auto* to = static_cast<Raw*>(line) + column * access.stride;
    if (access.whole && n == kElems<E>) {
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i)
        __stcs(reinterpret_cast<uint4*>(to) + i, make_uint4(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]));
      return;
    }
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j)
      if (j < n) to[j * access.stride] = raw(j);
  }

  // 0 * x is NaN if x is not finite, and NaN stays in the sum.
  [[nodiscard]] __device__ bool finite() const {
    Math sum = 0;
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j) sum = fma(value(j), Math{0}, sum);
    return sum == 0;
  }
  // Saturates the non-finite elements, or reports the first of them; `index` is the row-major index of element 0.
  __device__ void mend(const cuda::Report& report, bool saturate, std::int64_t index) {
    int bad = 0;
    Vector mended{};
#pragma unroll
    for (int j = kElems<E> - 1; j >= 0; --j) {
      if (!cuda::finite(value(j))) bad = j;
      mended.set(j, E::round(cuda::saturated<E>(value(j))));
    }
    if (saturate)
      *this = mended;
    else
      report(cuda::kNonFinite, index + bad);
  }
};

// How to access codes of 8 bits or fewer: `whole` means that a vector's codes are aligned to their size.
struct CodeAccess {
  int bits = 8;
  bool whole = false;
};

// narrowed() packs four codes of one byte each into `bits` bits each, the first in the low bits; widened() is the
// inverse.
__device__ inline unsigned narrowed(unsigned bytes, int bits) {
  if (bits == 8) return bytes;
  if (bits == 4) {
    bytes &= 0x0F0F0F0FU;
    bytes = (bytes | bytes >> 4) & 0x00FF00FFU;
    return (bytes | bytes >> 8) & 0xFFFFU;
  }
  bytes &= 0x03030303U;
  bytes = (bytes | bytes >> 6) & 0x000F000FU;
  return (bytes | bytes >> 12) & 0xFFU;
}
__device__ inline unsigned widened(unsigned codes, int bits) {
  if (bits == 8) return codes;
  if (bits == 4) {
    codes &= 0xFFFFU;  // the upper bits belong to the next four codes
    codes = (codes | codes << 8) & 0x00FF00FFU;
    return (codes | codes << 4) & 0x0F0F0F0FU;
  }
  codes = (codes | codes << 12) & 0x000F000FU;
  return (codes | codes << 6) & 0x03030303U;
}

__device__ inline unsigned low_bits(float v) { return __float_as_uint(v); }
__device__ inline unsigned low_bits(double v) { return static_cast<unsigned>(__double2loint(v)); }

// The codes of a vector: one or two words of four bytes each.
template <class E>
struct Codes {
  static constexpr int kWords = kElems<E> / 4;
  unsigned w[kWords];

  // Takes the low byte of code[j] for each element j. Bytes from element n on become 0, the padding.
  __device__ void take(const unsigned (&code)[kElems<E>], int n) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      w[i] = __byte_perm(__byte_perm(code[4 * i], code[4 * i + 1], 0x0040),
                         __byte_perm(code[4 * i + 2], code[4 * i + 3], 0x0040), 0x5410);
      if (n < 4 * i + 4) w[i] &= n <= 4 * i ? 0U : (1U << (8 * (n - 4 * i))) - 1;
    }
  }
  // Takes integers that were each added to kWhole, whose lowest bits are 0, and adds the zero point.
  template <class Math>
  __device__ void take_sums(const Math (&sums)[kElems<E>], int zero, int n = kElems<E>) {
    unsigned code[kElems<E>];
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j) code[j] = low_bits(sums[j]) + static_cast<unsigned>(zero);
    take(code, n);
  }
  // Writes the codes of a vector of n elements that begins at this column of a line.
  __device__ void write(std::uint8_t* line, const CodeAccess& access, std::int64_t column, int n) const {
    const int bits = access.bits;
    std::uint8_t* to = line + column * bits / 8;
    std::uint64_t all = narrowed(w[0], bits);
    if constexpr (kWords == 2) all |= static_cast<std::uint64_t>(narrowed(w[1], bits)) << (4 * bits);
    if (access.whole && n == kElems<E>) {
      const auto low = static_cast<unsigned>(all);
      switch (kWords * bits / 2) {  // bytes
        case 1: *to = static_cast<std::uint8_t>(low); return;
        case 2: *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(low); return;
        case 4: *reinterpret_cast<unsigned*>(to) = low; return;
        default: *reinterpret_cast<uint2*>(to) = make_uint2(low, static_cast<unsigned>(all >> 32)); return;
      }
    }
#pragma unroll 1
    for (int i = 0; i < (n * bits + 7) / 8; ++i) to[i] = static_cast<std::uint8_t>(all >> (8 * i));
  }
  __device__ void read(const std::uint8_t* line, const CodeAccess& access, std::int64_t column, int n) {
    const int bits = access.bits;
    const std::uint8_t* from = line + column * bits / 8;
    std::uint64_t all = 0;
    if (access.whole && n == kElems<E>) {
      switch (kWords * bits / 2) {
        case 1: all = *from; break;
        case 2: all = *reinterpret_cast<const std::uint16_t*>(from); break;
        case 4: all = *reinterpret_cast<const unsigned*>(from); break;
        default: {
          const uint2 two = *reinterpret_cast<const uint2*>(from);
          all = two.x | static_cast<std::uint64_t>(two.y) << 32;
        }
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < (n * bits + 7) / 8; ++i) all |= static_cast<std::uint64_t>(from[i]) << (8 * i);
    }
    w[0] = widened(static_cast<unsigned>(all), bits);
    if constexpr (kWords == 2) w[1] = widened(static_cast<unsigned>(all >> (4 * bits)), bits);
  }
};

}  // namespace
}  // namespace tern::affine
