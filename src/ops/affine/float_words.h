// Loads f32, f16 and bf16 elements as vectors of f32 and stores them back, for any SIMD instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"

namespace tern::affine {
namespace {

template <int kType>
struct ElementOf {
  using Type = std::uint16_t;
};
template <>
struct ElementOf<kF32> {
  using Type = float;
};
template <int kType>
using Element = typename ElementOf<kType>::Type;

template <class S>
struct Floats {
  using F = typename S::F;

  template <int kType>
  static F load(const Element<kType>* x) {
    if constexpr (kType == kF16)
      return S::load_f16(x);
    else if constexpr (kType == kBf16)
      return S::load_bf16(x);
    else
      return S::load(x);
  }
  template <int kType>
  static void store(Element<kType>* y, F v) {
    if constexpr (kType == kF16)
      S::store_f16(y, v);
    else if constexpr (kType == kBf16)
      S::store_bf16(y, v);
    else
      S::store(y, v);
  }
};

}  // namespace
}  // namespace tern::affine
