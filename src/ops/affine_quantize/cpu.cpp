// Drives the loops of an instruction set over the lines of a tensor: threads, strides, types of scales, codes of ranges
// that share a byte, and elements that are not finite.
#include <algorithm>
#include <atomic>

#include "ops/affine/pieces.h"
#include "ops/affine_quantize/affine_quantize.h"
#include "ops/elements.h"

namespace tern::affine_quantize {
namespace {

using affine::kChunk;
using affine::Lines;

int store_of(Format format) {
  switch (codes_per_byte(format)) {
    case 1: return format == Format::u8 ? kU8 : kS8;
    case 2: return kNibbles;
    default: return kQuads;
  }
}

// Buffers of one thread, for what the loops cannot read or write in place.
struct Scratch {
  alignas(64) double x[kChunk];  // of any type
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
        lines_(affine::make_lines(words_of(params.problem), params.x.strides, params.code_row_bytes)),
        per_byte_(codes_per_byte(params.problem.format)),
        store_(store_of(params.problem.format)),
        wide_(params.problem.dtype == DType::f64 || params.problem.math == AffineMath::torch_cuda),
        rule_{params.q.min, params.q.max, params.problem.math == AffineMath::reciprocal},
        stream_(lines_.count * lines_.k / per_byte_ >= affine::kStreamBytes) {}

  Status run() {
    std::atomic<bool> refused{false};
    affine::each_piece(lines_, exec_.threads, [&](auto& pieces) {
      Scratch scratch;
      for (affine::Piece piece; !refused.load(std::memory_order_relaxed) && pieces.next(piece);)
        for (std::int64_t at = piece.begin; at < piece.end; at += kChunk)
          if (!chunk(scratch, piece.line, at, std::min(kChunk, piece.end - at))) refused = true;
      if (stream_) table_.stream_fence();
    });
    if (refused) return affine::non_finite_error("affine_quantize", p_.x);
    return {};
  }

 private:
  // n <= kChunk elements of a line from `at`, which begins a byte. False: one of them is not finite, and refused.
  bool chunk(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) const {
    const DType dtype = p_.problem.dtype;
    const std::int64_t begin = lines_.offset_of(line) + at * lines_.last_stride;
    const void* x = element(p_.x.data, dtype, begin);
    if (lines_.last_stride != 1) {
      affine::gather(x, dtype, lines_.last_stride, n, scratch.x);
      x = scratch.x;
    }
    if (codes(scratch, line, at, n, x, dtype)) return true;
    if (p_.problem.non_finite == NonFinite::reject) return false;
    const DType clean = dtype == DType::f64 ? DType::f64 : DType::f32;  // scratch.x may be x: widen from the last on
    for (std::int64_t i = n - 1; i >= 0; --i)
      write_element(scratch.x, clean, i, saturated(read_element(x, dtype, i), dtype));
    return codes(scratch, line, at, n, scratch.x, clean);
  }

  // Codes of contiguous elements; whether all were finite.
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
    if (!wide_ && lines_.run == Lines::Run::one) {
      const auto q = scratch.qparams.narrow(p_.qparams, first, 1);
      return table_.ranges[source_of(dtype)][store_](x, 1, n, q.scales, q.zero_points, rule_, out);
    }
    if (!wide_ && lines_.run == Lines::Run::groups && lines_.group % per_byte_ == 0)
      return groups(scratch, first, at, n, x, dtype, store_, out);
    std::uint8_t* bytes = per_byte_ == 1 ? out : scratch.codes;
    const bool finite =
        wide_ ? wide(scratch, first, at, n, x, dtype, bytes) : narrow(scratch, first, at, n, x, dtype, bytes);
    if (per_byte_ != 1) pack_row(p_.problem.format, reinterpret_cast<const std::int8_t*>(bytes), n, out);
    return finite;
  }

  static Source source_of(DType dtype) { return dtype == DType::f16 ? kF16 : dtype == DType::bf16 ? kBf16 : kF32; }
  // One code a byte, to be packed later.
  [[nodiscard]] int byte_store() const { return p_.problem.format == Format::u8 ? kU8 : kS8; }

  bool narrow(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const void* x, DType dtype,
              std::uint8_t* bytes) const {
    if (lines_.run == Lines::Run::groups) return groups(scratch, first, at, n, x, dtype, byte_store(), bytes);
    const auto q = scratch.qparams.narrow(p_.qparams, first + at, n);
    return table_.each[source_of(dtype)][byte_store()](x, n, q.scales, q.zero_points, rule_, bytes);
  }

  // The end of a group that began before, whole groups, the begin of one that ends behind.
  bool groups(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const void* x, DType dtype,
              int store, std::uint8_t* out) const {
    const std::int64_t len = lines_.group, per_byte = store == store_ ? per_byte_ : 1;
    const std::int64_t group = at / len;
    const auto q = scratch.qparams.narrow(p_.qparams, first + group, (at + n - 1) / len - group + 1);
    bool finite = true;
    for (std::int64_t done = 0, g = 0; done < n;) {
      const std::int64_t left = len - (at + done) % len;
      const std::int64_t count = left == len ? std::max<std::int64_t>(1, (n - done) / len) : 1;
      const std::int64_t each = std::min(left, n - done);
      const bool here = table_.ranges[source_of(dtype)][store](element(x, dtype, done), count, each, q.scales + g,
                                                               q.zero_points == nullptr ? nullptr : q.zero_points + g,
                                                               rule_, out + done / per_byte);
      finite = finite && here;
      done += count * each;
      g += count;
    }
    return finite;
  }

  bool wide(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const void* x, DType dtype,
            std::uint8_t* bytes) const {
    for (std::int64_t i = 0; i < n; ++i) scratch.wide[i] = read_element(x, dtype, i);
    const std::int64_t len = lines_.run == Lines::Run::groups ? lines_.group : n;
    const bool each = lines_.run == Lines::Run::each;
    bool finite = true;
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t left = lines_.run == Lines::Run::groups ? len - (at + done) % len : n;
      const std::int64_t part = std::min(left, n - done);
      const std::int64_t range = each                               ? first + at
                                 : lines_.run == Lines::Run::groups ? first + (at + done) / len
                                                                    : first;
      const auto q = scratch.qparams.wide(p_.qparams, range, each ? n : 1);
      const bool here =
          table_.wide(scratch.wide + done, part, q.scales, q.zero_points, each ? 1 : 0, rule_, bytes + done);
      finite = finite && here;
      done += part;
    }
    return finite;
  }

  const SimdTable& table_;
  const Params& p_;
  const Exec& exec_;
  Lines lines_;
  std::int64_t per_byte_;
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
