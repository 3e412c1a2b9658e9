// What each precision costs one layer in accuracy and time.
#include "tern/precision.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/elements.h"
#include "base/errors.h"
#include "base/half.h"
#include "base/views.h"
#include "format/format.h"
#include "format/ranges.h"
#include "plan/own_stream.h"
#include "plan/run_once.h"
#include "tern/linear.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "precision";

// Rounds tokens on the host to another float type and copies them to the context's device.
Result<Tensor> rounded(const Context& context, const ConstTensorView& x, const RowView& rows, DType dtype) {
  TERN_ASSIGN(host, Tensor::allocate(host_memory(), dtype, {rows.rows, rows.k}, "precision"));
  for (std::int64_t row = 0; row < rows.rows; ++row)
    for (std::int64_t i = 0; i < rows.k; ++i) {
      const auto v = static_cast<float>(read_element(x.data, DType::f32, row * rows.stride + i));
      const std::int64_t at = row * rows.k + i;
      if (dtype == DType::f32)
        host.as<float>()[static_cast<std::size_t>(at)] = v;
      else
        host.as<std::uint16_t>()[static_cast<std::size_t>(at)] =
            dtype == DType::f16 ? half::to_f16(v) : half::to_bf16(v);
      if (std::isfinite(v) && !std::isfinite(read_element(host.data(), dtype, at)))
        return error_at(at, Code::non_finite, kWhere, "x[{}, {}] (element {}) is {}, beyond {}", row, i, at, v,
                        name(dtype));
    }
  return host.to(context);
}

// The reference y[m, n], computed in f64.
std::vector<double> exact(const QuantizedTensor& w, const ConstTensorView& x, const RowView& rows) {
  const std::int64_t n = w.rows(), k = w.k(), line = row_bytes(w.format, k);
  const Ranges ranges = make_ranges(n, k, w.granularity);
  std::vector<double> y(static_cast<std::size_t>(rows.rows * n));
  std::vector<std::int8_t> trits(static_cast<std::size_t>(k));
  for (std::int64_t row = 0; row < n; ++row) {
    read_codes(w.format, w.quantized_data().data() + row * line, 0, k, trits.data());
    for (std::int64_t m = 0; m < rows.rows; ++m) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t range = ranges.per_row == 0 ? 0 : row * ranges.per_row + i / ranges.len;
        sum += read_element(x.data, DType::f32, m * rows.stride + i) * trits[static_cast<std::size_t>(i)] *
               static_cast<double>(w.scale_values()[static_cast<std::size_t>(range)]);
      }
      y[static_cast<std::size_t>(m * n + row)] = sum;
    }
  }
  return y;
}

// The median time of a run, after one sample that is not counted.
Result<double> microseconds(const Context& context, const BitLinear& layer, const ConstTensorView& x,
                            const TensorView& y, Workspace workspace) {
  constexpr int kSamples = 9, kRuns = 4;
  TERN_ASSIGN(stream, detail::OwnStream::open(context));
  const Linear::Output output{.weights = layer.weights(), .y = y};
  std::vector<double> times;
  for (int sample = -1; sample < kSamples; ++sample) {
    const auto begin = std::chrono::steady_clock::now();
    for (int run = 0; run < kRuns; ++run)
      TERN_RETURN_IF_ERROR(layer.plan().run(*stream, workspace, {.x = x, .outputs = {&output, 1}}));
    TERN_RETURN_IF_ERROR(stream->synchronize());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (sample >= 0) times.push_back(took.count() / kRuns);
  }
  std::ranges::nth_element(times, times.begin() + kSamples / 2);
  return times[kSamples / 2];
}

struct Case {
  RowView rows;
  std::vector<double> want;
  PackedWeights weights;
};

Result<Case> make_case(const Context& context, const QuantizedTensor& weights, const ConstTensorView& x) {
  TERN_RETURN_IF_ERROR(validate(weights));
  if (x.shape.rank() < 2) return error(Code::invalid_argument, kWhere, "x is {}, it must be [m, k]", name(x.shape));
  TERN_ASSIGN(elements, element_count(x.shape));
  if (elements == 0 || weights.rows() == 0) return error(Code::empty_input, kWhere, "there is nothing to compute");
  Case made;
  TERN_ASSIGN(rows, as_rows(kWhere, "x", x, DType::f32, elements / x.shape[x.shape.rank() - 1], weights.k()));
  made.rows = rows;
  TERN_ASSIGN(packed, PackedWeights::pack(context, weights));
  made.weights = packed;
  made.want = exact(weights, x, rows);
  return made;
}

Result<PrecisionReport> report_of(const Context& context, const Case& of, const ConstTensorView& x,
                                  Precision precision) {
  PrecisionReport report;
  TERN_ASSIGN(choice, resolve_precision(context, precision));
  report.choice = choice;
  TERN_ASSIGN(
      layer,
      BitLinear::make(
          context, of.weights,
          {.m_max = of.rows.rows, .x_dtype = choice.used, .y_dtype = choice.used, .math = LinearMath::w2_float}));
  report.kernel = layer.plan().id().kernel;
  TERN_ASSIGN(tokens, rounded(context, x, of.rows, choice.used));
  TERN_ASSIGN(y, Tensor::allocate(context.memory(), choice.used, {of.rows.rows, of.weights.n()}, "precision"));
  TERN_ASSIGN(workspace, allocate_workspace(context, layer.plan()));
  TERN_ASSIGN(time, microseconds(context, layer, std::as_const(tokens).view(), y.view(), workspace.as<std::byte>()));
  report.microseconds = time;
  TERN_ASSIGN(host, Context::open(DeviceId{}));
  TERN_ASSIGN(back, y.to(host));
  double signal = 0, noise = 0, product = 0, size = 0;
  for (std::size_t i = 0; i < of.want.size(); ++i) {
    const double want = of.want[i], got = read_element(back.data(), choice.used, static_cast<std::int64_t>(i));
    signal += want * want;
    noise += (want - got) * (want - got);
    product += want * got;
    size += got * got;
    report.max_error = std::max(report.max_error, std::fabs(want - got));
  }
  if (signal > 0) report.sqnr_db = 10 * std::log10(signal / noise);
  if (signal > 0 && size > 0) report.cosine = product / std::sqrt(signal) / std::sqrt(size);
  return report;
}

}  // namespace

Result<PrecisionReport> validate_precision_accuracy(const Context& context, const QuantizedTensor& weights,
                                                    const ConstTensorView& x, Precision precision) {
  TERN_ASSIGN(made, make_case(context, weights, x));
  return report_of(context, made, x, precision);
}

Result<PrecisionComparison> benchmark_precision_modes(const Context& context, const QuantizedTensor& weights,
                                                      const ConstTensorView& x, double min_sqnr_db) {
  TERN_ASSIGN(made, make_case(context, weights, x));
  PrecisionComparison comparison;
  for (const Precision precision : {Precision::f32, Precision::f16, Precision::bf16}) {
    auto report = report_of(context, made, x, precision);
    if (!report.ok() && report.code() == Code::non_finite && precision != Precision::f32) {
      // The error concerns this precision alone: f32 took the same tokens.
      TERN_ASSIGN(choice, resolve_precision(context, precision));
      comparison.modes.push_back({.choice = choice, .refused = report.error().message});
      continue;
    }
    if (!report.ok()) return std::move(report).error();
    comparison.modes.push_back(*std::move(report));
  }
  for (std::size_t i = 1; i < comparison.modes.size(); ++i) {
    const PrecisionReport& mode = comparison.modes[i];
    if (mode.refused.empty() && mode.sqnr_db.value_or(-1) >= min_sqnr_db &&
        mode.microseconds < comparison.modes[comparison.optimal].microseconds)
      comparison.optimal = i;
  }
  return comparison;
}

}  // namespace tern
