// The record that an op is: what OpTraits<Op> says of its problems, its tensors and the memory that a run touches.
// Plans, `tern explain`, selftests, benches, instruction counts and the tests on a GPU are written once over it.
//
//   kName, Params                 its name; checked arguments, as kernels get them
//   kWords, problem(words)        which words a problem has, and the problem that they mean
//   facts(problem)                checks it, for selection
//   operands(problem, args, see)  the tensors of a call: see(name, view, dtype, shape) for each. Those that a run
//   writes
//                                 are TensorViews. Missing where a call has other things, as packed weights.
//   bind(problem, args, device)   checks the arguments
//   memory(params, see)           what a run reads and writes: see(pointer, Area), see(view) or see(packed weights).
//   The
//                                 pointers are members of params, which see() may replace. Written memory is not const.
//   operations(params)            2*m*n*k of a product; otherwise one for each element
//   kScheme, text(words), without(word)
//                                 where an op's problems are told differently from others': see lab/op_record.cpp
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/enum_set.h"
#include "base/views.h"
#include "format/format.h"
#include "format/ranges.h"
#include "ops/dot/packed_weights.h"
#include "ops/kernel.h"
#include "tern/qparams.h"

namespace tern {

// What can be said of a problem in words, besides its shape and the type of its floats.
enum class Word : std::uint8_t {
  scheme,
  granularity,
  format,
  method,  // how scales are chosen
  m,       // tokens
  // Of products with packed weights:
  math,
  y,  // the type of the results
  precision,
  tuning,
  model,
  baselines,
  window,
};
using Words = EnumSet<Word>;

// A window that moves over images: the filters' axes as [out, in, height, width], the image's size.
struct WindowWords {
  std::array<std::int64_t, 4> filters = {64, 64, 3, 3};
  std::int64_t groups = 1;
  std::int64_t height = 56, width = 56;
  std::array<std::int64_t, 2> stride = {1, 1}, dilation = {1, 1};  // down, across
  std::array<std::int64_t, 4> padding = {1, 1, 1, 1};              // top, bottom, left, right
  bool planes = false, y_planes = false;                           // nchw instead of nhwc: of images, of results
  friend bool operator==(const WindowWords&, const WindowWords&) = default;
};

// A problem as a person gives it: tern explain, tern bench. What is empty is the op's to choose.
struct ProblemWords {
  std::int64_t rows = 0, k = 0;
  std::optional<std::int64_t> m = {};
  std::optional<DType> dtype = {};
  Scheme scheme = Scheme::absmean;
  Granularity granularity = {};
  std::optional<Format> format = {};
  LinearMath math = LinearMath::w2a8;
  DType y_dtype = DType::f32;
  QparamsMethod method = QparamsMethod::absmax;
  std::optional<bool> zero_points = {};  // of affine ops; empty: where the method chooses them
  WindowWords window = {};               // of convolutions
};

// Rows of memory, as many bytes apart as the stride says.
struct Area {
  std::int64_t rows = 0, row_bytes = 0, stride_bytes = 0;
  std::size_t element_bytes = 1;  // a GPU needs elements at multiples of it

  static Area dense(std::int64_t count, std::size_t element) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(element);
    return {1, bytes, bytes, element};
  }
  static Area strided(std::int64_t rows, std::int64_t k, std::int64_t stride, std::size_t element = 1) {
    const auto size = static_cast<std::int64_t>(element);
    return {rows, k * size, stride * size, element};
  }
  [[nodiscard]] std::int64_t bytes() const { return rows * row_bytes; }
  // From the first byte to the end of the last row.
  [[nodiscard]] std::int64_t reach() const { return bytes() == 0 ? 0 : (rows - 1) * stride_bytes + row_bytes; }
};

// Adds up the bytes of a run's memory, each tensor once.
struct ByteCount {
  std::int64_t bytes = 0;
  void operator()(const void* pointer, const Area& area) { bytes += pointer == nullptr ? 0 : area.bytes(); }
  void operator()(const ConstTensorView& view) {
    std::int64_t elements = view.data == nullptr ? 0 : 1;
    for (const std::int64_t size : view.shape.sizes()) elements *= size;
    bytes += elements * element_bytes(view.dtype);
  }
  // As canonical rows, whatever a tile pads.
  void operator()(const PackedWeights::State* w) {
    bytes += w->n * row_bytes(w->format, w->k) + 4 * make_ranges(w->n, w->k, w->granularity).total;
  }
};

template <class Op>
Work work_of(const typename OpTraits<Op>::Params& params) {
  ByteCount count;
  OpTraits<Op>::memory(params, count);
  return {.bytes = count.bytes, .operations = OpTraits<Op>::operations(params)};
}

}  // namespace tern
