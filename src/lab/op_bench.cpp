// The words of a bench request, and what the operands of a case are filled with.
#include "lab/op_bench.h"

#include <cstring>

#include "base/elements.h"
#include "base/fmt.h"

namespace tern::lab {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace

Result<ProblemWords> words_of(const BenchRequest& request, Words known, std::int64_t rows, std::int64_t k) {
  if (request.m && !known.has(Word::m))
    return error(Code::invalid_argument, request.op, "{} has no m (it was given {}); rows and columns are its shape",
                 request.op, *request.m);
  const bool given = request.rows != 0 || request.k != 0;
  if (given && (request.rows < 1 || request.k < 1))
    return error(Code::invalid_argument, request.op, "a shape of {}x{} leaves nothing to measure", request.rows,
                 request.k);
  return ProblemWords{.rows = given ? request.rows : rows,
                      .k = given ? request.k : k,
                      .m = request.m,
                      .dtype = request.dtype,
                      .scheme = request.scheme,
                      .granularity = request.granularity,
                      .format = request.format,
                      .math = request.math,
                      .y_dtype = request.y_dtype,
                      .method = request.method,
                      .zero_points = request.zero_points,
                      .window = request.window.value_or(WindowWords{})};
}

Status OperandFill::operator()(std::string_view name, DType dtype, const Shape& shape, void* data,
                               bool is_output) const {
  const std::int64_t count = *element_count(shape);
  if (is_output || !is_float(dtype)) {
    if (context.device().id.kind == DeviceKind::cpu)
      std::memset(data, 0, static_cast<std::size_t>(count) * size_of(dtype));
    return {};
  }
  if (!name.ends_with("scales")) return fill_random_weights(context, seed, dtype, data, count);
  // The weights have a standard deviation of 0.02; the largest code stands for four of them.
  std::vector<std::byte> scales(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) write_element(scales.data(), dtype, i, 0.08 / largest_code);
  TERN_RETURN_IF_ERROR(
      context.copy({data, dtype, shape, context.device().id}, {scales.data(), dtype, shape}, context.stream()));
  return context.stream().synchronize();
}

}  // namespace tern::lab
