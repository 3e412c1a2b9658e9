// Allocates and fills the buffers that the two ternary benches run on.
#include "lab/ternary_case.h"

#include <array>
#include <cstring>

#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"
#include "lab/random_weights.h"
#include "plan/context_state.h"

namespace tern::lab {
namespace {

// 256 Mi elements: 1 GiB of f32, larger than most last-level caches.
constexpr std::int64_t kDefaultRows = 65536;
constexpr std::int64_t kDefaultK = 4096;

enum Part : std::size_t { kWeights, kCodes, kScales };

}  // namespace

Result<TernaryQuantize::Problem> ternary_problem(const BenchRequest& request) {
  TERN_RETURN_IF_ERROR(refuse_m(request));
  const bool shape_given = request.rows != 0 || request.k != 0;
  if (shape_given && (request.rows < 1 || request.k < 1))
    return error(Code::invalid_argument, request.op, "a shape of {}x{} leaves nothing to measure", request.rows,
                 request.k);
  return TernaryQuantize::Problem{.rows = shape_given ? request.rows : kDefaultRows,
                                  .k = shape_given ? request.k : kDefaultK,
                                  .dtype = request.dtype.value_or(DType::f32),
                                  .scheme = request.scheme,
                                  .granularity = request.granularity,
                                  .format = request.format.value_or(default_format(request.scheme))};
}

nlohmann::ordered_json problem_json(const TernaryQuantize::Problem& problem) {
  return {{"rows", problem.rows},
          {"cols", problem.k},
          {"dtype", name(problem.dtype)},
          {"scheme", name(problem.scheme)},
          {"granularity", name(problem.granularity)},
          {"format", name(problem.format)}};
}

Result<TernaryCopies> TernaryCopies::make(const BenchRequest& request, const Context& context,
                                          const TernaryQuantize::Problem& problem) {
  TernaryCopies made;
  made.problem_ = problem;
  made.scale_count_ = make_ranges(problem.rows, problem.k, problem.granularity).total;
  const auto weight_bytes = static_cast<std::size_t>(problem.rows * problem.k) * size_of(problem.dtype);
  const auto code_bytes = static_cast<std::size_t>(problem.rows * row_bytes(problem.format, problem.k));
  const std::size_t scale_bytes = static_cast<std::size_t>(made.scale_count_) * sizeof(float);
  made.bytes_ = static_cast<std::int64_t>(weight_bytes + code_bytes + scale_bytes);
  TERN_ASSIGN(rotation, Rotation::make(request, context, std::array{weight_bytes, code_bytes, scale_bytes}));
  made.rotation_ = std::move(rotation);
  for (std::int64_t copy = 0; copy < made.copies(); ++copy) {
    TERN_RETURN_IF_ERROR(fill_random_weights(context, static_cast<std::uint64_t>(copy), problem.dtype,
                                             made.rotation_.part(kWeights, copy), problem.rows * problem.k));
    if (context.device().id.kind != DeviceKind::cpu) continue;
    std::memset(made.rotation_.part(kCodes, copy), 0, code_bytes);
    std::memset(made.rotation_.part(kScales, copy), 0, scale_bytes);
  }
  return made;
}

TensorView TernaryCopies::weights(std::int64_t copy) const {
  return {rotation_.part(kWeights, copy), problem_.dtype, {problem_.rows, problem_.k}, rotation_.device()};
}

TensorView TernaryCopies::codes(std::int64_t copy) const {
  return {rotation_.part(kCodes, copy),
          code_dtype(problem_.format),
          {problem_.rows, row_bytes(problem_.format, problem_.k)},
          rotation_.device()};
}

TensorView TernaryCopies::scales(std::int64_t copy) const {
  return {rotation_.part(kScales, copy), DType::f32, {scale_count_}, rotation_.device()};
}

}  // namespace tern::lab
