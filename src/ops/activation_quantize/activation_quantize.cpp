// Checks an activation_quantize problem and its arguments, once, for all kernels, and names non-finite elements.
#include "ops/activation_quantize/activation_quantize.h"

#include <cmath>

#include "base/errors.h"
#include "base/views.h"
#include "format/ranges.h"

namespace tern {

using activation_quantize::Params;
using Op = OpTraits<ActivationQuantize>;

Result<ProblemFacts> Op::facts(const ActivationQuantize::Problem& p) {
  TERN_RETURN_IF_ERROR(check_extent(kName, p.m, p.k, p.dtype, Granularity::row()));
  return ProblemFacts{.op = kName, .dtype = p.dtype, .format = Format::i8, .m = p.m, .k = p.k};
}

Result<Params> Op::bind(const ActivationQuantize::Problem& p, const ActivationQuantize::Args& args, DeviceId device) {
  const Where where(kName, device);
  TERN_ASSIGN(x, as_rows(where, "x", args.x, p.dtype, p.m, p.k));
  TERN_ASSIGN(q, as_rows(where, "q", args.q, DType::i8, p.m, p.k));
  TERN_RETURN_IF_ERROR(check_dense(where, "scales", args.scales, DType::f32, p.m));
  TERN_RETURN_IF_ERROR(check_dense(where, "sums", args.sums, DType::i32, p.m));
  const struct {
    std::string_view name;
    ByteSpan bytes;
  } parts[] = {{"x", bytes_of(args.x)},
               {"q", bytes_of(args.q)},
               {"scales", bytes_of(args.scales)},
               {"sums", bytes_of(args.sums)}};
  for (int i = 0; i < 4; ++i)
    for (int j = i + 1; j < 4; ++j)
      TERN_RETURN_IF_ERROR(check_apart(kName, parts[i].name, parts[i].bytes, parts[j].name, parts[j].bytes));
  return Params{.problem = p,
                .x = args.x.data,
                .x_stride = x.stride,
                .q = static_cast<std::int8_t*>(args.q.data),
                .q_stride = q.stride,
                .scales = static_cast<float*>(args.scales.data),
                .sums = static_cast<std::int32_t*>(args.sums.data)};
}

ActivationQuantize::Problem Op::problem(const ProblemWords& words) {
  return {.m = words.m.value_or(words.rows), .k = words.k, .dtype = words.dtype.value_or(DType::f32)};
}

std::string Op::text(const ProblemWords& words) {
  const auto p = problem(words);
  return fmt::format("activation_quantize of {} x {} {}, every token by its largest, i8", p.m, p.k, name(p.dtype));
}

namespace activation_quantize {

Source source_of(DType dtype) { return dtype == DType::f16 ? kF16 : dtype == DType::bf16 ? kBf16 : kF32; }

std::optional<FiniteToken> finite_token(const SimdTable& table, const void* x, DType dtype, std::int64_t k,
                                        NonFinite non_finite, float* clean) {
  constexpr std::uint32_t kInfinity = 0x7F80'0000U;
  std::uint32_t bits = table.max_abs_bits[source_of(dtype)](x, k);
  if (bits >= kInfinity) {
    if (non_finite == NonFinite::reject) return std::nullopt;
    for (std::int64_t i = 0; i < k; ++i) clean[i] = saturated(read(x, dtype, i), dtype);
    x = clean;
    dtype = DType::f32;
    bits = table.max_abs_bits[kF32](x, k);
  }
  const auto max_abs = __builtin_bit_cast(float, bits);
  return FiniteToken{x, dtype, 127.0F / (max_abs > 1e-5F ? max_abs : 1e-5F)};
}

Error non_finite_error(std::string_view op, const void* x, DType dtype, std::int64_t stride, std::int64_t m,
                       std::int64_t k) {
  for (std::int64_t token = 0; token < m; ++token)
    for (std::int64_t i = 0; i < k; ++i)
      if (const float v = read(x, dtype, token * stride + i); !std::isfinite(v))
        return error_at(token * k + i, Code::non_finite, op,
                        "x[{}, {}] (element {}) is {}; mend it, or ask for non_finite = saturate", token, i,
                        token * k + i, v);
  return error(Code::internal, op, "a kernel refused activations that are all finite");
}

}  // namespace activation_quantize
}  // namespace tern
