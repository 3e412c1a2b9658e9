// Canonical codes and scales to the bytes of a layout, by all threads.
#include "runtime/encode_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/errors.h"
#include "format/format.h"
#include "ops/ranges.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "write_model";
constexpr std::int64_t kElemsPerPiece = std::int64_t{1} << 20;

struct Count {
  std::int64_t minus = 0, plus = 0;
};

constexpr std::uint64_t kLow = 0x5555'5555'5555'5555U;

// The sum of 32 fields of two bits.
std::int64_t sum_fields(std::uint64_t fields) {
  constexpr std::uint64_t kPairs = 0x3333'3333'3333'3333U, kBytes = 0x0F0F'0F0F'0F0F'0F0FU;
  fields = (fields & kPairs) + (fields >> 2 & kPairs);
  fields = (fields & kBytes) + (fields >> 4 & kBytes);
  return static_cast<std::int64_t>(fields * 0x0101'0101'0101'0101U >> 56);
}

// Code 0 is -1 and code 2 is +1, so with code 3 never there the high bits are the +1, and neither bit is a -1.
std::uint64_t pluses(std::uint64_t word) { return word >> 1 & kLow; }
std::uint64_t minuses(std::uint64_t word) { return ~(word | word >> 1) & kLow; }

std::uint64_t load_word(const std::uint8_t* codes, std::int64_t bytes) {
  std::uint64_t word = kLow;  // what is missing counts as zeros
  std::memcpy(&word, codes, static_cast<std::size_t>(bytes));
  return word;
}

Count count_bytes(const std::uint8_t* codes, std::int64_t bytes) {
  Count count;
  std::int64_t i = 0;
  for (; i + 24 <= bytes; i += 24) {  // three words before a field of two bits is full
    const std::uint64_t a = load_word(codes + i, 8), b = load_word(codes + i + 8, 8), c = load_word(codes + i + 16, 8);
    count.plus += sum_fields(pluses(a) + pluses(b) + pluses(c));
    count.minus += sum_fields(minuses(a) + minuses(b) + minuses(c));
  }
  for (; i < bytes; i += 8) {
    const std::uint64_t word = load_word(codes + i, std::min<std::int64_t>(8, bytes - i));
    count.plus += sum_fields(pluses(word));
    count.minus += sum_fields(minuses(word));
  }
  return count;
}

}  // namespace

std::array<std::int64_t, 3> count_trits(const Threads& threads, const QuantizedTensor& weights) {
  const std::span<const std::uint8_t> codes = weights.quantized_data();
  const auto bytes = static_cast<std::int64_t>(codes.size());
  std::atomic<std::int64_t> minus = 0, plus = 0;
  WorkQueue queue(bytes, 1 << 18);
  threads.run(threads.count(), [&](int) {
    for (std::int64_t begin = 0, end = 0; queue.next(begin, end);) {
      const Count count = count_bytes(codes.data() + begin, end - begin);
      minus += count.minus;
      plus += count.plus;
    }
  });
  return {minus, weights.rows() * weights.k() - minus - plus, plus};
}

std::int64_t count_signs(const std::uint8_t* row, std::int64_t first, std::int64_t n) {
  std::int64_t count = 0;
  for (; n > 0 && first % 4 != 0; ++first, --n) count += read_code(Format::i2, row, first) != 0 ? 1 : 0;
  const Count whole = count_bytes(row + first / 4, n / 4);
  count += whole.minus + whole.plus;
  for (std::int64_t i = first + n / 4 * 4; i < first + n; ++i) count += read_code(Format::i2, row, i) != 0 ? 1 : 0;
  return count;
}

Result<FittedScales> fitted_scales(const QuantizedTensor& weights, const TensorPlan& plan, Lossy lossy) {
  const Layout layout = plan.layout.layout;
  const std::span<const float> scales = weights.scale_values();
  // hf_packed has one scale beside it as i2_s has one behind it.
  const bool one = layout == Layout::hf_packed && weights.granularity != Granularity::tensor();
  if (scales_in(layout) || one)
    return fit_scales(one ? Layout::i2_s_x86_128 : layout, weights.codes.view(), weights.rows(), weights.k(), scales,
                      weights.granularity, lossy);
  if (weights.granularity != plan.granularity)
    return error(Code::internal, kWhere, "scales by {} were planned by {}", name(weights.granularity),
                 name(plan.granularity));
  return FittedScales{{scales.begin(), scales.end()}, {}};
}

Status encode_weights(const Threads& threads, const QuantizedTensor& weights, const LayoutSpec& layout,
                      std::span<const float> scales, std::span<std::uint8_t> bytes) {
  const std::int64_t n = weights.rows(), k = weights.k(), line = row_bytes(Format::i2, k);
  TERN_ASSIGN(block, layout_row_block(layout, n, k));
  const std::int64_t step = std::max<std::int64_t>(kElemsPerPiece / std::max<std::int64_t>(k, 1) / block, 1) * block;
  const auto inside = scales_in(layout.layout);
  const bool by_block = inside && *inside != Granularity::tensor();
  const std::int64_t per_row = n > 0 && by_block ? static_cast<std::int64_t>(scales.size()) / n : 0;
  std::mutex mutex;
  Status failed;
  std::int64_t failed_at = n;
  WorkQueue queue(ceil_div(n, step), 1);
  threads.run(threads.count(), [&](int) {
    for (std::int64_t piece = 0, end = 0; queue.next(piece, end);) {
      const RowRange rows{piece * step, std::min(step, n - piece * step)};
      const ConstTensorView codes{weights.quantized_data().data() + rows.first * line, DType::u8, {rows.count, line}};
      const std::span<const float> some = by_block ? scales.subspan(static_cast<std::size_t>(rows.first * per_row),
                                                                    static_cast<std::size_t>(rows.count * per_row))
                                          : inside ? scales
                                                   : std::span<const float>();
      Status status = export_rows(layout, codes, n, k, rows, some, bytes);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (rows.first >= failed_at) continue;
      failed = std::move(status);
      failed_at = rows.first;
    }
  });
  return failed;
}

}  // namespace tern
