// Ternary and 2-bit quantization: the two ops with their plans, and quantize()/dequantize() on top of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tern/context.h"
#include "tern/export.h"
#include "tern/plan.h"
#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

// codes, scales = scheme(x). x is [rows, k]; scales are one per tensor, [rows] or [rows, ceil(k/g)], f32.
struct TERN_API TernaryQuantize {
  struct Problem {
    std::int64_t rows = 0;
    std::int64_t k = 0;
    DType dtype = DType::f32;
    Scheme scheme = Scheme::absmean;
    Granularity granularity;
    Format format = Format::i2;
    NonFinite non_finite = NonFinite::reject;
    bool scale_given = false;  // only for Scheme::int2
  };
  struct Args {
    ConstTensorView x;            // any shape of rows*k elements whose last axis is k; rows may be strided
    TensorView codes;             // i2, s2: u8 [rows, ceil(k/4)]; b3: u8 [rows, ceil(k/5)]; i8: i8 [rows, k]
    TensorView scales;            // f32, dense, always written
    ConstTensorView given_scale;  // with scale_given: f32, one element or one per range
  };
};

// y = float(code) * scale. The shapes are those of TernaryQuantize.
struct TERN_API TernaryDequantize {
  struct Problem {
    std::int64_t rows = 0;
    std::int64_t k = 0;
    DType dtype = DType::f32;         // of y
    Scheme scheme = Scheme::absmean;  // decides which codes are valid
    Granularity granularity;
    Format format = Format::i2;
  };
  struct Args {
    ConstTensorView codes;
    ConstTensorView scales;
    TensorView y;
  };
};

extern template class Plan<TernaryQuantize>;
extern template class Plan<TernaryDequantize>;
using TernaryQuantizePlan = Plan<TernaryQuantize>;
using TernaryDequantizePlan = Plan<TernaryDequantize>;

// How close the dequantized values are to the input. Undefined figures (0/0) are empty.
struct Quality {
  std::optional<double> sqnr_db = {};  // infinite when nothing was lost
  std::optional<double> cosine = {};
  double zero_fraction = 0;  // share of codes that are 0
};

// A limit that is set and missed fails the call with Code::quality_below_limit.
struct Tolerance {
  std::optional<double> min_sqnr_db = {};
  std::optional<double> min_cosine = {};
  std::optional<double> max_zero_fraction = {};
  [[nodiscard]] bool any() const { return min_sqnr_db || min_cosine || max_zero_fraction; }
};

struct QuantizeOptions {
  Scheme scheme = Scheme::absmean;
  Granularity granularity = {};
  std::optional<Format> format = {};  // empty: default_format(scheme)
  NonFinite non_finite = NonFinite::reject;
  std::span<const float> scale = {};  // int2 only: one, or one per range; empty: computed
  Tolerance tolerance = {};
  bool measure_quality = false;  // implied by a tolerance; of tensors on the host
  Preference preference = {};
  std::size_t device_bytes = std::size_t{256} << 20;  // of a GPU, for a tensor that lies on the host
};

// Codes, scales and what they mean, together.
struct QuantizedTensor {
  Tensor codes;   // u8 [rows, ceil(k/4)] for i2 and s2, [rows, ceil(k/5)] for b3; i8 [rows, k] for i8
  Tensor scales;  // f32 [1], [rows, 1] or [rows, ceil(k/g)]
  Shape shape;    // of the original
  Scheme scheme = Scheme::absmean;
  Format format = Format::i2;
  Granularity granularity = {};
  std::string kernel = {};              // which kernel made it; empty when it was read from a file
  std::optional<Quality> quality = {};  // when it was asked for

  [[nodiscard]] std::span<const std::uint8_t> quantized_data() const { return codes.as<const std::uint8_t>(); }
  [[nodiscard]] std::span<const float> scale_values() const { return scales.as<const float>(); }
  [[nodiscard]] TERN_API std::int64_t rows() const;
  [[nodiscard]] TERN_API std::int64_t k() const;
  [[nodiscard]] TERN_API std::int64_t block_size() const;  // elements that share a scale (the last block may be short)
  // XXH64 of the codes, then the scales, where they lie on the host; 0 on a GPU.
  [[nodiscard]] TERN_API std::uint64_t checksum() const;
};

// Quantizes a whole tensor into memory of the context and waits for it. An empty tensor is Code::empty_input. On a GPU
// a tensor that lies on the host goes through device_bytes of it piece by piece, copies and kernels side by side, and
// the result lies on the host, too; by tensor it must fit at once.
TERN_API Result<QuantizedTensor> quantize(const Context&, const ConstTensorView& x, const QuantizeOptions& = {});

// The reverse, into memory of the context; on a GPU, what lies on the host comes back to the host. Refuses a tensor
// that validate() refuses.
TERN_API Result<Tensor> dequantize(const Context&, const QuantizedTensor&, DType dtype = DType::f32);

// Every shape fits, every code is one of its scheme, every scale is finite and positive; else the first that is not.
TERN_API Status validate(const QuantizedTensor&);

// Compares x with what the codes say, over the whole tensor.
TERN_API Result<Quality> measure_quality(const Context&, const ConstTensorView& x, const QuantizedTensor&,
                                         NonFinite non_finite = NonFinite::reject);

}  // namespace tern
