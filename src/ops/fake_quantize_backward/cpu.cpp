// CPU driver: runs the SIMD loops over the lines of a tensor. Handles threads, strides, scale types, non-finite
// elements, and sums over ranges in the contract's order.
#include <algorithm>
#include <array>
#include <atomic>

#include "base/elements.h"
#include "memory/workspace.h"
#include "ops/affine/families.h"
#include "ops/affine/pieces.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"
#include "ops/fake_quantize_backward/range_sums.h"

namespace tern::fake_quantize_backward {
namespace {

using affine::kChunk;
using affine::Lines;

constexpr std::size_t kGradY = 0, kX = 1, kGradX = 2;  // indices of the tensors in Lines

// Buffers of one thread: for what the loops cannot read or write in place, and for masks and steps.
struct Scratch {
  alignas(64) double g[kChunk];  // elements of any type, as in the next two
  alignas(64) double x[kChunk];
  alignas(64) double out[kChunk];
  alignas(64) double steps[kChunk];  // f32, or f64 if x/s is computed in f64
  affine::QparamsScratch qparams;
  alignas(64) std::uint8_t mask[kChunk];
};

Lines lines_of(const Params& params) {
  affine::Words words = affine::words_of(params.problem);
  words.format = Format::u8;  // the mask is laid out like codes of one byte
  if (params.mask != nullptr) words.granularity = {};
  const Shape& x = params.mask != nullptr ? params.grad_y.strides : params.x.strides;
  return affine::make_lines(words, std::array{params.grad_y.strides, x, params.grad_x.strides}, params.mask_row_bytes);
}

// Long ranges are cut into segments. Each is a subtree of the pairwise sum; its sums are kept in the workspace.
std::int64_t segments_of(const FakeQuantizeBackward::Problem& p) {
  return p.qparam_gradients ? ceil_div(affine::longest_range(p.shape, p.granularity), kSegment) : 1;
}
Sums* book_partials(WorkspaceLedger& ledger, std::int64_t ranges, std::int64_t segments) {
  return ledger.book<Sums>(static_cast<std::size_t>(segments > 1 ? ranges * segments : 0));
}

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec)
      : table_(table),
        p_(params),
        exec_(exec),
        lines_(lines_of(params)),
        dtype_(params.problem.dtype),
        bytes_(static_cast<std::int64_t>(size_of(dtype_))),
        wide_(affine::in_f64(dtype_, params.problem.math)),
        rule_{.q_min = params.q.min,
              .q_max = params.q.max,
              .reciprocal = params.problem.math == AffineMath::reciprocal,
              .strict = params.problem.strict},
        stream_(lines_.count * lines_.k * bytes_ >= affine::kStreamBytes && lines_.tensors[kGradX].last == 1),
        segments_(segments_of(params.problem)) {
    WorkspaceLedger ledger(exec.workspace.data());
    partials_ = book_partials(ledger, params.qparams.count, segments_);
  }

  Status run() {
    if (p_.problem.qparam_gradients)
      sums();
    else
      affine::each_chunk<Scratch>(
          lines_, exec_.threads,
          [&](Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) {
            pass(scratch, line, at, n);
            return !refused();
          },
          [&] {
            if (stream_) table_.stream_fence();
          });
    if (refused()) return affine::non_finite_error("fake_quantize_backward", p_.x);
    return {};
  }

 private:
  [[nodiscard]] bool refused() const { return refused_.load(std::memory_order_relaxed); }

  // Writes grad_x of n <= kChunk elements of a line from column `at`. Leaves their mask and steps in `scratch`, unless
  // the mask is an input. Returns their grad_y, contiguous.
  const void* pass(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) {
    const std::uint8_t* mask = scratch.mask;
    if (p_.mask != nullptr)
      mask = p_.mask + line * lines_.code_bytes + at;
    else if (!steps(scratch, line, at, n))
      refused_ = true;
    const void* g = contiguous(p_.grad_y.data, kGradY, line, at, n, scratch.g);
    const std::int64_t step = lines_.tensors[kGradX].last;
    auto* y = static_cast<std::byte*>(p_.grad_x.data) + (lines_.offset_of(line, kGradX) + at * step) * bytes_;
    const bool staged = stream_ || step != 1;
    void* to = staged ? static_cast<void*>(scratch.out) : y;
    table_.pass[bytes_ == 2 ? 0 : bytes_ == 4 ? 1 : 2](mask, g, n, to);
    if (stream_)
      table_.stream(to, n * bytes_, y);
    else if (staged)
      affine::scatter(to, dtype_, step, n, y);
    return g;
  }
  const void* contiguous(const void* data, std::size_t tensor, std::int64_t line, std::int64_t at, std::int64_t n,
                         double* copy) const {
    const std::int64_t step = lines_.tensors[tensor].last;
    const void* x = element(data, dtype_, lines_.offset_of(line, tensor) + at * step);
    if (step == 1) return x;
    affine::gather(x, dtype_, step, n, copy);
    return copy;
  }

  // Computes mask and steps. Returns false if an element is not finite and the problem rejects that.
  bool steps(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) const {
    const void* x = contiguous(p_.x.data, kX, line, at, n, scratch.x);
    const std::int64_t first = lines_.scale_of(line);
    if (steps_of(scratch, first, at, n, x)) return true;
    if (p_.problem.non_finite == NonFinite::reject) return false;
    for (std::int64_t i = 0; i < n; ++i)
      write_element(scratch.x, dtype_, i, saturated(read_element(x, dtype_, i), dtype_));
    return steps_of(scratch, first, at, n, scratch.x);
  }
  bool steps_of(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const void* x) const {
    auto* narrow = reinterpret_cast<float*>(scratch.steps);
    const auto type = affine::float_type(dtype_);
    if (wide_)  // wide() works in place: it reads x[i] before it writes steps[i]
      for (std::int64_t i = 0; i < n; ++i) scratch.steps[i] = read_element(x, dtype_, i);
    if (lines_.run == Lines::Run::each) {
      if (wide_) {
        const auto q = scratch.qparams.wide(p_.qparams, first + at, n);
        return table_.wide(scratch.steps, n, q.scales, q.zero_points, 1, rule_, scratch.steps, scratch.mask);
      }
      const auto q = scratch.qparams.narrow(p_.qparams, first + at, n);
      return table_.each[type](x, n, q.scales, q.zero_points, rule_, narrow, scratch.mask);
    }
    bool finite = true;
    affine::each_part(lines_, at, n, [&](std::int64_t done, std::int64_t count, std::int64_t len, std::int64_t range) {
      for (; count > 0; --count, done += len, ++range) {
        const auto q = scratch.qparams.wide(p_.qparams, first + range, 1);
        const bool here = wide_ ? table_.wide(scratch.steps + done, len, q.scales, q.zero_points, 0, rule_,
                                              scratch.steps + done, scratch.mask + done)
                                : table_.one[type](element(x, dtype_, done), len, static_cast<float>(*q.scales),
                                                   q.zero_points == nullptr ? 0 : *q.zero_points, rule_, narrow + done,
                                                   scratch.mask + done);
        finite = finite && here;
      }
    });
    return finite;
  }

  // Writes the terms that n elements add to the two sums.
  void terms(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n, const Terms& to) {
    const void* g = pass(scratch, line, at, n);
    widen(g, dtype_, n, to.outside);
    if (wide_)
      multiply(to.outside, scratch.steps, n, to.steps);
    else
      multiply(to.outside, reinterpret_cast<const float*>(scratch.steps), n, to.steps);
    for (std::int64_t i = 0; i < n; ++i) to.outside[i] = scratch.mask[i] != 0 ? 0.0 : to.outside[i];
  }

  // A unit of work is one segment of a family; with Run::each, one segment of a tile of its columns.
  void sums() {
    const affine::Families families(lines_);
    const bool columns = lines_.run == Lines::Run::each;
    const std::int64_t tiles = columns ? ceil_div(lines_.k, kTile) : 1;
    const std::int64_t units = families.count() * tiles * segments_;
    const std::int64_t elems = lines_.count * lines_.k;
    WorkQueue queue(units, std::max<std::int64_t>(1, affine::kElemsPerPiece * units / elems));
    const std::int64_t wanted = elems / affine::kMinElemsPerSlot;
    const auto slots = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, exec_.threads.count()));
    exec_.threads.run(slots, [&](int) {
      Scratch scratch;
      RangeSums range_sums;
      for (std::int64_t unit = 0, end = 0; queue.next(unit, end);)
        for (; unit < end && !refused(); ++unit) {
          const affine::Family family = families[unit / segments_ / tiles];
          const std::int64_t segment = unit % segments_;
          if (columns)
            column_sums(scratch, range_sums, family, unit / segments_ % tiles * kTile, segment);
          else
            piece_sums(scratch, range_sums, family, segment);
        }
      if (stream_) table_.stream_fence();
    });
    if (segments_ == 1 || refused()) return;
    // A short range has fewer segments than `segments_`; the others were never written and must not be read.
    for (std::int64_t f = 0; f < families.count(); ++f) {
      const affine::Family family = families[f];
      const std::int64_t elements = columns ? family.lines : family.lines * family.len;
      for (std::int64_t i = 0; i < (columns ? family.len : 1); ++i)
        finish(family.range + i, ceil_div(elements, kSegment));
    }
  }
  void finish(std::int64_t range, std::int64_t segments) const {
    simd::PairwiseFold step_sum, outside_sum;
    for (std::int64_t i = 0; i < segments; ++i) {
      step_sum.add(partials_[range * segments_ + i].steps);
      outside_sum.add(partials_[range * segments_ + i].outside);
    }
    write_gradients(p_, range, step_sum.total(), outside_sum.total());
  }
  void keep(std::int64_t range, std::int64_t segment, const Sums& sums) const {
    if (segments_ == 1)
      write_gradients(p_, range, sums.steps, sums.outside);
    else
      partials_[range * segments_ + segment] = sums;
  }

  void piece_sums(Scratch& scratch, RangeSums& range_sums, const affine::Family& family, std::int64_t segment) {
    const std::int64_t end = std::min((segment + 1) * kSegment, family.lines * family.len);
    if (segment * kSegment >= end) return;
    for (std::int64_t block = segment * kSegment; block < end; block += kBlock) {
      const std::int64_t block_end = std::min(block + kBlock, end);
      for (std::int64_t at = block; at < block_end;) {
        const std::int64_t column = at % family.len, n = std::min(family.len - column, block_end - at);
        terms(scratch, family.line(at / family.len), family.column + column, n, range_sums.terms(at - block));
        at += n;
      }
      range_sums.add_block(block_end - block);
    }
    keep(family.range, segment, range_sums.take());
  }

  void column_sums(Scratch& scratch, RangeSums& range_sums, const affine::Family& family, std::int64_t column,
                   std::int64_t segment) {
    const std::int64_t n = std::min(kTile, family.len - column);
    const std::int64_t end = std::min((segment + 1) * kSegment, family.lines);
    if (segment * kSegment >= end) return;
    for (std::int64_t i = segment * kSegment; i < end; ++i) {
      terms(scratch, family.line(i), column, n, range_sums.row(i));
      range_sums.add_row(i, i + 1 == end, n);
    }
    for (std::int64_t i = 0; i < n; ++i) keep(family.range + column + i, segment, range_sums.take_column(i));
  }

  const SimdTable& table_;
  const Params& p_;
  const Exec& exec_;
  Lines lines_;
  DType dtype_;
  std::int64_t bytes_;
  bool wide_;
  Rule rule_;
  bool stream_;
  std::int64_t segments_;
  Sums* partials_ = nullptr;
  std::atomic<bool> refused_{false};
};

}  // namespace

std::size_t cpu_workspace(const SimdTable&, const FakeQuantizeBackward::Problem& p, int) {
  if (affine::is_empty(p.shape)) return 0;
  const auto ranges = affine_scale_count(p.shape, p.granularity);
  WorkspaceLedger ledger(nullptr);
  book_partials(ledger, ranges.ok() ? *ranges : 0, segments_of(p));
  return ledger.bytes();
}

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  return Driver(table, params, exec).run();
}

}  // namespace tern::fake_quantize_backward
