// CPU driver: runs the SIMD loops over the lines of a tensor. Handles threads, strides, scale types and non-finite
// elements.
#include <algorithm>
#include <array>
#include <atomic>

#include "base/elements.h"
#include "ops/affine/pieces.h"
#include "ops/fake_quantize/fake_quantize.h"

namespace tern::fake_quantize {
namespace {

using affine::Lines;

// Elements per call of the loops. Fewer than in the other ops, so that reads and streaming stores alternate more often:
// 79 % of the copy limit, against 74 % with 2,048 elements (EPYC with AVX-512, 2 threads).
constexpr std::int64_t kChunk = 512;
static_assert(kChunk <= affine::kChunk);

// Buffers of one thread, for what the loops cannot read or write in place.
struct Scratch {
  alignas(64) double x[kChunk];  // elements of any type, as in y
  alignas(64) double y[kChunk];
  alignas(64) double wide[kChunk];
  affine::QparamsScratch qparams;
  alignas(64) std::uint8_t mask[kChunk];
};

Lines lines_of(const Params& params) {
  affine::Words words = affine::words_of(params.problem);
  words.format = Format::u8;  // the mask is laid out like codes of one byte
  return affine::make_lines(words, std::array{params.x.strides, params.y.strides}, params.mask_row_bytes);
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
              .strict = params.problem.strict,
              .narrow_product = dtype_ != DType::f64},
        stream_(lines_.count * lines_.k * bytes_ >= affine::kStreamBytes && lines_.tensors[1].last == 1) {}

  Status run() {
    const bool finite = affine::each_chunk<Scratch, kChunk>(
        lines_, exec_.threads,
        [&](Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) {
          return chunk(scratch, line, at, n);
        },
        [&] {
          if (stream_) table_.stream_fence();
        });
    return finite ? Status() : affine::non_finite_error("fake_quantize", p_.x);
  }

 private:
  // Processes n <= kChunk elements of a line from column `at`. Returns false if an element is not finite and the
  // problem rejects that.
  bool chunk(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) const {
    const std::int64_t x_step = lines_.tensors[0].last, y_step = lines_.tensors[1].last;
    const void* x = element(p_.x.data, dtype_, lines_.offset_of(line, 0) + at * x_step);
    auto* y = static_cast<std::byte*>(p_.y.data) + (lines_.offset_of(line, 1) + at * y_step) * bytes_;
    std::uint8_t* mask = p_.mask == nullptr ? nullptr : p_.mask + line * lines_.code_bytes + at;
    if (x_step != 1) {
      affine::gather(x, dtype_, x_step, n, scratch.x);
      x = scratch.x;
    }
    const bool staged = stream_ || y_step != 1;
    void* to = staged ? static_cast<void*>(scratch.y) : y;
    std::uint8_t* mask_to = stream_ && mask != nullptr ? scratch.mask : mask;
    const std::int64_t first = lines_.scale_of(line);
    if (!values(scratch, first, at, n, x, to, mask_to)) {
      if (p_.problem.non_finite == NonFinite::reject) return false;
      for (std::int64_t i = 0; i < n; ++i)
        write_element(scratch.x, dtype_, i, saturated(read_element(x, dtype_, i), dtype_));
      if (!values(scratch, first, at, n, scratch.x, to, mask_to)) return false;
    }
    if (stream_) {
      table_.stream(to, n * bytes_, y);
      if (mask != nullptr) table_.stream(mask_to, n, mask);
    } else if (staged) {
      affine::scatter(to, dtype_, y_step, n, y);
    }
    return true;
  }

  // Writes y and mask of contiguous elements. Returns whether all were finite.
  bool values(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const void* x, void* y,
              std::uint8_t* mask) const {
    if (wide_) return wide(scratch, first, at, n, x, y, mask);
    const auto type = affine::float_type(dtype_);
    if (lines_.run == Lines::Run::each) {
      const auto q = scratch.qparams.narrow(p_.qparams, first + at, n);
      return table_.each[type](x, n, q.scales, q.zero_points, rule_, y, mask);
    }
    const std::int64_t begin = lines_.run == Lines::Run::groups ? at / lines_.group : 0;
    const auto all = scratch.qparams.narrow(p_.qparams, first + begin, affine::parts_of(lines_, at, n));
    bool finite = true;
    affine::each_part(lines_, at, n, [&](std::int64_t done, std::int64_t count, std::int64_t len, std::int64_t range) {
      const auto q = all.from(range - begin);
      const bool here =
          table_.ranges[type](element(x, dtype_, done), count, len, q.scales, q.zero_points, rule_,
                              static_cast<std::byte*>(y) + done * bytes_, mask == nullptr ? nullptr : mask + done);
      finite = finite && here;
    });
    return finite;
  }

  bool wide(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const void* x, void* y,
            std::uint8_t* mask) const {
    for (std::int64_t i = 0; i < n; ++i) scratch.wide[i] = read_element(x, dtype_, i);
    bool finite = true;
    if (lines_.run == Lines::Run::each) {
      const auto q = scratch.qparams.wide(p_.qparams, first + at, n);
      finite = table_.wide(scratch.wide, n, q.scales, q.zero_points, 1, rule_, scratch.wide, mask);
    } else {
      affine::each_part(lines_, at, n,
                        [&](std::int64_t done, std::int64_t count, std::int64_t len, std::int64_t range) {
                          for (; count > 0; --count, done += len, ++range) {
                            const auto q = scratch.qparams.wide(p_.qparams, first + range, 1);
                            const bool here = table_.wide(scratch.wide + done, len, q.scales, q.zero_points, 0, rule_,
                                                          scratch.wide + done, mask == nullptr ? nullptr : mask + done);
                            finite = finite && here;
                          }
                        });
    }
    for (std::int64_t i = 0; i < n; ++i) write_element(y, dtype_, i, scratch.wide[i]);
    return finite;
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
};

}  // namespace

std::size_t cpu_workspace(const SimdTable&, const FakeQuantize::Problem&, int) { return 0; }

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  return Driver(table, params, exec).run();
}

}  // namespace tern::fake_quantize
