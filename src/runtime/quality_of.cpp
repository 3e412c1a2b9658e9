// Sums by rows, in an order that does not depend on the number of threads.
#include "runtime/quality_of.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "base/fp_env.h"
#include "format/format.h"
#include "ops/elements.h"
#include "ops/ranges.h"
#include "plan/context_state.h"
#include "runtime/encode_weights.h"
#include "runtime/error_sums.h"

namespace tern {
namespace {

constexpr std::int64_t kElemsPerPiece = std::int64_t{1} << 18;
constexpr std::int64_t kSampled = std::int64_t{1} << 18;  // enough for a smooth picture
constexpr double kHistogramReach = 4;
constexpr double kSmallestShare = 1e-3;  // of the error in the whole: with sums of 6 digits, 0.005 dB

struct Sums {
  double xx = 0, xy = 0;
  void add(const Sums& other) {
    xx += other.xx;
    xy += other.xy;
  }
};

std::size_t range_at(const Ranges& ranges, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(ranges.per_row == 0 ? 0 : row * ranges.per_row + column / ranges.len);
}
// Columns from here to where another scale begins.
std::int64_t rest_of_range(const Ranges& ranges, std::int64_t column, std::int64_t k) {
  return ranges.per_row == 0 ? k - column : std::min(k, (column / ranges.len + 1) * ranges.len) - column;
}

// The sum of x'^2.
double squares_of_result(const QualityInput& in, const Ranges& stored) {
  if (stored.per_row == 0) {
    const auto scale = in.scales.empty() ? 0.0 : static_cast<double>(in.scales[0]);
    return scale * scale * static_cast<double>(in.trits[0] + in.trits[2]);
  }
  const std::int64_t n = in.weights.rows(), k = in.weights.k();
  double sum = 0;
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t c = 0, some = 0; c < k; c += some) {
      some = rest_of_range(stored, c, k);
      const auto scale = static_cast<double>(in.scales[range_at(stored, row, c)]);
      const std::uint8_t* codes = in.weights.quantized_data().data() + row * row_bytes(Format::i2, k);
      sum += scale * scale * static_cast<double>(count_signs(codes, c, some));
    }
  return sum;
}

// Exact, and slow: what the fast sums cannot do.
Result<Quality> measure(const Context& context, const QualityInput& in) {
  QuantizedTensor stored;
  stored.shape = in.weights.shape;
  stored.granularity = in.granularity;
  TERN_ASSIGN(codes, Tensor::allocate(host_memory(), DType::u8, in.weights.codes.shape(), "codes"));
  std::memcpy(codes.data(), in.weights.codes.data(), codes.bytes());
  TERN_ASSIGN(scales,
              Tensor::allocate(host_memory(), DType::f32, {static_cast<std::int64_t>(in.scales.size())}, "scales"));
  std::memcpy(scales.data(), in.scales.data(), scales.bytes());
  stored.codes = std::move(codes);
  stored.scales = std::move(scales);
  return measure_quality(context, in.x, stored, in.non_finite);
}

}  // namespace

Result<Quality> quality_of(const Context& context, const QualityInput& in) {
  if (in.non_finite == NonFinite::saturate) return measure(context, in);
  const std::int64_t n = in.weights.rows(), k = in.weights.k();
  const Ranges decided = make_ranges(n, k, in.weights.granularity), stored = make_ranges(n, k, in.granularity);
  const auto elem = static_cast<std::int64_t>(size_of(in.x.dtype));
  const auto* data = static_cast<const std::uint8_t*>(in.x.data);
  std::atomic<bool> tiny = false;
  const auto row_sums = [&](std::int64_t row) {
    Sums sums;
    for (std::int64_t c = 0, some = 0; c < k; c += some) {
      some = std::min(rest_of_range(decided, c, k), rest_of_range(stored, c, k));
      const auto deciding = static_cast<double>(in.weights.scale_values()[range_at(decided, row, c)]);
      const double threshold = in.threshold.value_or(deciding / 2);
      if (threshold < kSmallestThreshold) tiny = true;
      const ErrorSums found = error_sums(data + (row * k + c) * elem, in.x.dtype, some, threshold);
      sums.xx += found.xx;
      sums.xy += found.above * static_cast<double>(in.scales[range_at(stored, row, c)]);
    }
    return sums;
  };
  const std::int64_t step = std::max<std::int64_t>(kElemsPerPiece / std::max<std::int64_t>(k, 1), 1);
  std::vector<Sums> pieces(static_cast<std::size_t>(ceil_div(n, step)));
  WorkQueue queue(static_cast<std::int64_t>(pieces.size()), 1);
  const Threads& threads = context.state().threads;
  threads.run(threads.count(), [&](int) {
    for (std::int64_t piece = 0, end = 0; queue.next(piece, end);)
      for (std::int64_t row = piece * step; row < std::min(n, (piece + 1) * step); ++row)
        pieces[static_cast<std::size_t>(piece)].add(row_sums(row));
  });
  const FpEnvGuard guard;
  Sums all;
  for (const Sums& piece : pieces) all.add(piece);
  const double yy = squares_of_result(in, stored);
  // (x - x')^2 = x^2 - 2 x x' + x'^2. Where that is a small difference, digits are lost.
  const double ee = all.xx - 2 * all.xy + yy;
  const bool sure = std::isfinite(all.xx) && std::isfinite(all.xy) && std::isfinite(yy) && !tiny;
  if (!sure || !(ee > all.xx * kSmallestShare)) return measure(context, in);
  Quality quality;
  quality.sqnr_db = 10.0 * std::log10(all.xx / ee);
  if (yy > 0) quality.cosine = all.xy / (std::sqrt(all.xx) * std::sqrt(yy));
  const auto elements = static_cast<double>(n * k);
  quality.zero_fraction = elements > 0 ? static_cast<double>(in.trits[1]) / elements : 0;
  return quality;
}

std::vector<std::uint64_t> histogram_of(const QualityInput& in) {
  std::vector<std::uint64_t> bins(static_cast<std::size_t>(kHistogramBins));
  const std::int64_t n = in.weights.rows(), k = in.weights.k();
  const Ranges decided = make_ranges(n, k, in.weights.granularity);
  const std::int64_t elements = n * k, step = std::max<std::int64_t>(elements / kSampled, 1) | 1;
  for (std::int64_t i = 0; i < elements; i += step) {
    const double scale =
        static_cast<double>(in.weights.scale_values()[static_cast<std::size_t>(range_at(decided, i / k, i % k))]);
    const double at = saturated(read_element(in.x.data, in.x.dtype, i), in.x.dtype) / scale;
    const double bin = (at + kHistogramReach) / (2 * kHistogramReach) * static_cast<double>(kHistogramBins);
    ++bins[static_cast<std::size_t>(std::clamp(bin, 0.0, static_cast<double>(kHistogramBins - 1)))];
  }
  return bins;
}

}  // namespace tern
