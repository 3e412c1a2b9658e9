// Runs the loops of an instruction set over a tensor of codes: splits the work over threads, and unpacks codes that the
// loops do not take (groups that share a byte, b3).
#include <algorithm>
#include <atomic>
#include <type_traits>

#include "base/checked.h"
#include "format/format.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"

namespace tern::ternary_dequantize {
namespace {

// About 8 us of work; for less, another thread costs more than it gives.
constexpr std::int64_t kMinElemsPerSlot = 32 * 1024;
constexpr std::int64_t kElemsPerPiece = 64 * 1024;  // what a thread takes at a time
constexpr std::int64_t kStreamBytes = 32 << 20;     // an output this large would not stay in the cache
constexpr std::int64_t kStreamAlignment = 64;

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec)
      : ranges_(table.ranges[static_cast<std::size_t>(params.problem.dtype)]),
        p_(params),
        elem_bytes_(static_cast<std::int64_t>(size_of(params.problem.dtype))),
        exec_(exec),
        load_(static_cast<int>(params.problem.format)),
        per_byte_(codes_per_byte(params.problem.format)),
        min_code_(code_range(params.problem.scheme).min),
        rows_(params.problem.rows),
        k_(params.problem.k),
        len_(params.ranges.per_row == 0 ? params.problem.k : params.ranges.len),
        per_row_(std::max<std::int64_t>(params.ranges.per_row, 1)),
        one_scale_(params.ranges.per_row == 0) {
    const bool dense = p_.y_stride == k_ && p_.codes_stride == k_ / per_byte_ && k_ % per_byte_ == 0;
    if (dense && k_ % len_ == 0) {  // one long row
      if (one_scale_)
        len_ = rows_ * k_;
      else
        per_row_ *= rows_;
      k_ *= rows_;
      rows_ = 1;
    }
    stream_ = rows_ * k_ * elem_bytes_ >= kStreamBytes;
  }

  Status run() {
    // A piece is a few ranges of one row, or a part of one long range. It starts at a byte boundary.
    std::int64_t step = std::max<std::int64_t>(1, kElemsPerPiece / len_);
    if (len_ % per_byte_ != 0) step = ceil_div(step, per_byte_) * per_byte_;
    const std::int64_t parts = per_row_ == 1 ? ceil_div(len_, kElemsPerPiece) : 1;  // of a row's one range
    const std::int64_t per_row = ceil_div(per_row_, step) * parts;
    const std::int64_t elems = rows_ * k_;
    const int slots = static_cast<int>(std::clamp<std::int64_t>(elems / kMinElemsPerSlot, 1, exec_.threads.count()));
    WorkQueue queue(rows_ * per_row, std::max<std::int64_t>(1, kElemsPerPiece / k_ / 4));
    exec_.threads.run(slots, [&](int) {
      for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
        for (std::int64_t piece = begin; piece < end; ++piece) {
          const std::int64_t row = piece / per_row, index = piece % per_row;
          if (per_row_ == 1)
            call(row, 0, index * kElemsPerPiece, 1, std::min(kElemsPerPiece, len_ - index * kElemsPerPiece));
          else
            ranges_of_row(row, index * step, std::min((index + 1) * step, per_row_));
        }
    });
    return invalid_.load() ? Status(invalid_code_error(p_)) : Status();
  }

 private:
  [[nodiscard]] std::byte* y_at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::byte*>(p_.y) + (row * p_.y_stride + column) * elem_bytes_;
  }

  void ranges_of_row(std::int64_t row, std::int64_t first, std::int64_t last) {
    if (len_ % per_byte_ != 0) {
      for (std::int64_t range = first; range < last; ++range)
        unpack(row, range, range * len_, std::min((range + 1) * len_, k_));
      return;
    }
    const std::int64_t whole = last == per_row_ && k_ % len_ != 0 ? last - 1 : last;
    if (first < whole) call(row, first, first * len_, whole - first, len_);
    if (whole < last) call(row, whole, whole * len_, 1, k_ - whole * len_);
  }

  // Dequantizes `count` ranges of a row, from `range` on. The first starts at `column`.
  void call(std::int64_t row, std::int64_t range, std::int64_t column, std::int64_t count, std::int64_t len) {
    if (!has_loops(ranges_, load_)) {
      for (std::int64_t i = 0; i < count; ++i, column += len) unpack(row, range + i, column, column + len);
      return;
    }
    std::byte* y = y_at(row, column);
    const bool aligned = reinterpret_cast<std::uintptr_t>(y) % kStreamAlignment == 0 &&
                         (count == 1 || len * elem_bytes_ % kStreamAlignment == 0);
    const std::uint8_t* codes = p_.codes + row * p_.codes_stride + column / per_byte_;
    if (!ranges_[load_](codes, count, len, scales_from(row, range), min_code_, stream_ && aligned, y))
      invalid_.store(true);
  }

  // Dequantizes columns of a range that shares bytes with others, or of a format without loops: unpacks the codes to
  // int8, a chunk at a time.
  void unpack(std::int64_t row, std::int64_t range, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kChunk = 256;
    std::int8_t codes[kChunk];
    const std::uint8_t* packed_row = p_.codes + row * p_.codes_stride;
    for (std::int64_t at = begin; at < end; at += kChunk) {
      const std::int64_t n = std::min(kChunk, end - at);
      read_codes(p_.problem.format, packed_row, at, n, codes);
      if (!ranges_[kI8](codes, 1, n, scales_from(row, range), min_code_, false, y_at(row, at))) invalid_.store(true);
    }
  }

  [[nodiscard]] const float* scales_from(std::int64_t row, std::int64_t range) const {
    return p_.scales + (one_scale_ ? 0 : row * per_row_ + range);
  }

  std::remove_extent_t<decltype(SimdTable::ranges)> const& ranges_;  // indexed by Load
  const Params& p_;
  std::int64_t elem_bytes_;
  const Exec& exec_;
  int load_;
  std::int64_t per_byte_;
  int min_code_;
  std::int64_t rows_, k_, len_, per_row_;
  bool one_scale_;
  bool stream_ = false;
  std::atomic<bool> invalid_{false};
};

}  // namespace

const SimdTable& loops_for(Capabilities instructions) {
  return *static_cast<const SimdTable*>(loops_table(OpTraits<TernaryDequantize>::kName, instructions));
}

std::size_t cpu_workspace(const SimdTable&, const TernaryDequantize::Problem&, int) { return 0; }

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  return Driver(table, params, exec).run();
}

}  // namespace tern::ternary_dequantize
