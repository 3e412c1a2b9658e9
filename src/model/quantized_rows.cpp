// Selects a plan for all rows, and runs it for some of them at a time.
#include "model/quantized_rows.h"

#include <cstring>

#include "base/errors.h"
#include "device/isa.h"
#include "format/format.h"
#include "plan/plan_rows.h"

namespace tern {

using PlanRows = detail::PlanRows<TernaryQuantize>;

QuantizedRows::QuantizedRows(BufferPool& pool, const ConstTensorView& x, const QuantizeOptions& how)
    : RowsSource(x.shape[0], x.shape[1], how.granularity), x_(x), pool_(pool) {}

Result<std::unique_ptr<QuantizedRows>> QuantizedRows::make(const Context& context, BufferPool& pool,
                                                           const ConstTensorView& x, const QuantizeOptions& how,
                                                           bool match_bitnet, std::optional<Made> made) {
  QuantizeOptions options = how;
  if (match_bitnet) {
    options.scheme = Scheme::absmean;
    options.granularity = Granularity::tensor();
  }
  std::unique_ptr<QuantizedRows> rows(new QuantizedRows(pool, x, options));
  if (x.shape[0] == 0 || x.shape[1] == 0)
    return error(Code::empty_input, "quantize", "x is {}: nothing to quantize", name(x.shape));
  if (context.device().id.kind == DeviceKind::cpu) {
    const TernaryQuantize::Problem problem{.rows = x.shape[0],
                                           .k = x.shape[1],
                                           .dtype = x.dtype,
                                           .scheme = options.scheme,
                                           .granularity = options.granularity,
                                           .format = Format::i2,
                                           .non_finite = options.non_finite};
    TERN_ASSIGN(plan, TernaryQuantizePlan::select(context, problem, options.preference));
    rows->name_ = plan.id().kernel;
    rows->instructions_ = PlanRows::kernel(plan).info.needs;
    rows->plan_ = std::move(plan);
    rows->stream_ = context.stream();
    if (options.granularity == Granularity::tensor()) TERN_RETURN_IF_ERROR(rows->find_scale());
  } else {
    if (!made) {
      options.format = Format::i2;
      TERN_ASSIGN(held, quantize(context, x, options));
      rows->held_ = std::move(held);
      made = Made{rows->held_->quantized_data().data(), rows->held_->scale_values().data(), rows->held_->kernel};
    }
    TERN_ASSIGN(instructions, usable_instructions());
    rows->instructions_ = instructions;
    rows->name_ = made->kernel;
    rows->scale_ = made->scales[0];
    rows->made_ = std::move(made);
  }
  if (match_bitnet) {
    TERN_ASSIGN(match, BitnetMatch::of(x.dtype, rows->scale_));
    rows->match_ = match;
  }
  return rows;
}

std::optional<double> QuantizedRows::threshold() const {
  return match_ ? std::optional<double>(match_->threshold()) : std::nullopt;
}

const std::uint8_t* QuantizedRows::row(std::int64_t i) const {
  return static_cast<const std::uint8_t*>(x_.data) + i * k() * static_cast<std::int64_t>(size_of(x_.dtype));
}

Status QuantizedRows::find_scale() {
  const std::size_t bytes = plan_->workspace_bytes();
  const BufferPool::Buffer workspace = pool_.take(bytes);
  return PlanRows::run_scale(*plan_, stream_, {workspace.get(), bytes},
                             {.x = x_, .scales = {&scale_, DType::f32, {1}}});
}

Status QuantizedRows::run(RowRange rows, std::uint8_t* codes, float* scales) const {
  const std::size_t bytes = PlanRows::workspace_bytes(*plan_);
  const BufferPool::Buffer workspace = pool_.take(bytes);
  return PlanRows::run(*plan_, stream_, {workspace.get(), bytes}, rows,
                       {.x = {row(rows.first), x_.dtype, {rows.count, k()}},
                        .codes = {codes, DType::u8, {rows.count, row_bytes(Format::i2, k())}},
                        .scales = {scales, DType::f32, {scale_count(rows.count)}},
                        .given_scale = {&scale_, DType::f32, {1}}});
}

Status QuantizedRows::read(RowRange rows, std::uint8_t* codes, float* scales) const {
  const std::int64_t line = row_bytes(Format::i2, k());
  if (made_) {
    const std::int64_t first_scale = granularity() == Granularity::tensor() ? 0 : scale_count(rows.first);
    std::memcpy(codes, made_->codes + rows.first * line, static_cast<std::size_t>(rows.count * line));
    std::memcpy(scales, made_->scales + first_scale, static_cast<std::size_t>(scale_count(rows.count)) * sizeof(float));
  } else {
    TERN_RETURN_IF_ERROR(run(rows, codes, scales));
  }
  if (!match_) return {};
  for (std::int64_t i = 0; i < rows.count; ++i) match_->mend(row(rows.first + i), k(), codes + i * line);
  scales[0] = match_->stored_scale();
  return {};
}

}  // namespace tern
