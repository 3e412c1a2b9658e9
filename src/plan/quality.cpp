// Quality in f64, summed in the contract's order with vector instructions; and faster sums for matrices that are being
// written.
#include "plan/quality.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/elements.h"
#include "base/errors.h"
#include "base/fp_env.h"
#include "base/views.h"
#include "device/isa.h"
#include "format/format.h"
#include "format/ranges.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"
#include "ops/ternary_quantize/ternary_quantize.h"
#include "plan/context_state.h"
#include "plan/count_trits.h"
#include "simd/pairwise_fold.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "measure_quality";
constexpr auto kSumElems = static_cast<std::int64_t>(simd::kSumBlock);
constexpr std::size_t kTerms = 4;  // x^2, (x - x')^2, x x', x'^2

constexpr std::int64_t kSampled = std::int64_t{1} << 18;  // enough for a smooth picture
constexpr double kHistogramReach = 4;
constexpr double kSmallestShare = 1e-3;       // least error / signal: sums of 6 digits are then good to 0.005 dB
constexpr double kSmallestThreshold = 1e-15;  // the least that the fast sums accept

std::size_t range_at(const Ranges& ranges, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(ranges.per_row == 0 ? 0 : row * ranges.per_row + column / ranges.len);
}
// How many columns are left before the next scale begins.
std::int64_t rest_of_range(const Ranges& ranges, std::int64_t column, std::int64_t k) {
  return ranges.per_row == 0 ? k - column : std::min(k, (column / ranges.len + 1) * ranges.len) - column;
}

}  // namespace

QualityLoops QualityLoops::of(Capabilities instructions) {
  return {&ternary_quantize::loops_for(instructions), &ternary_dequantize::loops_for(instructions)};
}

// Sums over pairs (x, x') in row-major order, block by block. x is read in place where possible; the loops of
// ternary_dequantize decode x' into the first-level cache.
class QualityBlocks {
 public:
  struct Sums {
    std::array<double, kTerms> sum = {};
    std::int64_t zeros = 0;
  };
  using Folds = std::array<simd::PairwiseFold, kTerms>;

  QualityBlocks(const QualityLoops& loops, const QualityRows& in, NonFinite policy)
      : in_(in),
        pair_sums_(loops.sums->of[static_cast<std::size_t>(in.dtype)].pair_sums),
        values_(loops.values->ranges[in.dtype == DType::f64 ? ternary_dequantize::kF64 : ternary_dequantize::kF32]),
        ranges_(make_ranges(in.rows, in.k, in.stored_by)),
        line_(row_bytes(in.format, in.k)),
        per_byte_(codes_per_byte(in.format)),
        value_bytes_(in.dtype == DType::f64 ? sizeof(double) : sizeof(float)),
        policy_(policy) {}

  // Adds elements [begin, end); `begin` is a multiple of a block. False if a value is not finite and the policy rejects
  // such values.
  bool add(std::int64_t begin, std::int64_t end, Sums& sums) const {
    Folds folds;
    for (std::int64_t at = begin; at < end; at += kSumElems)
      if (!add_block(at, std::min(kSumElems, end - at), folds, sums.zeros)) return false;
    for (std::size_t t = 0; t < kTerms; ++t) sums.sum[t] = folds[t].total();
    return true;
  }
  static QualitySums quality_sums(const std::array<double, kTerms>& sum) {
    QualitySums sums;
    sums.xx_ = sum[0];
    sums.ee_ = sum[1];
    sums.xy_ = sum[2];
    sums.yy_ = sum[3];
    return sums;
  }

 private:
  // A block of x, or of x', of any type.
  struct alignas(64) Block {
    std::byte bytes[kSumElems * static_cast<std::int64_t>(sizeof(double))];
  };

  bool add_block(std::int64_t begin, std::int64_t n, Folds& folds, std::int64_t& zeros) const {
    Block x_copy, y;
    decode(begin, n, y.bytes);
    const std::byte* x = elements(begin, n, x_copy.bytes);
    double of[kTerms];
    std::int64_t here = 0;
    pair_sums_(x, y.bytes, n, of, &here);
    // The square of a finite f64 may overflow, so look at the values themselves.
    if (!std::isfinite(of[0]) && !all_finite(x, n)) {
      if (policy_ == NonFinite::reject) return false;
      for (std::int64_t i = 0; i < n; ++i)
        write_element(x_copy.bytes, in_.dtype, i, saturated(read_element(x, in_.dtype, i), in_.dtype));
      here = 0;
      pair_sums_(x_copy.bytes, y.bytes, n, of, &here);
    }
    zeros += here;
    for (std::size_t t = 0; t < kTerms; ++t) folds[t].add(of[t]);
    return true;
  }

  [[nodiscard]] bool all_finite(const std::byte* x, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i)
      if (!std::isfinite(read_element(x, in_.dtype, i))) return false;
    return true;
  }
  const std::byte* elements(std::int64_t begin, std::int64_t n, std::byte* copy) const {
    const std::int64_t row = begin / in_.k, column = begin % in_.k;
    if (in_.stride == in_.k || column + n <= in_.k) return element(in_.x, in_.dtype, row * in_.stride + column);
    const auto bytes = static_cast<std::int64_t>(size_of(in_.dtype));
    for (std::int64_t done = 0, some = 0; done < n; done += some) {
      const std::int64_t at = begin + done;
      some = std::min(n - done, in_.k - at % in_.k);
      std::memcpy(copy + done * bytes, element(in_.x, in_.dtype, at / in_.k * in_.stride + at % in_.k),
                  static_cast<std::size_t>(some * bytes));
    }
    return copy;
  }

  // x' in the type that the scheme computes in, not rounded to f16 or bf16.
  void decode(std::int64_t begin, std::int64_t n, std::byte* y) const {
    for (std::int64_t done = 0, some = 0; done < n; done += some) {
      const std::int64_t row = (begin + done) / in_.k, column = (begin + done) % in_.k;
      const std::int64_t in_row = std::min(n - done, in_.k - column);
      some = std::min(rest_of_range(ranges_, column, in_.k), in_row);
      std::int64_t count = 1;
      if (some == ranges_.len && (some % per_byte_ == 0 || in_.format == Format::i8)) {  // whole ranges in one call
        count = in_row / some;
        decode_ranges(row, column, count, some, y + done * value_bytes_);
        some *= count;
      } else {
        decode_part(row, column, some, y + done * value_bytes_);
      }
    }
  }
  void decode_ranges(std::int64_t row, std::int64_t column, std::int64_t count, std::int64_t len, std::byte* y) const {
    if (!has_loops()) {
      for (std::int64_t i = 0; i < count; ++i) decode_part(row, column + i * len, len, y + i * len * value_bytes_);
      return;
    }
    call(in_.format, in_.codes + row * line_ + column / per_byte_, count, len, scales_at(row, column), y);
  }
  // Decodes a part of one range. Codes before the next whole byte are unpacked to int8 first, and so are all codes of a
  // format without loops.
  void decode_part(std::int64_t row, std::int64_t column, std::int64_t n, std::byte* y) const {
    const float* scale = scales_at(row, column);
    const std::uint8_t* line = in_.codes + row * line_;
    const std::int64_t to_byte = (per_byte_ - column % per_byte_) % per_byte_;
    const std::int64_t unpacked = !has_loops() ? n : std::min(n, to_byte);
    if (unpacked > 0) {
      std::int8_t codes[kSumElems];
      read_codes(in_.format, line, column, unpacked, codes);
      call(Format::i8, codes, 1, unpacked, scale, y);
    }
    if (unpacked < n)
      call(in_.format, line + (column + unpacked) / per_byte_, 1, n - unpacked, scale, y + unpacked * value_bytes_);
  }
  void call(Format format, const void* codes, std::int64_t count, std::int64_t len, const float* scales,
            std::byte* y) const {
    constexpr int kLeast = -2;  // every code was validated
    values_[static_cast<std::size_t>(format)](codes, count, len, scales, kLeast, false, y);
  }
  [[nodiscard]] bool has_loops() const { return ternary_dequantize::has_loops(values_, static_cast<int>(in_.format)); }
  [[nodiscard]] const float* scales_at(std::int64_t row, std::int64_t column) const {
    return in_.stored.data() + range_at(ranges_, row, column);
  }

  const QualityRows& in_;
  decltype(ternary_quantize::SourceLoops::pair_sums) pair_sums_;
  std::remove_extent_t<decltype(ternary_dequantize::SimdTable::ranges)> const& values_;  // by format
  Ranges ranges_;
  std::int64_t line_, per_byte_, value_bytes_;
  NonFinite policy_;
};

QualitySums QualitySums::fast(const QualityLoops& table, const QualityRows& in) {
  const ternary_quantize::SourceLoops& loops = table.sums->of[static_cast<std::size_t>(in.dtype)];
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

QualitySums QualitySums::exact(const QualityLoops& loops, const QualityRows& in) {
  QualityBlocks::Sums sums;
  QualityBlocks(loops, in, NonFinite::saturate).add(0, in.rows * in.k, sums);
  return QualityBlocks::quality_sums(sums.sum);
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

Result<Quality> measure_quality(const Context& context, const ConstTensorView& x, const QuantizedTensor& q,
                                NonFinite non_finite) {
  TERN_RETURN_IF_ERROR(validate(q));
  if (x.dtype != DType::f32 && x.dtype != DType::f64 && x.dtype != DType::f16 && x.dtype != DType::bf16)
    return error(Code::invalid_argument, kWhere, "x is {}; it must be f32, f64, f16 or bf16", name(x.dtype));
  TERN_ASSIGN(rows, as_rows(kWhere, "x", x, x.dtype, q.rows(), q.k()));
  const std::int64_t elements = rows.rows * rows.k;
  if (elements == 0) return error(Code::empty_input, kWhere, "x is {}: nothing to compare", name(x.shape));
  TERN_ASSIGN(instructions, usable_instructions());
  const FpEnvGuard modes;

  // Segments of 2^j blocks are subtrees of the pairwise sum.
  std::int64_t segment_elems = 64 * kSumElems;
  while (ceil_div(elements, segment_elems) > 1024) segment_elems *= 2;
  const std::int64_t segments = ceil_div(elements, segment_elems);
  std::vector<QualityBlocks::Sums> parts(static_cast<std::size_t>(segments));
  std::atomic<bool> bad{false};
  const QualityRows in{.x = x.data,
                       .dtype = x.dtype,
                       .rows = rows.rows,
                       .k = rows.k,
                       .stride = rows.stride,
                       .format = q.format,
                       .codes = q.quantized_data().data(),
                       .stored = q.scale_values(),
                       .stored_by = q.granularity};
  const QualityBlocks blocks(QualityLoops::of(instructions), in, non_finite);
  WorkQueue queue(segments, 1);
  const Threads& threads = context.state().threads;
  threads.run(static_cast<int>(std::min<std::int64_t>(threads.count(), segments)), [&](int) {
    for (std::int64_t i = 0, end = 0; queue.next(i, end);)
      if (!blocks.add(i * segment_elems, std::min((i + 1) * segment_elems, elements),
                      parts[static_cast<std::size_t>(i)]))
        return bad.store(true);
  });
  if (bad.load())
    return error(Code::non_finite, kWhere, "x holds a non-finite value; mend it, or ask for non_finite = saturate");

  QualityBlocks::Folds folds;
  std::int64_t zeros = 0;
  for (const QualityBlocks::Sums& part : parts) {
    for (std::size_t t = 0; t < kTerms; ++t) folds[t].add(part.sum[t]);
    zeros += part.zeros;
  }
  std::array<double, kTerms> sum;
  for (std::size_t t = 0; t < kTerms; ++t) sum[t] = folds[t].total();
  return QualityBlocks::quality_sums(sum).quality(elements, zeros);
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
