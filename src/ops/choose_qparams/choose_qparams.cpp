// Checks a choose_qparams problem and its arguments, once, for all kernels; also the functions of tern/qparams.h.
#include "ops/choose_qparams/choose_qparams.h"

#include "base/errors.h"
#include "base/words.h"

namespace tern {
namespace {

constexpr WordTable<QparamsMethod, 4> kMethods = {{{QparamsMethod::minmax, "minmax"},
                                                   {QparamsMethod::absmax, "absmax"},
                                                   {QparamsMethod::percentile, "percentile"},
                                                   {QparamsMethod::mse, "mse"}}};

// The longest range that is copied, in elements: the bytes of all threads' copies fit in 63 bits.
constexpr std::int64_t kMostCopied = std::int64_t{1} << 40;

// The longest range that percentile and mse accept on a GPU. One thread block scans the range many times, which takes
// about a second at this length.
constexpr std::int64_t kLongestOnGpu = std::int64_t{1} << 20;

}  // namespace

std::string_view name(QparamsMethod v) { return word_of(kMethods, v); }
Result<QparamsMethod> parse_qparams_method(std::string_view text) {
  return parse_word(kMethods, "qparams method", text);
}

namespace choose_qparams {

Result<Rule> check_problem(std::string_view op, const ChooseQparams::Problem& p) {
  TERN_RETURN_IF_ERROR(affine::check_words(op, affine::words_of(p)));
  TERN_ASSIGN(q, affine::code_bounds(op, p.format, p.q_min, p.q_max, p.zero_points));
  if (q.min == q.max) return error(Code::invalid_argument, op, "{} is the only code; a scale needs two", q.min);
  if (p.method == QparamsMethod::minmax && !p.zero_points)
    return error(Code::invalid_argument, op, "minmax has zero points; without them it is absmax");
  if (p.method == QparamsMethod::absmax && p.zero_points)
    return error(Code::invalid_argument, op, "absmax has no zero points; with them it is minmax");
  if (!p.zero_points && (q.min >= 0 || q.max <= 0))
    return error(Code::invalid_argument, op,
                 "without zero points codes need both signs, and {} to {} do not have them; ask for zero points", q.min,
                 q.max);
  if (p.method == QparamsMethod::percentile && !(p.percentile > 50 && p.percentile <= 100))
    return error(Code::invalid_argument, op, "percentile is {}; it must be above 50 and at most 100", p.percentile);
  const float stored = as_stored(p.eps, p.scale_dtype);
  if (!(p.eps >= 0x1p-126F) || !std::isfinite(stored) || !(stored > 0))
    return error(Code::invalid_argument, op, "eps is {}; it must be at least 2^-126, and one of {} above 0", p.eps,
                 name(p.scale_dtype));
  if (copies_ranges(p) && affine::longest_range(p.shape, p.granularity) > kMostCopied)
    return error(Code::invalid_argument, op,
                 "a range has {} elements, and {} copies at most {}; take groups, absmax or minmax",
                 affine::longest_range(p.shape, p.granularity), name(p.method), kMostCopied);
  return Rule{.q = q, .zero_points = p.zero_points, .scale_dtype = p.scale_dtype, .eps = p.eps};
}

Result<Params> check_args(const Where& where, const ChooseQparams::Problem& p, const ConstTensorView& x,
                          const TensorView& scales, const TensorView& zero_points) {
  TERN_ASSIGN(rule, check_problem(where.op, p));
  TERN_ASSIGN(count, affine_scale_count(p.shape, p.granularity));
  TERN_RETURN_IF_ERROR(check_strided(where, "x", x, p.dtype, p.shape));
  TERN_RETURN_IF_ERROR(check_dense(where, "scales", scales, p.scale_dtype, count));
  TERN_RETURN_IF_ERROR(affine::check_all_apart(where.op, {"scales", scales}, {{"x", x}}));
  Params params{.problem = p, .op = where.op, .rule = rule, .x = x, .scales = scales.data, .count = count};
  if (!p.zero_points) return params;
  TERN_RETURN_IF_ERROR(check_dense(where, "zero_points", zero_points, DType::i32, count));
  TERN_RETURN_IF_ERROR(affine::check_all_apart(where.op, {"zero_points", zero_points}, {{"x", x}, {"scales", scales}}));
  params.zero_points = zero_points.data;
  return params;
}

Error scale_error(const Params& params, std::int64_t range) {
  return error_at(range, Code::invalid_scale, params.op,
                  "the scale of range {} is beyond the largest {}; make x smaller", range,
                  name(params.problem.scale_dtype));
}

}  // namespace choose_qparams

using Op = OpTraits<ChooseQparams>;

Result<ProblemFacts> Op::facts(const ChooseQparams::Problem& p) {
  TERN_RETURN_IF_ERROR(choose_qparams::check_problem(kName, p));
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .k = affine::last_of(p.shape)};
  facts.aux = p.scale_dtype;
  if (choose_qparams::copies_ranges(p) && affine::longest_range(p.shape, p.granularity) > kLongestOnGpu)
    facts.refused_on_gpu = fmt::format("{} of a range of {} elements is found on a CPU; this takes {} at most",
                                       name(p.method), affine::longest_range(p.shape, p.granularity), kLongestOnGpu);
  facts.guarantee = Guarantee{.math = p.dtype == DType::f64 ? "f64" : "f32",
                              .accumulator = p.method == QparamsMethod::mse ? "f64" : "none"};
  return facts;
}

Result<choose_qparams::Params> Op::bind(const ChooseQparams::Problem& p, const ChooseQparams::Args& args,
                                        DeviceId device) {
  return choose_qparams::check_args({kName, device}, p, args.x, args.scales, args.zero_points);
}

}  // namespace tern
