// CPU driver: runs the SIMD loops over the ranges of a tensor. Handles threads, strides, non-finite elements, and
// methods that scan a range many times.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <type_traits>

#include "base/checked.h"
#include "base/elements.h"
#include "memory/workspace.h"
#include "ops/affine/families.h"
#include "ops/affine/pieces.h"
#include "ops/choose_qparams/choose_qparams.h"

namespace tern::choose_qparams {
namespace {

using affine::Family;
using affine::kChunk;
using affine::kElemsPerPiece;
using affine::Lines;

constexpr std::int64_t kPartsPerSlot = 4;  // parts per thread if ranges are few, so that a slow thread takes fewer

template <class T>
struct Extremes {
  T up = 0, down = 0;
  void merge(const Extremes& other) {
    up = std::max(up, other.up);
    down = std::max(down, other.down);
  }
};

// The layout of the workspace. cpu_workspace() and cpu_run() book it in the same way.
template <class T>
struct Scratch {
  T* copies = nullptr;             // copies of ranges, one per slot
  Extremes<T>* partial = nullptr;  // extremes of every range, if several threads share a range
  std::int64_t slots = 0;          // slots with a copy
  std::size_t bytes = 0;

  Scratch(std::byte* base, const ChooseQparams::Problem& p, std::int64_t ranges, int threads) {
    WorkspaceLedger ledger(base);
    if (copies_ranges(p)) {
      slots = std::min<std::int64_t>(threads, ranges);
      copies = ledger.book<T>(static_cast<std::size_t>(slots * affine::longest_range(p.shape, p.granularity)));
    } else if (ranges <= kPartsPerSlot * threads * kChunk) {
      partial = ledger.book<Extremes<T>>(static_cast<std::size_t>(ranges));
    }
    bytes = ledger.bytes();
  }
};

// Buffers of one thread.
template <class T>
struct Buffers {
  alignas(64) double x[kChunk];  // elements of any type
  alignas(64) T up[kChunk];
  alignas(64) T down[kChunk];
};

affine::Words words_of(const ChooseQparams::Problem& p) {
  affine::Words words = affine::words_of(p);
  words.format = Format::s8;  // no codes are written, so none can share a byte
  return words;
}

template <class T>
class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec)
      : table_(table),
        p_(params),
        exec_(exec),
        scratch_(exec.workspace.data(), params.problem, params.count, exec.threads.count()),
        lines_(affine::make_lines(words_of(params.problem), params.x.strides, affine::last_of(params.problem.shape))),
        families_(lines_) {}

  Status run() {
    if (copies_ranges(p_.problem)) {
      copied_ranges();
    } else if (lines_.run == Lines::Run::each) {
      columns();
    } else if (lines_.run == Lines::Run::groups && lines_.group <= kChunk) {
      short_groups();
    } else {
      long_ranges();
    }
    if (refused_) return affine::non_finite_error(p_.op, p_.x);
    if (large_ != kNone) return scale_error(p_, large_);
    return {};
  }

 private:
  [[nodiscard]] bool extremes(const void* x, DType dtype, std::int64_t count, std::int64_t len, T* up, T* down) const {
    if constexpr (std::is_same_v<T, float>)
      return table_.extremes[affine::float_type(dtype)](x, count, len, up, down);
    else
      return table_.wide_extremes(x, count, len, up, down);
  }
  [[nodiscard]] bool each(const void* x, DType dtype, std::int64_t n, T* up, T* down) const {
    if constexpr (std::is_same_v<T, float>)
      return table_.each[affine::float_type(dtype)](x, n, up, down);
    else
      return table_.wide_each(x, n, up, down);
  }
  [[nodiscard]] double squared_error(const T* x, std::int64_t n, const Chosen<T>& chosen) const {
    const T low = static_cast<T>(p_.rule.q.min - chosen.zero_point);
    const T high = static_cast<T>(p_.rule.q.max - chosen.zero_point);
    if constexpr (std::is_same_v<T, float>)
      return table_.squared_error(x, n, chosen.scale, low, high);
    else
      return table_.wide_squared_error(x, n, chosen.scale, low, high);
  }

  // Runs f(buffers, item) for every item, `elems` elements each.
  template <class Fn>
  void each_item(std::int64_t items, std::int64_t elems, Fn f) {
    const std::int64_t wanted = lines_.count * lines_.k / affine::kMinElemsPerSlot;
    WorkQueue queue(items, std::max<std::int64_t>(1, kElemsPerPiece / elems));
    exec_.threads.run(static_cast<int>(std::clamp<std::int64_t>(wanted, 1, exec_.threads.count())), [&](int) {
      Buffers<T> buffers;
      for (std::int64_t item = 0, end = 0; queue.next(item, end);)
        for (; item < end && !refused_.load(std::memory_order_relaxed); ++item) f(buffers, item);
    });
  }

  // Returns n <= kChunk contiguous elements of a line: copied if they are strided, saturated if the problem asks for
  // it.
  struct Elements {
    const void* x;
    DType dtype;
  };
  Elements elements(Buffers<T>& buffers, std::int64_t line, std::int64_t column, std::int64_t n) const {
    const std::int64_t stride = lines_.tensors[0].last;
    Elements e{nullptr, p_.problem.dtype};
    e.x = element(p_.x.data, e.dtype, lines_.offset_of(line) + column * stride);
    if (stride != 1) {
      affine::gather(e.x, e.dtype, stride, n, buffers.x);
      e.x = buffers.x;
    }
    T up = 0, down = 0;
    if (p_.problem.non_finite == NonFinite::reject || extremes(e.x, e.dtype, 1, n, &up, &down)) return e;
    return {buffers.x, affine::saturate(e.x, e.dtype, n, buffers.x)};
  }

  void refuse_unless(bool finite) {
    if (!finite) refused_ = true;
  }
  void finish(std::int64_t range, const Chosen<T>& chosen) {
    if (!std::isinf(chosen.scale)) return store(p_, range, chosen);
    std::int64_t known = large_.load();
    while (range < known && !large_.compare_exchange_weak(known, range)) {
    }
  }
  // Takes the extremes of n ranges and chooses their scales. If ranges are cut into several parts, it only merges this
  // part's extremes into `partial`.
  void finish(std::int64_t first, std::int64_t n, const T* up, const T* down, std::int64_t parts = 1) {
    if (parts == 1) {
      for (std::int64_t i = 0; i < n; ++i) finish(first + i, choose(p_.rule, up[i], down[i]));
      return;
    }
    const std::lock_guard lock(mutex_);
    for (std::int64_t i = 0; i < n; ++i) scratch_.partial[first + i].merge({up[i], down[i]});
  }

  // The number of parts each item is cut into, so that there is work for every thread.
  std::int64_t parts_for(std::int64_t items, std::int64_t most) {
    const std::int64_t wanted = kPartsPerSlot * exec_.threads.count();
    if (scratch_.partial == nullptr || exec_.threads.count() == 1 || items >= wanted) return 1;
    return std::clamp<std::int64_t>(ceil_div(wanted, items), 1, std::max<std::int64_t>(1, most));
  }
  template <class Fn>
  void in_parts(std::int64_t parts, Fn work) {
    if (parts > 1) std::fill_n(scratch_.partial, p_.count, Extremes<T>{});
    work();
    for (std::int64_t range = 0; parts > 1 && range < p_.count; ++range)
      finish(range, 1, &scratch_.partial[range].up, &scratch_.partial[range].down);
  }

  // An item is several groups of a line.
  void short_groups() {
    const std::int64_t len = lines_.group, ranges = ceil_div(lines_.k, len), per_item = kChunk / len;
    const std::int64_t per_line = ceil_div(ranges, per_item);
    each_item(lines_.count * per_line, per_item * len, [&](Buffers<T>& buffers, std::int64_t item) {
      const std::int64_t line = item / per_line, first = item % per_line * per_item;
      const std::int64_t n = std::min(per_item * len, lines_.k - first * len), whole = n / len;
      const Elements e = elements(buffers, line, first * len, n);
      refuse_unless(extremes(e.x, e.dtype, whole, len, buffers.up, buffers.down));
      if (whole * len < n)
        refuse_unless(extremes(element(e.x, e.dtype, whole * len), e.dtype, 1, n - whole * len, buffers.up + whole,
                               buffers.down + whole));
      finish(line * ranges + first, ceil_div(n, len), buffers.up, buffers.down);
    });
  }

  // An item is a range, or a part of one; it is processed in chunks of a line.
  void long_ranges() {
    const std::int64_t longest = affine::longest_range(p_.problem.shape, p_.problem.granularity),
                       parts = parts_for(p_.count, longest / kElemsPerPiece);
    in_parts(parts, [&] {
      each_item(p_.count * parts, ceil_div(longest, parts), [&](Buffers<T>& buffers, std::int64_t item) {
        const std::int64_t index = item / parts, part = item % parts;
        const Family range = families_[index];
        const std::int64_t per_line = ceil_div(range.len, kChunk), chunks = range.lines * per_line;
        Extremes<T> all;
        for (std::int64_t i = chunks * part / parts; i < chunks * (part + 1) / parts; ++i) {
          const std::int64_t at = i % per_line * kChunk, n = std::min(kChunk, range.len - at);
          const Elements e = elements(buffers, range.line(i / per_line), range.column + at, n);
          Extremes<T> here;
          refuse_unless(extremes(e.x, e.dtype, 1, n, &here.up, &here.down));
          all.merge(here);
        }
        finish(index, 1, &all.up, &all.down, parts);
      });
    });
  }

  // An item is a chunk of columns, or a part of their lines; each column is a range.
  void columns() {
    const std::int64_t per_line = ceil_div(lines_.k, kChunk), items = families_.count() * per_line;
    const std::int64_t longest = affine::longest_range(p_.problem.shape, p_.problem.granularity);
    const std::int64_t parts = parts_for(items, longest * std::min(lines_.k, kChunk) / kElemsPerPiece);
    in_parts(parts, [&] {
      const std::int64_t elems = std::min(lines_.k, kChunk) * ceil_div(longest, parts);
      each_item(items * parts, elems, [&](Buffers<T>& buffers, std::int64_t item) {
        const Family family = families_[item / parts / per_line];
        const std::int64_t part = item % parts, lines = family.lines;
        const std::int64_t column = item / parts % per_line * kChunk, n = std::min(kChunk, lines_.k - column);
        std::fill_n(buffers.up, n, T{0});
        std::fill_n(buffers.down, n, T{0});
        for (std::int64_t j = lines * part / parts; j < lines * (part + 1) / parts; ++j) {
          const Elements e = elements(buffers, family.line(j), column, n);
          refuse_unless(each(e.x, e.dtype, n, buffers.up, buffers.down));
        }
        finish(family.range + column, n, buffers.up, buffers.down, parts);
      });
    });
  }

  // Copies a range to contiguous T. Returns false if an element is not finite and the problem rejects that.
  bool copy(std::int64_t index, T* to, std::int64_t& n) const {
    const bool column = lines_.run == Lines::Run::each;  // a range is one column of its family
    Family range = families_[column ? index / lines_.k : index];
    if (column) range.column = index % lines_.k;
    if (column) range.len = 1;
    const DType dtype = p_.problem.dtype;
    const std::int64_t stride = lines_.tensors[0].last;
    n = range.lines * range.len;
    bool finite = true;
    for (std::int64_t j = 0; j < range.lines; ++j) {
      const std::int64_t begin = lines_.offset_of(range.line(j)) + range.column * stride;
      for (std::int64_t i = 0; i < range.len; ++i) {
        const double v = read_element(p_.x.data, dtype, begin + i * stride);
        finite = finite && std::isfinite(v);
        *to++ = static_cast<T>(saturated(v, dtype));
      }
    }
    return finite || p_.problem.non_finite == NonFinite::saturate;
  }

  Chosen<T> by_percentile(T* x, std::int64_t n) const {
    const std::int64_t rank = rank_of(p_.problem.percentile, n);
    const auto order_statistic = [&](std::int64_t i) {
      std::nth_element(x, x + i, x + n);
      return x[i];
    };
    if (!p_.rule.zero_points) {
      for (std::int64_t i = 0; i < n; ++i) x[i] = std::fabs(x[i]);
      const T most = order_statistic(rank - 1);
      return choose(p_.rule, most, most);
    }
    const T up = std::max(order_statistic(rank - 1), T{0}), down = std::max(-order_statistic(n - rank), T{0});
    return choose(p_.rule, up, down);
  }

  // for_each_try(f) calls f(i) for each of the kShrinks ranges to try, on any thread.
  template <class ForEachTry>
  Chosen<T> by_error(const T* x, std::int64_t n, ForEachTry for_each_try) const {
    T up = 0, down = 0;
    static_cast<void>(extremes(x, std::is_same_v<T, float> ? DType::f32 : DType::f64, 1, n, &up, &down));
    const Chosen<T> all = choose(p_.rule, up, down);
    if (std::isinf(all.scale)) return all;
    double errors[kShrinks];
    for_each_try([&](int i) { errors[i] = squared_error(x, n, shrunk(p_.rule, up, down, i)); });
    return shrunk(p_.rule, up, down, static_cast<int>(std::min_element(errors, errors + kShrinks) - errors));
  }

  // Copies the range to x and chooses from the copy. `for_each_try` is that of by_error().
  template <class ForEachTry>
  void copied_range(std::int64_t range, T* x, ForEachTry for_each_try) {
    std::int64_t n = 0;
    if (!copy(range, x, n)) {
      refused_ = true;
    } else if (p_.problem.method == QparamsMethod::mse) {
      finish(range, by_error(x, n, for_each_try));
    } else {
      finish(range, by_percentile(x, n));
    }
  }
  void copied_ranges() {
    if (p_.problem.method == QparamsMethod::mse && p_.count < exec_.threads.count()) {  // all threads work on one range
      for (std::int64_t range = 0; range < p_.count && !refused_; ++range)
        copied_range(range, scratch_.copies, [&](auto f) {
          WorkQueue queue(kShrinks, 1);
          exec_.threads.run(exec_.threads.count(), [&](int) {
            for (std::int64_t i = 0, end = 0; queue.next(i, end);) f(static_cast<int>(i));
          });
        });
      return;
    }
    const std::int64_t longest = affine::longest_range(p_.problem.shape, p_.problem.granularity);
    WorkQueue queue(p_.count, longest < kChunk ? kChunk / std::max<std::int64_t>(1, longest) : 1);
    exec_.threads.run(static_cast<int>(scratch_.slots), [&](int slot) {
      for (std::int64_t range = 0, end = 0; queue.next(range, end);)
        for (; range < end && !refused_.load(std::memory_order_relaxed); ++range)
          copied_range(range, scratch_.copies + slot * longest, [](auto f) {
            for (int i = 0; i < kShrinks; ++i) f(i);
          });
    });
  }

  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  const SimdTable& table_;
  const Params& p_;
  const Exec& exec_;
  Scratch<T> scratch_;
  Lines lines_;
  affine::Families families_;
  std::mutex mutex_;
  std::atomic<bool> refused_{false};
  std::atomic<std::int64_t> large_{kNone};  // the first range whose scale its type cannot hold
};

}  // namespace

std::size_t cpu_workspace(const SimdTable&, const ChooseQparams::Problem& p, int threads) {
  const auto ranges = affine_scale_count(p.shape, p.granularity);
  if (!ranges.ok() || affine::is_empty(p.shape)) return 0;
  return p.dtype == DType::f64 ? Scratch<double>(nullptr, p, *ranges, threads).bytes
                               : Scratch<float>(nullptr, p, *ranges, threads).bytes;
}

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  if (params.problem.dtype == DType::f64) return Driver<double>(table, params, exec).run();
  return Driver<float>(table, params, exec).run();
}

}  // namespace tern::choose_qparams
