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
  std::optional<Format> format = {};  // none: default_format(scheme)
  NonFinite non_finite = NonFinite::reject;
  std::span<const float> scale = {};  // only for int2: one, or one per range; empty: computed
  Tolerance tolerance = {};
  bool measure_quality = false;  // a tolerance implies it; for tensors on the host
  Preference preference = {};
  std::size_t device_bytes = std::size_t{256} << 20;  // memory on a GPU for quantizing a tensor that is on the host
  // On a GPU, before any work: Context::ensure_ready() of what the call will take there, so that it fails with
  // insufficient_memory at once and not half done.
  bool ensure_ready = true;
  // validate() of what was written, before it is returned. Kernels write nothing else, so this is for machines that are
  // not trusted: a pass over the codes on the host, to which those of a GPU are copied.
  bool validate = false;
};

// Codes, scales and what they mean, together.
struct QuantizedTensor {
  Tensor codes;   // u8 [rows, ceil(k/4)] for i2 and s2, [rows, ceil(k/5)] for b3; i8 [rows, k] for i8
  Tensor scales;  // f32 [1], [rows, 1] or [rows, ceil(k/g)]
  Shape shape;    // of the original
  Scheme scheme = Scheme::absmean;
  Format format = Format::i2;
  Granularity granularity = {};
  std::string kernel = {};              // the kernel that made it; empty if it was read from a file
  std::optional<Quality> quality = {};  // if it was requested

  [[nodiscard]] std::span<const std::uint8_t> quantized_data() const { return codes.as<const std::uint8_t>(); }
  [[nodiscard]] std::span<const float> scale_values() const { return scales.as<const float>(); }
  [[nodiscard]] TERN_API std::int64_t rows() const;
  [[nodiscard]] TERN_API std::int64_t k() const;
  [[nodiscard]] TERN_API std::int64_t block_size() const;  // elements that share a scale (the last block may be short)
  // XXH64 of the codes followed by the scales, if they are on the host; 0 on a GPU.
  [[nodiscard]] TERN_API std::uint64_t checksum() const;
};

// Quantizes a whole tensor into memory of the context and waits for it. An empty tensor is Code::empty_input. With a
// GPU context, a tensor on the host is copied and quantized in pieces that fit into device_bytes, copies and kernels
// overlapping, and the result is on the host, too. By tensor, everything must fit at once.
TERN_API Result<QuantizedTensor> quantize(const Context&, const ConstTensorView& x, const QuantizeOptions& = {});

// The reverse, into memory of the context. With a GPU context, what was on the host comes back to the host. Refuses a
// tensor that validate() refuses.
TERN_API Result<Tensor> dequantize(const Context&, const QuantizedTensor&, DType dtype = DType::f32);

// Checks that all shapes fit, every code is valid for its scheme, and every scale is finite and positive; the error
// names the first that is not.
TERN_API Status validate(const QuantizedTensor&);

// Compares x with the dequantized values, over the whole tensor.
TERN_API Result<Quality> measure_quality(const Context&, const ConstTensorView& x, const QuantizedTensor&,
                                         NonFinite non_finite = NonFinite::reject);

}  // namespace tern
