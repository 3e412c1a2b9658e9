// The float type of a layer's tokens and results: chosen for the device, with its cost and accuracy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/context.h"
#include "tern/export.h"
#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

enum class Precision : std::uint8_t {
  automatic,  // the narrowest that the device multiplies natively: bf16 on GPUs from 8.0, f16 from 7.5, f32 on CPUs
  f32,
  f16,
  bf16,
};
TERN_API std::string_view name(Precision);
TERN_API Result<Precision> parse_precision(std::string_view);

struct PrecisionChoice {
  Precision asked = Precision::automatic;
  DType used = DType::f32;
  std::string because;     // one line
  bool fell_back = false;  // true: f32, because the device lacks what was asked for
};

// Chooses the float type. A precision that the device lacks becomes f32, or, with `strict`, an `unsupported` error.
TERN_API Result<PrecisionChoice> resolve_precision(const Context&, Precision = Precision::automatic,
                                                   bool strict = false);

// One precision for one layer: y = x w with tokens rounded to it, w2_float math, and results in it.
struct PrecisionReport {
  PrecisionChoice choice = {};
  std::string kernel = {};
  std::optional<double> sqnr_db = {};  // against f64 with tokens that were not rounded
  std::optional<double> cosine = {};
  double max_error = 0;      // the largest |y - y64|
  double microseconds = 0;   // median time of a run with tokens and weights in place
  std::string refused = {};  // in a comparison: why there are no figures, such as a token beyond f16
};

// Weights are trits on the host, [n, k]; tokens are f32 on the host, [m, k].
TERN_API Result<PrecisionReport> validate_precision_accuracy(const Context&, const QuantizedTensor& weights,
                                                             const ConstTensorView& x,
                                                             Precision = Precision::automatic);

struct PrecisionComparison {
  std::vector<PrecisionReport> modes;  // f32, f16, bf16; one that the tokens do not fit says so in `refused`
  std::size_t optimal = 0;             // the fastest whose SQNR is high enough; f32 when none is
};
TERN_API Result<PrecisionComparison> benchmark_precision_modes(const Context&, const QuantizedTensor& weights,
                                                               const ConstTensorView& x, double min_sqnr_db = 40);

}  // namespace tern
