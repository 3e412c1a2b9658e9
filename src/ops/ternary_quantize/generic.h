// The loops of ternary_quantize for every element type. An ISA file instantiates them and exports a table.
#pragma once

#include "ops/ternary_quantize/f32_loops.h"
#include "ops/ternary_quantize/f64_loops.h"
#include "ops/ternary_quantize/half_loops.h"

namespace tern::ternary_quantize {
namespace {

template <class S>
struct Loops {
  static constexpr SimdTable table() {
    return {{F32Loops<S>::loops(), F64Loops::loops(), HalfLoops<S, kF16>::loops(), HalfLoops<S, kBf16>::loops()}};
  }
};

}  // namespace
}  // namespace tern::ternary_quantize
