// The kernel that a plan chooses, called for some rows at a time.
#include "runtime/quantized_rows.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/fp_env.h"
#include "format/format.h"
#include "ops/ternary_quantize/ternary_quantize.h"
#include "plan/context_state.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "write_model";

}  // namespace

QuantizedRows::QuantizedRows(BufferPool& pool, const ConstTensorView& x, const QuantizeOptions& how)
    : RowsSource(x.shape[0], x.shape[1], how.granularity),
      x_(x),
      problem_{.rows = x.shape[0],
               .k = x.shape[1],
               .dtype = x.dtype,
               .scheme = how.scheme,
               .granularity = how.granularity,
               .format = Format::i2,
               .non_finite = how.non_finite},
      pool_(pool) {}

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
    TERN_RETURN_IF_ERROR(rows->choose(context, options.preference));
    if (options.granularity == Granularity::tensor()) {
      const FpEnvGuard guard;
      TERN_RETURN_IF_ERROR(rows->run(context.state().threads, {0, rows->n()}, nullptr, &rows->scale_));
    }
  } else {
    if (!made) {
      options.format = Format::i2;
      TERN_ASSIGN(held, quantize(context, x, options));
      rows->held_ = std::move(held);
      made = Made{rows->held_->quantized_data().data(), rows->held_->scale_values().data(), rows->held_->kernel};
    }
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

Status QuantizedRows::choose(const Context& context, const Preference& preference) {
  TERN_ASSIGN(plan, TernaryQuantizePlan::select(context, problem_, preference));
  name_ = plan.id().kernel;
  const auto kernels = kernel_list();
  const auto found =
      std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& k) { return k.info.name == name_; });
  if (found == kernels.end()) return error(Code::internal, kWhere, "there is no kernel {}", name_);
  entry_ = &found->entry;
  return {};
}

const std::uint8_t* QuantizedRows::row(std::int64_t i) const {
  return static_cast<const std::uint8_t*>(x_.data) + i * k() * static_cast<std::int64_t>(size_of(x_.dtype));
}

// Without codes: the scale of the tensor.
Status QuantizedRows::run(const Threads& threads, RowRange rows, std::uint8_t* codes, float* scales) const {
  ternary_quantize::Params params{.problem = problem_};
  params.problem.rows = rows.count;
  params.ranges = make_ranges(rows.count, k(), granularity());
  params.x = row(rows.first);
  params.x_stride = k();
  params.codes = codes;
  params.codes_stride = row_bytes(Format::i2, k());
  params.scales = scales;
  params.first_row = rows.first;
  if (codes != nullptr && granularity() == Granularity::tensor()) {
    params.given = &scale_;
    params.finite = true;  // or there would be no scale; what saturates is made finite in any case
  }
  const std::size_t bytes = entry_->workspace_bytes(entry_->table, &params.problem, threads.count());
  const BufferPool::Buffer workspace = pool_.take(bytes);
  return entry_->run(entry_->table, &params, {threads, {workspace.get(), bytes}});
}

Status QuantizedRows::read(RowRange rows, std::uint8_t* codes, float* scales) const {
  const std::int64_t line = row_bytes(Format::i2, k());
  if (made_) {
    const std::int64_t first_scale = granularity() == Granularity::tensor() ? 0 : scale_count(rows.first);
    std::memcpy(codes, made_->codes + rows.first * line, static_cast<std::size_t>(rows.count * line));
    std::memcpy(scales, made_->scales + first_scale, static_cast<std::size_t>(scale_count(rows.count)) * sizeof(float));
  } else {
    TERN_RETURN_IF_ERROR(run(alone_, rows, codes, scales));
  }
  if (!match_) return {};
  for (std::int64_t i = 0; i < rows.count; ++i) match_->mend(row(rows.first + i), k(), codes + i * line);
  scales[0] = match_->stored_scale();
  return {};
}

}  // namespace tern
