// Runs the loops of an instruction set over a tensor: splits the work over threads, finds the first non-finite value,
// and handles what the loops do not take (strided rows, values to saturate, groups that share a byte).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/checked.h"
#include "base/elements.h"
#include "memory/workspace.h"
#include "ops/ternary_quantize/row_writer.h"
#include "ops/ternary_quantize/scale.h"
#include "ops/ternary_quantize/ternary_quantize.h"
#include "simd/pairwise_fold.h"

namespace tern::ternary_quantize {
namespace {

constexpr std::int64_t kBlock = static_cast<std::int64_t>(simd::kSumBlock);
// About 8 us of work; for less, another thread costs more than it gives.
constexpr std::int64_t kMinElemsPerSlot = 32 * 1024;
constexpr std::int64_t kElemsPerPiece = 64 * 1024;  // what a thread takes at a time: small enough to balance
constexpr std::int64_t kMaxSegments = 1024;         // of a long range; each a whole subtree of the sum

// The statistics of one segment of a long range.
struct Segment {
  double sum = 0;
  std::int64_t count = 0;
  double max_abs = 0;
  double max_signed[2] = {0, 0};  // the largest x, the largest -x
  bool bad = false;               // holds a non-finite value
};

// The parts of the workspace. The same bookings give its size (base is null) and its addresses.
struct Scratch {
  std::byte* blocks = nullptr;  // one block per slot
  Segment* segments = nullptr;
  std::size_t bytes = 0;

  Scratch(std::byte* base, DType dtype, int slots) {
    WorkspaceLedger ledger(base);
    blocks = ledger.book<std::byte>(static_cast<std::size_t>(slots) * simd::kSumBlock * size_of(dtype));
    segments = ledger.book<Segment>(kMaxSegments);
    bytes = ledger.bytes();
  }
};

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec)
      : p_(params),
        dtype_(params.problem.dtype),
        elem_bytes_(static_cast<std::int64_t>(size_of(dtype_))),
        loops_(table.of[static_cast<std::size_t>(dtype_)]),
        exec_(exec),
        scratch_(exec.workspace.data(), dtype_, exec.threads.count()),
        rule_(static_cast<int>(params.problem.scheme)),
        store_(static_cast<int>(params.problem.format)),
        per_byte_(codes_per_byte(params.problem.format)),
        rows_(params.problem.rows),
        k_(params.problem.k),
        len_(params.ranges.len),
        per_row_(params.ranges.per_row) {
    flatten();
  }

  Status run() {
    const int slots = slots_for(rows_ * k_);
    // If there are few long ranges, all threads share one range after the other. Otherwise, and if ranges share a byte,
    // each thread takes whole ranges.
    const bool own_bytes = per_row_ == 1 || len_ % per_byte_ == 0;
    if (per_row_ == 0 || (slots > 1 && own_bytes && rows_ * per_row_ < 2 * slots))
      for (std::int64_t r = 0; r < p_.ranges.total && !found_bad(); ++r) long_range(r, slots);
    else
      many_ranges(slots);
    if (found_bad()) return non_finite_error(p_, first_bad_.load());
    if (first_large_ != kNone) return scale_error(p_, first_large_, large_scale_);
    return {};
  }

 private:
  [[nodiscard]] bool saturate() const { return p_.problem.non_finite == NonFinite::saturate; }
  [[nodiscard]] bool found_bad() const { return first_bad_.load(std::memory_order_relaxed) != kNone; }
  [[nodiscard]] int slots_for(std::int64_t elems) const {
    return static_cast<int>(std::clamp<std::int64_t>(elems / kMinElemsPerSlot, 1, exec_.threads.count()));
  }
  [[nodiscard]] std::byte* block_scratch(int slot) const { return scratch_.blocks + slot * kBlock * elem_bytes_; }
  [[nodiscard]] std::int64_t offset(std::int64_t index) const { return index / k_ * p_.x_stride + index % k_; }
  [[nodiscard]] const std::byte* address(std::int64_t index) const { return element(p_.x, dtype_, offset(index)); }
  [[nodiscard]] bool contiguous(std::int64_t begin, std::int64_t n) const {
    return begin % k_ + n <= k_ || p_.x_stride == k_;
  }

  // Turns a dense tensor whose rows end on byte boundaries into one long row: fewer, larger pieces.
  void flatten() {
    const bool dense = p_.x_stride == k_ && p_.codes_stride == k_ / per_byte_ && k_ % per_byte_ == 0;
    if (!dense || rows_ == 1 || (per_row_ > 0 && k_ % len_ != 0)) return;
    if (per_row_ > 0) per_row_ *= rows_;
    k_ *= rows_;
    rows_ = 1;
  }

  // Records the lowest row-major index of a non-finite value in [begin, begin + n). Returns false if there is none.
  bool report_bad(std::int64_t begin, std::int64_t n) {
    for (std::int64_t i = begin; i < begin + n; ++i) {
      if (std::isfinite(read_element(p_.x, dtype_, offset(i)))) continue;
      std::int64_t known = first_bad_.load();
      while (i < known && !first_bad_.compare_exchange_weak(known, i)) {
      }
      return true;
    }
    return false;
  }
  // Records the lowest range whose scale overflows f32.
  void report_large(std::int64_t range, double scale) {
    const std::lock_guard lock(large_mutex_);
    if (range >= first_large_) return;
    first_large_ = range;
    large_scale_ = scale;
  }

  // Elements [begin, begin + n), at most a block, contiguous and saturated if asked for: in place if they are that
  // already, else in `copy`.
  const std::byte* elements(std::int64_t begin, std::int64_t n, std::byte* copy) const {
    const std::byte* x = address(begin);
    if (!contiguous(begin, n)) {
      for (std::int64_t done = 0, part = 0; done < n; done += part) {
        part = std::min(k_ - (begin + done) % k_, n - done);
        std::memcpy(copy + done * elem_bytes_, address(begin + done), static_cast<std::size_t>(part * elem_bytes_));
      }
      x = copy;
    }
    if (saturate() && std::isinf(loops_.max_abs(x, n))) {
      for (std::int64_t i = 0; i < n; ++i)
        write_element(copy, dtype_, i, saturated(read_element(x, dtype_, i), dtype_));
      x = copy;
    }
    return x;
  }

  // ---- ranges inside rows, several per thread ----

  void many_ranges(int slots) {
    // A piece is a few ranges of one row. It starts at a byte boundary: if ranges share bytes, their number is a
    // multiple of the codes in a byte, except in the row's last piece.
    std::int64_t step = std::max<std::int64_t>(1, kElemsPerPiece / len_);
    if (len_ % per_byte_ != 0) step = ceil_div(step, per_byte_) * per_byte_;
    const std::int64_t per_row = ceil_div(per_row_, step);
    WorkQueue queue(rows_ * per_row, std::max<std::int64_t>(1, kElemsPerPiece / std::max(k_, std::int64_t{1}) / 4));
    exec_.threads.run(slots, [&](int slot) {
      for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
        for (std::int64_t piece = begin; piece < end; ++piece) {
          const std::int64_t row = piece / per_row, first = piece % per_row * step;
          if (row * k_ + first * len_ > first_bad_.load(std::memory_order_relaxed)) return;
          ranges_of_row(row, first, std::min(first + step, per_row_), block_scratch(slot));
        }
    });
  }

  void ranges_of_row(std::int64_t row, std::int64_t first, std::int64_t last, std::byte* copy) {
    const bool plain = !saturate() && p_.given == nullptr && has_loops(loops_, rule_, store_) &&
                       len_ <= loops_.max_len && (len_ % per_byte_ == 0 || last - first == 1);
    if (plain) {
      const std::int64_t whole = last == per_row_ && k_ % len_ != 0 ? last - 1 : last;
      if (first < whole) call_ranges(row, first, whole - first, len_);
      if (whole < last) call_ranges(row, whole, 1, k_ - whole * len_);
      return;
    }
    RowWriter writer = row_writer(row, first * len_);
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = row * k_ + i * len_, n = std::min(len_, k_ - i * len_);
      const float scale = scale_of(row * per_row_ + i, begin, n, copy);
      if (scale == 0.0F) continue;  // the call fails, but later ranges may hold a non-finite value to name
      for (std::int64_t at = 0; at < n; at += kBlock) {
        const std::int64_t part = std::min(kBlock, n - at);
        writer.write(elements(begin + at, part, copy), part, scale);
      }
    }
    writer.finish();
  }

  [[nodiscard]] RowWriter row_writer(std::int64_t row, std::int64_t first) const {
    return {loops_, elem_bytes_, rule_, store_, p_.codes + row * p_.codes_stride, first};
  }

  void call_ranges(std::int64_t row, std::int64_t first, std::int64_t count, std::int64_t len) {
    const std::int64_t column = first * len_;
    const std::int64_t bad =
        loops_.ranges[rule_][store_](address(row * k_ + column), count, len, p_.scales + row * per_row_ + first,
                                     p_.codes + row * p_.codes_stride + column / per_byte_);
    if (bad >= 0) report_bad(row * k_ + column + bad * len, len);
  }

  // Computes and stores the scale of one range on this thread, block by block. Returns 0 as refine() does.
  float scale_of(std::int64_t range, std::int64_t begin, std::int64_t n, std::byte* copy) {
    return refine(range, n, [&](double h) { return segment(begin, n, h, copy); });
  }

  // ---- one range at a time, shared by all threads ----

  void long_range(std::int64_t range, int slots) {
    const std::int64_t begin = per_row_ == 0 ? 0 : range / per_row_ * k_ + range % per_row_ * len_;
    const std::int64_t n = per_row_ == 0 ? rows_ * k_ : std::min(len_, k_ - range % per_row_ * len_);
    // Segments are 2^j blocks, so each is a subtree of the sum.
    std::int64_t segment_elems = kElemsPerPiece;
    while (ceil_div(n, segment_elems) > kMaxSegments) segment_elems *= 2;
    const std::int64_t segments = ceil_div(n, segment_elems);

    const auto measure = [&](double h) {
      WorkQueue queue(segments, 1);
      exec_.threads.run(slots, [&](int slot) {
        for (std::int64_t taken = 0, end = 0; queue.next(taken, end);) {
          // From the end, so that the next pass, which reads from the beginning, finds the first segments in a cache.
          const std::int64_t i = segments - 1 - taken;
          scratch_.segments[i] = segment(begin + i * segment_elems, std::min(segment_elems, n - i * segment_elems), h,
                                         block_scratch(slot));
        }
      });
      Segment all;
      simd::PairwiseFold fold;
      for (std::int64_t i = 0; i < segments; ++i) {
        const Segment& s = scratch_.segments[i];
        fold.add(s.sum);
        all.bad = all.bad || s.bad;
        all.count += s.count;
        all.max_abs = std::max(all.max_abs, s.max_abs);
        for (int j = 0; j < 2; ++j) all.max_signed[j] = std::max(all.max_signed[j], s.max_signed[j]);
      }
      all.sum = fold.total();
      return all;
    };
    const float scale = refine(range, n, measure);
    if (scale != 0.0F && p_.codes != nullptr) write_long_range(begin, n, scale, slots);
  }

  // Writes the codes of [begin, begin + n). A piece is in one row and starts at a byte boundary; a thread takes several
  // pieces at a time if rows are short.
  void write_long_range(std::int64_t begin, std::int64_t n, float scale, int slots) {
    const std::int64_t column = begin % k_, first_row = begin / k_;
    const bool one_row = column + n <= k_;
    const std::int64_t rows = one_row ? 1 : rows_, row_elems = one_row ? n : k_;
    const std::int64_t most = kElemsPerPiece / per_byte_ * per_byte_;
    const std::int64_t per_row = ceil_div(row_elems, most);
    WorkQueue queue(rows * per_row, std::max<std::int64_t>(1, kElemsPerPiece / row_elems / 4));
    exec_.threads.run(slots, [&](int slot) {
      for (std::int64_t from = 0, to = 0; queue.next(from, to);)
        for (std::int64_t piece = from; piece < to; ++piece) {
          const std::int64_t row = first_row + piece / per_row, at = piece % per_row * most;
          const std::int64_t first = (one_row ? column : 0) + at;
          RowWriter writer = row_writer(row, first);
          const std::int64_t last = first + std::min(most, row_elems - at);
          // One call unless values are saturated: the piece is in one row, so nothing else has to be copied.
          const std::int64_t most_at_once = saturate() ? kBlock : last - first;
          for (std::int64_t c = first; c < last; c += most_at_once) {
            const std::int64_t part = std::min(most_at_once, last - c);
            writer.write(elements(row * k_ + c, part, block_scratch(slot)), part, scale);
          }
          writer.finish();
        }
    });
  }

  // ---- statistics ----

  // Computes the scale of a range from measurements, and stores it. measure(h) measures all elements (h < 0) or those
  // above h. Returns 0 after a non-finite value, and if the scale overflows f32.
  template <class Measure>
  float refine(std::int64_t range, std::int64_t n, Measure measure) {
    Segment all;
    if (p_.given == nullptr || !p_.finite) all = measure(-1.0);
    if (all.bad) return 0.0F;
    double scale = 0;
    if (p_.given != nullptr) {
      scale = read_element(p_.given, DType::f32, range * p_.given_step);
    } else if (rule_ == kAbsmax) {
      scale = max_scale(all.max_abs);
    } else if (rule_ == kInt2) {
      scale = int2_scale(all.max_signed[0], all.max_signed[1]);
    } else {
      scale = mean(all.sum, n);
    }
    for (int round = 1; rule_ == kMse && round <= kMaxMseRounds; ++round) {
      const Segment above = measure(threshold(scale));
      if (above.count == 0) break;
      const double next = mean(above.sum, above.count);
      if (next == scale) break;
      scale = next;
    }
    const auto stored = static_cast<float>(scale);
    if (std::isinf(stored)) {
      report_large(range, scale);
      return 0.0F;
    }
    write_element(p_.scales, DType::f32, range, scale);
    return stored;
  }
  // The mean, rounded to the type that the scheme computes in.
  [[nodiscard]] double mean(double sum, std::int64_t count) const {
    return dtype_ == DType::f64 ? mean_scale<double>(sum, count) : static_cast<double>(mean_scale<float>(sum, count));
  }

  // The statistics that the scheme needs of n elements, which start at a block boundary of their range.
  Segment segment(std::int64_t begin, std::int64_t n, double h, std::byte* copy) {
    Segment s;
    if (!saturate() && contiguous(begin, n)) {
      add_statistics(s, address(begin), n, h);
    } else {
      simd::PairwiseFold fold;
      for (std::int64_t at = 0; at < n; at += kBlock) {
        const std::int64_t part = std::min(kBlock, n - at);
        add_statistics(s, elements(begin + at, part, copy), part, h);
        fold.add(s.sum);
      }
      s.sum = fold.total();
    }
    // A sum of finite f64 may be infinite too: report_bad() then finds nothing, and the scale overflows f32.
    const bool finite = std::isfinite(s.sum) && std::isfinite(std::max({s.max_abs, s.max_signed[0], s.max_signed[1]}));
    s.bad = !finite && !saturate() && report_bad(begin, n);
    return s;
  }

  // Sets s.sum; updates the other statistics.
  void add_statistics(Segment& s, const std::byte* x, std::int64_t n, double h) const {
    if (rule_ == kAbsmax || p_.given != nullptr) {
      s.max_abs = std::max(s.max_abs, loops_.max_abs(x, n));
    } else if (rule_ == kInt2) {
      double of[2];
      loops_.max_signed(x, n, of);
      for (int j = 0; j < 2; ++j) s.max_signed[j] = std::max(s.max_signed[j], of[j]);
    } else if (h < 0) {
      s.sum = loops_.abs_sum(x, n);
    } else {
      std::int64_t count = 0;
      s.sum = loops_.abs_sum_above(x, n, h, &count);
      s.count += count;
    }
  }

  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  const Params& p_;
  DType dtype_;
  std::int64_t elem_bytes_;
  const SourceLoops& loops_;
  const Exec& exec_;
  Scratch scratch_;
  int rule_, store_;
  std::int64_t per_byte_, rows_, k_, len_, per_row_;
  std::atomic<std::int64_t> first_bad_{kNone};
  std::mutex large_mutex_;
  std::int64_t first_large_ = kNone;
  double large_scale_ = 0;
};

}  // namespace

const SimdTable& loops_for(Capabilities instructions) {
  return *static_cast<const SimdTable*>(loops_table(OpTraits<TernaryQuantize>::kName, instructions));
}

std::size_t cpu_workspace(const SimdTable&, const TernaryQuantize::Problem& problem, int threads) {
  return Scratch(nullptr, problem.dtype, threads).bytes;
}

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  return Driver(table, params, exec).run();
}

}  // namespace tern::ternary_quantize
