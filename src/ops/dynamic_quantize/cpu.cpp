// CPU driver. If every range is a contiguous piece of a line, it chooses scales and quantizes while the range is in the
// cache. Otherwise the drivers of the two ops run one after the other and read x twice.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/elements.h"
#include "base/errors.h"
#include "ops/affine/pieces.h"
#include "ops/dynamic_quantize/dynamic_quantize.h"

namespace tern::dynamic_quantize {
namespace {

using affine::kChunk;
using affine::Lines;

constexpr std::int64_t kLongest = 16 * kChunk;  // elements of a range that still fit in a second-level cache

// Buffers of one thread.
struct Buffers {
  alignas(64) float x[kChunk];
  alignas(64) float up[kChunk];
  alignas(64) float down[kChunk];
  alignas(64) float scales[kChunk];
  std::int32_t zero_points[kChunk];
  alignas(64) std::uint8_t codes[kChunk];
};

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec)
      : table_(table),
        choose_(params.choose),
        p_(params.quantize),
        exec_(exec),
        lines_(affine::make_lines(affine::words_of(p_.problem), p_.x.strides, p_.code_row_bytes)),
        len_(lines_.run == Lines::Run::groups ? lines_.group : lines_.k),
        per_line_(ceil_div(lines_.k, len_)),
        per_byte_(codes_per_byte(p_.problem.format)),
        store_(affine_quantize::store_of(p_.problem.format)),
        rule_{p_.q.min, p_.q.max, p_.problem.math == AffineMath::reciprocal},
        stream_(lines_.count * lines_.k / per_byte_ >= affine::kStreamBytes) {}

  // Whether one pass is possible: every range is contiguous, is not too long, shares no code byte with another range,
  // and is computed in f32.
  [[nodiscard]] bool one_pass() const {
    const bool own =
        lines_.run == Lines::Run::groups || (lines_.run == Lines::Run::one && lines_.count == choose_.count);
    return own && lines_.tensors[0].last == 1 && len_ <= kLongest && (len_ % per_byte_ == 0 || per_line_ == 1) &&
           !affine::in_f64(p_.problem.dtype, p_.problem.math);
  }

  // Returns false if an element was not finite or a scale was too large. The drivers of the two ops then find the
  // error.
  bool run() {
    const std::int64_t per_step = std::max<std::int64_t>(1, kChunk / len_), steps = ceil_div(per_line_, per_step);
    const std::int64_t wanted = lines_.count * lines_.k / affine::kMinElemsPerSlot;
    WorkQueue queue(lines_.count * steps, std::max<std::int64_t>(1, affine::kElemsPerPiece / (per_step * len_)));
    std::atomic<bool> failed{false};
    exec_.threads.run(static_cast<int>(std::clamp<std::int64_t>(wanted, 1, exec_.threads.count())), [&](int) {
      Buffers buffers;
      for (std::int64_t step = 0, end = 0; queue.next(step, end);)
        for (; step < end && !failed.load(std::memory_order_relaxed); ++step) {
          const std::int64_t first = step % steps * per_step, ranges = std::min(per_step, per_line_ - first);
          // The last range of a line may be short.
          const std::int64_t whole = (first + ranges) * len_ > lines_.k ? ranges - 1 : ranges;
          const bool done =
              (whole == 0 || quantize(buffers, step / steps, first, whole, len_)) &&
              (whole == ranges || quantize(buffers, step / steps, first + whole, 1, lines_.k - (first + whole) * len_));
          if (!done) failed = true;
        }
      if (stream_) table_.quantize->stream_fence();
    });
    return !failed;
  }

 private:
  // Chooses and quantizes `count` ranges of a line. If count > 1, all of them together fit in one chunk.
  bool quantize(Buffers& buffers, std::int64_t line, std::int64_t first, std::int64_t count, std::int64_t len) const {
    const std::int64_t column = first * len_, n = count * len, range = line * per_line_ + first;
    const std::byte* x = element(p_.x.data, p_.problem.dtype, lines_.offset_of(line) + column);
    float up = 0, down = 0;
    for (std::int64_t at = 0; at < n; at += kChunk) {
      const std::int64_t part = std::min(kChunk, n - at);
      const auto [from, type] = elements(buffers, x, at, part);
      if (!table_.choose->extremes[type](from, count, count == 1 ? part : len, buffers.up, buffers.down)) return false;
      up = std::max(up, buffers.up[0]);
      down = std::max(down, buffers.down[0]);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const auto chosen = count == 1 ? choose_qparams::choose(choose_.rule, up, down)
                                     : choose_qparams::choose(choose_.rule, buffers.up[i], buffers.down[i]);
      if (std::isinf(chosen.scale)) return false;
      store(choose_, range + i, chosen);
      buffers.scales[i] = chosen.scale;
      buffers.zero_points[i] = chosen.zero_point;
    }
    std::uint8_t* codes = p_.codes + line * lines_.code_bytes + column / per_byte_;
    for (std::int64_t at = 0; at < n; at += kChunk) {
      const std::int64_t part = std::min(kChunk, n - at);
      const auto [from, type] = elements(buffers, x, at, part);
      std::uint8_t* to = codes + at / per_byte_;
      table_.quantize->ranges[type][store_](from, count, count == 1 ? part : len, buffers.scales, buffers.zero_points,
                                            rule_, stream_ ? buffers.codes : to);
      if (stream_) table_.quantize->stream(buffers.codes, row_bytes(p_.problem.format, part), to);
    }
    return true;
  }

  // Returns n <= kChunk elements from `at` on and the type to read them as, saturated if the problem asks for it.
  struct Elements {
    const void* x;
    affine::FloatType type;
  };
  Elements elements(Buffers& buffers, const std::byte* x, std::int64_t at, std::int64_t n) const {
    const DType dtype = p_.problem.dtype;
    const Elements e{element(x, dtype, at), affine::float_type(dtype)};
    float up = 0, down = 0;
    if (p_.problem.non_finite == NonFinite::reject || table_.choose->extremes[e.type](e.x, 1, n, &up, &down)) return e;
    return {buffers.x, affine::float_type(affine::saturate(e.x, dtype, n, buffers.x))};
  }

  const SimdTable& table_;
  const choose_qparams::Params& choose_;
  const affine_quantize::Params& p_;
  const Exec& exec_;
  Lines lines_;
  std::int64_t len_, per_line_, per_byte_;
  int store_;
  affine_quantize::Rule rule_;
  bool stream_;
};

}  // namespace

std::size_t cpu_workspace(const SimdTable& table, const DynamicQuantize::Problem& problem, int threads) {
  return choose_qparams::cpu_workspace(*table.choose, choosing(problem), threads) +
         affine_quantize::cpu_workspace(*table.quantize, affine::problem_of<AffineQuantize>(problem), threads);
}

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  if (Driver driver(table, params, exec); driver.one_pass() && driver.run()) return {};
  TERN_RETURN_IF_ERROR(choose_qparams::cpu_run(*table.choose, params.choose, exec));
  return affine_quantize::cpu_run(*table.quantize, params.quantize, exec);
}

}  // namespace tern::dynamic_quantize
