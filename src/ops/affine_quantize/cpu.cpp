// CPU driver: runs the SIMD loops over the lines of a tensor. Handles threads, strides, scale types, ranges whose codes
// share a byte, and non-finite elements.
#include <algorithm>
#include <atomic>

#include "base/elements.h"
#include "ops/affine/pieces.h"
#include "ops/affine_quantize/affine_quantize.h"

namespace tern::affine_quantize {
namespace {

using affine::kChunk;
using affine::Lines;

// Buffers of one thread, for what the loops cannot read or write in place.
struct Scratch {
  alignas(64) double x[kChunk];  // elements of any type
  alignas(64) double wide[kChunk];
  affine::QparamsScratch qparams;
  std::uint8_t codes[kChunk];
  alignas(64) std::uint8_t packed[kChunk];
};

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec)
      : table_(table),
        p_(params),
        exec_(exec),
        lines_(affine::make_lines(affine::words_of(params.problem), params.x.strides, params.code_row_bytes)),
        last_stride_(lines_.tensors[0].last),
        per_byte_(codes_per_byte(params.problem.format)),
        store_(store_of(params.problem.format)),
        wide_(affine::in_f64(params.problem.dtype, params.problem.math)),
        rule_{params.q.min, params.q.max, params.problem.math == AffineMath::reciprocal},
        stream_(lines_.count * lines_.k / per_byte_ >= affine::kStreamBytes) {}

  Status run() {
    const bool finite = affine::each_chunk<Scratch>(
        lines_, exec_.threads,
        [&](Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) {
          return chunk(scratch, line, at, n);
        },
        [&] {
          if (stream_) table_.stream_fence();
        });
    return finite ? Status() : affine::non_finite_error("affine_quantize", p_.x);
  }

 private:
  // Quantizes n <= kChunk elements of a line from column `at`, whose code begins a byte. Returns false if an element is
  // not finite and the problem rejects that.
  bool chunk(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) const {
    const DType dtype = p_.problem.dtype;
    const std::int64_t begin = lines_.offset_of(line) + at * last_stride_;
    const void* x = element(p_.x.data, dtype, begin);
    if (last_stride_ != 1) {
      affine::gather(x, dtype, last_stride_, n, scratch.x);
      x = scratch.x;
    }
    if (codes(scratch, line, at, n, x, dtype)) return true;
    if (p_.problem.non_finite == NonFinite::reject) return false;
    const DType clean = affine::saturate(x, dtype, n, scratch.x);
    return codes(scratch, line, at, n, scratch.x, clean);
  }

  // Writes the codes of contiguous elements. Returns whether all were finite.
  bool codes(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n, const void* x, DType dtype) const {
    std::uint8_t* to = p_.codes + line * lines_.code_bytes + at / per_byte_;
    if (!stream_) return codes_at(scratch, line, at, n, x, dtype, to);
    const bool finite = codes_at(scratch, line, at, n, x, dtype, scratch.packed);
    if (finite) table_.stream(scratch.packed, row_bytes(p_.problem.format, n), to);
    return finite;
  }
  bool codes_at(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n, const void* x, DType dtype,
                std::uint8_t* out) const {
    const std::int64_t first = lines_.scale_of(line);
    const bool each = lines_.run == Lines::Run::each;
    // Whether the codes of every range begin at a whole byte.
    const bool whole = lines_.run == Lines::Run::one || (!each && lines_.group % per_byte_ == 0);
    if (!wide_ && whole) return ranges(scratch, first, at, n, x, dtype, store_, out);
    std::uint8_t* bytes = per_byte_ == 1 ? out : scratch.codes;  // one code per byte, packed below
    bool finite = true;
    if (wide_) {
      finite = wide(scratch, first, at, n, x, dtype, bytes);
    } else if (each) {
      const auto q = scratch.qparams.narrow(p_.qparams, first + at, n);
      finite = table_.each[affine::float_type(dtype)][byte_store()](x, n, q.scales, q.zero_points, rule_, bytes);
    } else {
      finite = ranges(scratch, first, at, n, x, dtype, byte_store(), bytes);
    }
    if (per_byte_ != 1) pack_row(p_.problem.format, reinterpret_cast<const std::int8_t*>(bytes), n, out);
    return finite;
  }

  [[nodiscard]] int byte_store() const { return p_.problem.format == Format::u8 ? kU8 : kS8; }

  bool ranges(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const void* x, DType dtype,
              int store, std::uint8_t* out) const {
    const std::int64_t per_byte = store == store_ ? per_byte_ : 1;
    const std::int64_t begin = lines_.run == Lines::Run::groups ? at / lines_.group : 0;
    const auto all = scratch.qparams.narrow(p_.qparams, first + begin, affine::parts_of(lines_, at, n));
    bool finite = true;
    affine::each_part(lines_, at, n, [&](std::int64_t done, std::int64_t count, std::int64_t len, std::int64_t range) {
      const auto q = all.from(range - begin);
      const bool here = table_.ranges[affine::float_type(dtype)][store](element(x, dtype, done), count, len, q.scales,
                                                                        q.zero_points, rule_, out + done / per_byte);
      finite = finite && here;
    });
    return finite;
  }

  bool wide(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const void* x, DType dtype,
            std::uint8_t* bytes) const {
    for (std::int64_t i = 0; i < n; ++i) scratch.wide[i] = read_element(x, dtype, i);
    if (lines_.run == Lines::Run::each) {
      const auto q = scratch.qparams.wide(p_.qparams, first + at, n);
      return table_.wide(scratch.wide, n, q.scales, q.zero_points, 1, rule_, bytes);
    }
    bool finite = true;
    affine::each_part(lines_, at, n, [&](std::int64_t done, std::int64_t count, std::int64_t len, std::int64_t range) {
      for (; count > 0; --count, done += len, ++range) {
        const auto q = scratch.qparams.wide(p_.qparams, first + range, 1);
        const bool here = table_.wide(scratch.wide + done, len, q.scales, q.zero_points, 0, rule_, bytes + done);
        finite = finite && here;
      }
    });
    return finite;
  }

  const SimdTable& table_;
  const Params& p_;
  const Exec& exec_;
  Lines lines_;
  std::int64_t last_stride_, per_byte_;
  int store_;
  bool wide_;
  Rule rule_;
  bool stream_;
};

}  // namespace

std::size_t cpu_workspace(const SimdTable&, const AffineQuantize::Problem&, int) { return 0; }

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  return Driver(table, params, exec).run();
}

}  // namespace tern::affine_quantize
