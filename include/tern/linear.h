// Matrix products with ternary weights, or weights of 8 and 4 bits: quantized activations, packed weights, the op with
// its plan, and BitLinear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/context.h"
#include "tern/export.h"
#include "tern/layout.h"
#include "tern/plan.h"
#include "tern/precision.h"
#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

// q, s, sums = token_i8(x): for each token s = 127 / max(max abs, 1e-5), q = rne(x * s). The value of a code is q / s.
struct TERN_API ActivationQuantize {
  struct Problem {
    std::int64_t m = 0;  // tokens
    std::int64_t k = 0;
    DType dtype = DType::f32;  // f32, f16 or bf16
    NonFinite non_finite = NonFinite::reject;
  };
  struct Args {
    ConstTensorView x;  // [m, k]; tokens may be strided
    TensorView q;       // i8 [m, k]
    TensorView scales;  // f32 [m], dense
    TensorView sums;    // i32 [m], dense: sum(q) of each token
  };
};

// Weights [n, k] in the order in which kernels read them, with their scales. Packed once and shared by all copies of
// this handle and by plans; the source may be freed afterwards.
class PackedWeights {
 public:
  PackedWeights() = default;

  // The bytes that pack() needs for codes and scales together, on a CPU or on a context's device.
  static TERN_API Result<std::size_t> packed_bytes(std::int64_t n, std::int64_t k, const Granularity& granularity,
                                                   Format format = Format::i2);
  static TERN_API Result<std::size_t> packed_bytes(const Context&, std::int64_t n, std::int64_t k,
                                                   const Granularity& granularity, Format format = Format::i2);

  // Codes are trits in i2, u8 [n, ceil(k/4)], or in b3, u8 [n, ceil(k/5)]; or symmetric codes of affine_quantize in s8,
  // i8 [n, k], or s4, u8 [n, ceil(k/2)], which have no zero point and whose scales may be negative or 0. A CPU keeps b3
  // as it is, a fifth less memory; a GPU reads two bits a weight either way. Scales of trits are as ternary_quantize
  // writes them. A code that is not a trit is an invalid_quantized_value with its index.
  // The memory is the context's, or the caller's on the same device: 64-byte aligned (256 on a GPU), and it must
  // outlive every copy of the handle. For a GPU, codes and scales may be on the host, from which they are copied in
  // pieces, or on the GPU; the call returns when the weights are in place.
  static TERN_API Result<PackedWeights> pack(const Context&, const QuantizedTensor&, std::span<std::byte> memory = {});
  static TERN_API Result<PackedWeights> pack(const Context&, const ConstTensorView& codes,
                                             const ConstTensorView& scales, std::int64_t n, std::int64_t k,
                                             const Granularity& granularity, std::span<std::byte> memory = {},
                                             Format format = Format::i2);
  // Packs weights in another project's layout, on the host, by way of i2. This is done in pieces, without a second copy
  // of all codes, if the layout stores the rows in order. Give scales and granularity only for layouts that store no
  // scales; for the others the granularity is that of scales_in().
  static TERN_API Result<PackedWeights> pack(const Context&, const LayoutSpec&, std::span<const std::uint8_t> bytes,
                                             std::int64_t n, std::int64_t k, std::span<const float> scales = {},
                                             const Granularity& granularity = {}, std::span<std::byte> memory = {});

  [[nodiscard]] TERN_API std::int64_t n() const;
  [[nodiscard]] TERN_API std::int64_t k() const;
  [[nodiscard]] TERN_API const Granularity& granularity() const;
  [[nodiscard]] TERN_API Format format() const;
  [[nodiscard]] TERN_API std::size_t bytes() const;       // codes and scales, padding included
  [[nodiscard]] TERN_API std::uint64_t checksum() const;  // of the canonical bytes, as QuantizedTensor's
  [[nodiscard]] TERN_API std::string_view tile() const;   // the name of the order
  [[nodiscard]] bool empty() const { return state_ == nullptr; }

  struct State;  // the library's own
  explicit PackedWeights(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  [[nodiscard]] const State* state() const { return state_.get(); }

 private:
  std::shared_ptr<const State> state_ = {};
};

enum class Activation : std::uint8_t { none, squared_relu, relu };  // relu is for conv2d only

// How activations and weights are multiplied.
enum class LinearMath : std::uint8_t {
  w2a8,      // int8 activations, exact int32 sums; float activations become token_i8 first. Weights of any width
  w2_float,  // activations stay floats and sums are f32; for trits only
};

// y[m, n] = epilogue(sum over k of x[m, k] * w[n, k]) for one or several matrices w that share x.
struct TERN_API Linear {
  static constexpr std::size_t kMaxMatrices = 8;

  // t = t / s[m]; t * w_scale; t + bias; activation; t + residual; each step rounded to f32, then to y's dtype.
  struct Matrix {
    std::int64_t n = 0;
    Granularity granularity = {};
    DType y_dtype = DType::f32;  // f32, f16, bf16; i32 is the plain sum of w2a8
    bool bias = false;
    Activation activation = Activation::none;
    bool residual = false;
  };
  struct Problem {
    std::int64_t m_max = 1;  // the most tokens of one run
    std::int64_t k = 0;
    DType x_dtype = DType::i8;  // i8, f32, f16, bf16
    LinearMath math = LinearMath::w2a8;
    NonFinite non_finite = NonFinite::reject;  // of float activations
    Format format = Format::i2;                // of the weights: i2, b3, s8 or s4
    std::vector<Matrix> matrices = {};
  };
  struct Output {
    PackedWeights weights;
    TensorView y;                   // [m, n]; rows may be strided
    ConstTensorView bias = {};      // f32 [n]
    ConstTensorView residual = {};  // [m, n] of y's dtype; may be y itself
  };
  struct Args {
    ConstTensorView x;                     // [m, k], m up to m_max; rows may be strided
    ConstTensorView x_scales = {};         // for i8 activations: f32 [m], the s of token_i8; none when every y is i32
    std::span<const Output> outputs = {};  // one per matrix
  };
};

extern template class Plan<ActivationQuantize>;
extern template class Plan<Linear>;
using ActivationQuantizePlan = Plan<ActivationQuantize>;
using LinearPlan = Plan<Linear>;

TERN_API std::string_view name(Activation);
TERN_API std::string_view name(LinearMath);
TERN_API Result<Activation> parse_activation(std::string_view);
TERN_API Result<LinearMath> parse_linear_math(std::string_view);

struct BitLinearOptions {
  std::int64_t m_max = 1;
  DType x_dtype = DType::f32;
  DType y_dtype = DType::f32;
  LinearMath math = LinearMath::w2a8;
  Activation activation = Activation::none;
  std::span<const float> bias = {};  // n of them, copied; none: no bias
  Preference preference = {};        // strict: also of the precision
  // Chooses the type of x and y for the device (resolve_precision()). Leave x_dtype and y_dtype as they are here, or
  // set them to the type it chooses. Empty: x_dtype and y_dtype count.
  std::optional<Precision> precision = {};
};

// One layer: weights, an optional bias and the plan for them.
class BitLinear {
 public:
  static TERN_API Result<BitLinear> make(const Context&, PackedWeights, const BitLinearOptions& = {});
  // Loads a layer from a checkpoint, by the name of its weights in either container ("blk.0.attn_q.weight"). If the
  // file needs ReadOptions, open a Model (tern/model.h) with them and use load_weights().
  static TERN_API Result<BitLinear> load(const Context&, const std::string& path, std::string_view tensor,
                                         const BitLinearOptions& = {});

  // y = epilogue(x w). x is [m, k] of x_dtype, y [m, n] of y_dtype. The workspace has at least workspace_bytes() and
  // may be shared by layers that do not run at the same time. On a GPU the call returns before the work is done.
  TERN_API Status forward(const ConstTensorView& x, const TensorView& y, Workspace workspace) const;
  // The same with a workspace allocated for the call.
  TERN_API Status forward(const ConstTensorView& x, const TensorView& y) const;

  [[nodiscard]] std::size_t workspace_bytes() const { return plan_.workspace_bytes(); }
  [[nodiscard]] const LinearPlan& plan() const { return plan_; }
  [[nodiscard]] const PackedWeights& weights() const { return weights_; }
  // The type that BitLinearOptions::precision chose, and why; empty if none was asked for.
  [[nodiscard]] const std::optional<PrecisionChoice>& precision() const { return precision_; }

 private:
  BitLinear(Context context, PackedWeights weights, LinearPlan plan, std::shared_ptr<const Tensor> bias,
            std::optional<PrecisionChoice> precision)
      : context_(std::move(context)),
        weights_(std::move(weights)),
        plan_(std::move(plan)),
        bias_(std::move(bias)),
        precision_(std::move(precision)) {}
  Context context_;
  PackedWeights weights_;
  LinearPlan plan_;
  std::shared_ptr<const Tensor> bias_;  // on the context's device; null: none
  std::optional<PrecisionChoice> precision_;
};

// out = w a, the plain sums of one token: w [m, k], a int8 [k], out int32 [m]. For many calls make a LinearPlan.
TERN_API Status w2a8_gemv(const Context&, const PackedWeights& w, const ConstTensorView& a, const TensorView& out,
                          std::int64_t m, std::int64_t k, int stream_index = 0);

}  // namespace tern
