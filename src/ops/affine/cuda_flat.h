// A fast path on GPUs for dense tensors of floats no wider than f32. Vectors are numbered from first to last, and a
// fixed number of consecutive vectors share each scale. Whether a vector needs a division, a saturation or a report is
// tested once per vector. For .cu files only.
#pragma once

#include "ops/affine/cuda_lines.h"

namespace tern::affine {
namespace {

struct Flat {
  std::uint32_t vectors = 0;  // 0: the problem does not fit this path
  cuda::Divisor by_run = {};  // divides by the number of vectors that share a scale
  bool plain = false;         // f32 scales, no zero points

  [[nodiscard]] unsigned blocks() const { return (vectors + kThreads * kVectors - 1) / (kThreads * kVectors); }
  [[nodiscard]] __device__ std::uint32_t scale_of(std::uint32_t vector) const { return by_run.quotient(vector); }
};

// The number of the thread's vector i.
__device__ inline std::uint32_t flat_vector(int i) {
  return blockIdx.x * (kThreads * kVectors) + static_cast<unsigned>(i) * kThreads + threadIdx.x;
}

// Checks the first `tensors` tensors of the walk, and its codes if `codes` is set.
template <class E>
Flat flat_of(const Walk& walk, std::size_t tensors, bool codes) {
  const Lines& lines = walk.lines;
  const std::int64_t elements = lines.count * lines.k;
  bool dense = walk.one_each;
  for (std::size_t t = 0; t < tensors; ++t) {
    const Lines::Strides& of = lines.tensors[t];
    dense = dense && walk.access[t].whole && (lines.count == 1 || (lines.leading == 1 && of.leading[0] == lines.k));
  }
  if (codes)
    dense = dense && walk.codes.whole && (lines.count == 1 || lines.code_bytes * 8 == lines.k * walk.codes.bits);
  if (!dense || elements == 0 || elements % kElems<E> != 0 || elements / kElems<E> >= cuda::kDivisible) return {};

  std::int64_t run = elements;
  if (lines.run == Lines::Run::groups) {
    if (lines.count > 1 && lines.k % lines.group != 0) return {};
    run = std::min(lines.group, elements);
  } else if (lines.axis_step != 0) {
    run = lines.below * lines.k;
    if (lines.axis * lines.below < lines.count) return {};  // the scales repeat
  }
  if (run % kElems<E> != 0) return {};
  return {.vectors = static_cast<std::uint32_t>(elements / kElems<E>),
          .by_run = cuda::Divisor(run / kElems<E>),
          .plain = walk.scales_f32 && walk.zero_points == nullptr};
}

template <class E>
__device__ Vector<E> flat_read(const void* x, std::uint32_t vector) {
  const uint4 four = __ldcs(static_cast<const uint4*>(x) + vector);
  return {{four.x, four.y, four.z, four.w}};
}
template <class E>
__device__ void flat_write(void* y, std::uint32_t vector, const Vector<E>& v) {
  __stcs(static_cast<uint4*>(y) + vector, make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]));
}

// Reads and writes the codes of a vector of 4 or 8 elements, kBits bits each.
template <class E, int kBits>
struct FlatCodes {
  using Word = std::conditional_t<kElems<E> * kBits == 64, uint2,
                                  std::conditional_t<kElems<E> * kBits == 32, unsigned, std::uint16_t>>;
  static __device__ void write(std::uint8_t* to, std::uint32_t vector, const Codes<E>& codes) {
    Word word;
    if constexpr (kElems<E> * kBits == 64)
      word = make_uint2(codes.w[0], codes.w[1]);
    else if constexpr (kElems<E> == 8)
      word = narrowed(codes.w[0], kBits) | narrowed(codes.w[1], kBits) << (4 * kBits);
    else
      word = static_cast<Word>(narrowed(codes.w[0], kBits));
    reinterpret_cast<Word*>(to)[vector] = word;
  }
  static __device__ Codes<E> widen(Word word) {
    Codes<E> codes;
    if constexpr (kElems<E> * kBits == 64) {
      codes.w[0] = word.x, codes.w[1] = word.y;
    } else {
      codes.w[0] = widened(word, kBits);
      if constexpr (kElems<E> == 8) codes.w[1] = widened(word >> (4 * kBits), kBits);
    }
    return codes;
  }
};

// A scale and a zero point as loaded, not yet checked; kPlain is Flat::plain.
template <class E, bool kPlain>
struct FlatGiven {
  static constexpr bool kMayBeNarrow = !kPlain && sizeof(typename E::Raw) == 2;
  unsigned bits = 0;  // the raw scale, converted only on use, so that the next vector's load need not wait for it
  int zero = 0;

  __device__ void read(const Walk& walk, std::uint32_t at) {
    if (kMayBeNarrow && !walk.scales_f32)
      bits = static_cast<const std::uint16_t*>(walk.scales)[at];
    else
      bits = static_cast<const unsigned*>(walk.scales)[at];
    if (!kPlain && walk.zero_points != nullptr) zero = walk.zero_points[at];
  }
  [[nodiscard]] __device__ float scale(const Walk& walk) const {
    if constexpr (kMayBeNarrow)
      if (!walk.scales_f32) return E::widen(static_cast<typename E::Raw>(bits));
    return __uint_as_float(bits);
  }
  [[nodiscard]] __device__ bool zero_is_code(const Walk& walk) const {
    return kPlain || static_cast<unsigned>(zero - walk.q.min) <= static_cast<unsigned>(walk.q.max - walk.q.min);
  }
  // If the scale or the zero point is invalid, quick() of the result always fails.
  [[nodiscard]] __device__ Rounding<float> rounding(const Walk& walk) const {
    const float of_zero = kPlain ? 0.0F : static_cast<float>(zero);
    Rounding<float> made(scale(walk), walk.reciprocal, static_cast<float>(walk.q.min - walk.beyond) - of_zero,
                         static_cast<float>(walk.q.max + walk.beyond) - of_zero);
    if (!zero_is_code(walk)) made.distrust();
    return made;
  }
};

// Computes the rounded integers of a vector, each plus kWhole. Returns whether they are valid.
template <class E>
__device__ bool flat_quick(const Rounding<float>& rounding, const Vector<E>& v, float (&sums)[kElems<E>]) {
  float x[kElems<E>];
#pragma unroll
  for (int j = 0; j < kElems<E>; ++j) x[j] = v.value(j);
  return rounding.quick(x, sums);
}

// Calls store(vector, sums, zero point, rounding) for each of the thread's vectors. Vectors that need more than
// products are read again and handled last.
template <class E, bool kPlain, class Store>
__device__ void flat_round(const Walk& walk, const Flat& flat, const void* x, Store store) {
  Vector<E> vectors[kVectors];
  FlatGiven<E, kPlain> given[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::uint32_t at = flat_vector(i);
    if (at >= flat.vectors) break;
    vectors[i] = flat_read<E>(x, at);
    given[i].read(walk, flat.scale_of(at));
  }
  unsigned again = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::uint32_t at = flat_vector(i);
    if (at >= flat.vectors) break;
    const Rounding<float> rounding = given[i].rounding(walk);
    float sums[kElems<E>];
    if (flat_quick(rounding, vectors[i], sums))
      store(at, sums, given[i].zero, rounding);
    else
      again |= 1U << i;
  }
#pragma unroll 1
  for (; again != 0; again &= again - 1) {
    const std::uint32_t at = flat_vector(__ffs(static_cast<int>(again)) - 1);
    const By<E, float> by(walk, flat.scale_of(at));  // reports an invalid scale or zero point
    Vector<E> v = flat_read<E>(x, at);
    if (!v.finite()) v.mend(walk.report, walk.saturate, std::int64_t{at} * kElems<E>);
    float sums[kElems<E>];
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j) sums[j] = by.rounding.sum(v.value(j));
    store(at, sums, by.given.zero, by.rounding);
  }
}

}  // namespace
}  // namespace tern::affine
