// Sums by rows and ranges, fast by the vector words of the machine, exact one element at a time.
#include "runtime/quality_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fp_env.h"
#include "format/format.h"
#include "ops/elements.h"
#include "ops/ranges.h"
#include "runtime/count_trits.h"

namespace tern {
namespace {

constexpr std::int64_t kSampled = std::int64_t{1} << 18;  // enough for a smooth picture
constexpr double kHistogramReach = 4;
constexpr double kSmallestShare = 1e-3;       // of the error in the whole: with sums of 6 digits, 0.005 dB
constexpr double kSmallestThreshold = 1e-15;  // that the fast sums take

std::size_t range_at(const Ranges& ranges, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(ranges.per_row == 0 ? 0 : row * ranges.per_row + column / ranges.len);
}
// Columns from here to where another scale begins.
std::int64_t rest_of_range(const Ranges& ranges, std::int64_t column, std::int64_t k) {
  return ranges.per_row == 0 ? k - column : std::min(k, (column / ranges.len + 1) * ranges.len) - column;
}

}  // namespace

QualitySums QualitySums::fast(const ternary_quantize::SimdTable& table, const QualityRows& in) {
  const ternary_quantize::SourceLoops& loops = table.of[static_cast<std::size_t>(in.dtype)];
  const Ranges decided = make_ranges(in.rows, in.k, in.decided_by), stored = make_ranges(in.rows, in.k, in.stored_by);
  const std::int64_t line = row_bytes(Format::i2, in.k);
  // With one scale for all, rows whose codes have no padding between them are one long row.
  const bool flat = decided.per_row == 0 && stored.per_row == 0 && in.k % 4 == 0;
  const std::int64_t rows = flat ? 1 : in.rows, k = flat ? in.rows * in.k : in.k;
  QualitySums sums;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0, some = 0; c < k; c += some) {
      some = std::min(rest_of_range(decided, c, k), rest_of_range(stored, c, k));
      const auto deciding = static_cast<double>(in.decided[range_at(decided, row, c)]);
      const auto scale = static_cast<double>(in.stored[range_at(stored, row, c)]);
      const double threshold = in.threshold.value_or(deciding / 2);
      if (threshold < kSmallestThreshold) sums.tiny_ = true;
      double of[2];
      loops.error_sums(element(in.x, in.dtype, row * k + c), some, threshold, of);
      sums.xx_ += of[0];
      sums.xy_ += of[1] * scale;
      const std::int64_t signs = flat ? in.signs : count_signs(in.codes + row * line, c, some);
      sums.yy_ += scale * scale * static_cast<double>(signs);
    }
  sums.ee_ = sums.xx_ - 2 * sums.xy_ + sums.yy_;
  return sums;
}

QualitySums QualitySums::exact(const QualityRows& in) {
  const Ranges stored = make_ranges(in.rows, in.k, in.stored_by);
  const std::int64_t line = row_bytes(Format::i2, in.k);
  QualitySums all;
  for (std::int64_t row = 0; row < in.rows; ++row) {
    QualitySums sums;
    for (std::int64_t c = 0; c < in.k; ++c) {
      const double x = saturated(read_element(in.x, in.dtype, row * in.k + c), in.dtype);
      const int code = read_code(Format::i2, in.codes + row * line, c);
      const float scale = in.stored[range_at(stored, row, c)];
      // In the type that the scheme computes in, as measure_quality() has it.
      const double y = in.dtype == DType::f64 ? code * static_cast<double>(scale)
                                              : static_cast<double>(static_cast<float>(code) * scale);
      sums.xx_ += x * x;
      sums.xy_ += x * y;
      sums.yy_ += y * y;
      sums.ee_ += (x - y) * (x - y);
    }
    all.add(sums);
  }
  return all;
}

void QualitySums::add(const QualitySums& other) {
  xx_ += other.xx_;
  xy_ += other.xy_;
  yy_ += other.yy_;
  ee_ += other.ee_;
  tiny_ = tiny_ || other.tiny_;
}

bool QualitySums::sure() const {
  return std::isfinite(xx_) && std::isfinite(xy_) && std::isfinite(yy_) && !tiny_ && ee_ > xx_ * kSmallestShare;
}

Quality QualitySums::quality(std::int64_t elements, std::int64_t zeros) const {
  const FpEnvGuard guard;
  Quality quality;
  const bool finite = std::isfinite(xx_) && std::isfinite(ee_) && std::isfinite(xy_) && std::isfinite(yy_);
  if (finite && xx_ > 0)
    quality.sqnr_db = ee_ > 0 ? 10.0 * std::log10(xx_ / ee_) : std::numeric_limits<double>::infinity();
  if (finite && xx_ > 0 && yy_ > 0) quality.cosine = xy_ / (std::sqrt(xx_) * std::sqrt(yy_));
  quality.zero_fraction = elements > 0 ? static_cast<double>(zeros) / static_cast<double>(elements) : 0;
  return quality;
}

std::vector<std::uint64_t> histogram_of(const ConstTensorView& x, std::span<const float> scales,
                                        const Granularity& granularity) {
  std::vector<std::uint64_t> bins(static_cast<std::size_t>(kHistogramBins));
  const std::int64_t n = x.shape[0], k = x.shape[1];
  const Ranges ranges = make_ranges(n, k, granularity);
  const std::int64_t elements = n * k, step = std::max<std::int64_t>(elements / kSampled, 1) | 1;
  for (std::int64_t i = 0; i < elements; i += step) {
    const auto scale = static_cast<double>(scales[range_at(ranges, i / k, i % k)]);
    const double at = saturated(read_element(x.data, x.dtype, i), x.dtype) / scale;
    const double bin = (at + kHistogramReach) / (2 * kHistogramReach) * static_cast<double>(kHistogramBins);
    ++bins[static_cast<std::size_t>(std::clamp(bin, 0.0, static_cast<double>(kHistogramBins - 1)))];
  }
  return bins;
}

}  // namespace tern
