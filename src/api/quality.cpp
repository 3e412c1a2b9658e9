// SQNR, cosine and zero fraction of a quantized tensor, in f64, summed in the contract's order over the whole tensor.
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/errors.h"
#include "base/fp_env.h"
#include "format/format.h"
#include "ops/elements.h"
#include "ops/ranges.h"
#include "ops/views.h"
#include "plan/context_state.h"
#include "simd/pairwise_fold.h"
#include "tern/quantize.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "measure_quality";
constexpr std::int64_t kBlock = static_cast<std::int64_t>(simd::kSumBlock);
constexpr std::size_t kTerms = 4;  // x^2, (x - x')^2, x x', x'^2

struct Sums {
  std::array<double, kTerms> sum{};
  std::int64_t zeros = 0;
};

// Reads x and x' of a tensor by row-major index.
class Pairs {
 public:
  Pairs(const RowView& rows, const ConstTensorView& x, const QuantizedTensor& q, NonFinite policy)
      : rows_(rows),
        x_(x.data),
        dtype_(x.dtype),
        q_(q),
        ranges_(make_ranges(rows.rows, rows.k, q.granularity)),
        policy_(policy) {}

  // One block from `begin` on; false when a value is non-finite and the policy is to reject.
  bool add(std::int64_t begin, std::int64_t n, std::array<simd::PairwiseFold, kTerms>& folds, std::int64_t& zeros) {
    double lane[kTerms][simd::kSumLanes] = {};
    std::int64_t row = begin / rows_.k, column = begin % rows_.k;
    for (std::int64_t quad = 0; quad * 4 < n; ++quad) {
      double term[kTerms][4] = {};
      for (std::int64_t j = 0; j < 4 && quad * 4 + j < n; ++j) {
        const double raw = read_element(x_, dtype_, row * rows_.stride + column);
        if (policy_ == NonFinite::reject && !std::isfinite(raw)) return false;
        const int code = read_code(q_.format, q_.quantized_data().data() + row * row_bytes(q_.format, rows_.k), column);
        const std::int64_t range = ranges_.per_row == 0 ? 0 : row * ranges_.per_row + column / ranges_.len;
        zeros += code == 0 ? 1 : 0;
        const double x = saturated(raw, dtype_), y = value(code, q_.scale_values()[static_cast<std::size_t>(range)]);
        term[0][j] = x * x;
        term[1][j] = (x - y) * (x - y);
        term[2][j] = x * y;
        term[3][j] = y * y;
        if (++column == rows_.k) {
          column = 0;
          ++row;
        }
      }
      for (std::size_t t = 0; t < kTerms; ++t)
        lane[t][static_cast<std::size_t>(quad) % simd::kSumLanes] +=
            (term[t][0] + term[t][1]) + (term[t][2] + term[t][3]);
    }
    for (std::size_t t = 0; t < kTerms; ++t) {
      for (std::size_t half = simd::kSumLanes / 2; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) lane[t][l] += lane[t][l + half];
      folds[t].add(lane[t][0]);
    }
    return true;
  }

 private:
  // x' in the type the scheme computes in, not rounded to f16 or bf16.
  [[nodiscard]] double value(int code, float scale) const {
    return dtype_ == DType::f64 ? code * static_cast<double>(scale)
                                : static_cast<double>(static_cast<float>(code) * scale);
  }

  RowView rows_;
  const void* x_;
  DType dtype_;
  const QuantizedTensor& q_;
  Ranges ranges_;
  NonFinite policy_;
};

Quality from_sums(const Sums& s, std::int64_t elements) {
  const auto& [xx, ee, xy, yy] = s.sum;
  Quality quality;
  const bool finite = std::isfinite(xx) && std::isfinite(ee) && std::isfinite(xy) && std::isfinite(yy);
  if (finite && xx > 0) quality.sqnr_db = ee > 0 ? 10.0 * std::log10(xx / ee) : std::numeric_limits<double>::infinity();
  if (finite && xx > 0 && yy > 0) quality.cosine = xy / (std::sqrt(xx) * std::sqrt(yy));
  quality.zero_fraction = static_cast<double>(s.zeros) / static_cast<double>(elements);
  return quality;
}

}  // namespace

Result<Quality> measure_quality(const Context& context, const ConstTensorView& x, const QuantizedTensor& q,
                                NonFinite non_finite) {
  TERN_RETURN_IF_ERROR(validate(q));
  if (x.dtype != DType::f32 && x.dtype != DType::f64 && x.dtype != DType::f16 && x.dtype != DType::bf16)
    return error(Code::invalid_argument, kWhere, "x is {}; it must be f32, f64, f16 or bf16", name(x.dtype));
  TERN_ASSIGN(rows, as_rows(kWhere, "x", x, x.dtype, q.rows(), q.k()));
  const std::int64_t elements = rows.rows * rows.k;
  if (elements == 0) return error(Code::empty_input, kWhere, "x is {}: nothing to compare", name(x.shape));

  // Segments of 2^j blocks are subtrees of the sum.
  std::int64_t segment_elems = 64 * kBlock;
  while (ceil_div(elements, segment_elems) > 1024) segment_elems *= 2;
  const std::int64_t segments = ceil_div(elements, segment_elems);
  std::vector<Sums> parts(static_cast<std::size_t>(segments));
  std::atomic<bool> bad{false};
  Pairs pairs(rows, x, q, non_finite);
  WorkQueue queue(segments, 1);
  const Threads& threads = context.state().threads;
  threads.run(static_cast<int>(std::min<std::int64_t>(threads.count(), segments)), [&](int) {
    for (std::int64_t i = 0, end = 0; queue.next(i, end);) {
      std::array<simd::PairwiseFold, kTerms> folds;
      Sums& part = parts[static_cast<std::size_t>(i)];
      const std::int64_t last = std::min((i + 1) * segment_elems, elements);
      for (std::int64_t at = i * segment_elems; at < last; at += kBlock)
        if (!pairs.add(at, std::min(kBlock, last - at), folds, part.zeros)) return bad.store(true);
      for (std::size_t t = 0; t < kTerms; ++t) part.sum[t] = folds[t].total();
    }
  });
  if (bad.load())
    return error(Code::non_finite, kWhere, "x holds a non-finite value; mend it, or ask for non_finite = saturate");

  const FpEnvGuard modes;
  std::array<simd::PairwiseFold, kTerms> folds;
  Sums all;
  for (const Sums& part : parts) {
    for (std::size_t t = 0; t < kTerms; ++t) folds[t].add(part.sum[t]);
    all.zeros += part.zeros;
  }
  for (std::size_t t = 0; t < kTerms; ++t) all.sum[t] = folds[t].total();
  return from_sums(all, elements);
}

}  // namespace tern
