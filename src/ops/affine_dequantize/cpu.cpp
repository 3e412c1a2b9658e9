// Drives the loops of an instruction set over the lines of a tensor: threads, strides, types of scales, packed codes.
#include <algorithm>
#include <cstring>

#include "ops/affine/pieces.h"
#include "ops/affine_dequantize/affine_dequantize.h"
#include "ops/elements.h"

namespace tern::affine_dequantize {
namespace {

using affine::kChunk;
using affine::Lines;

// Buffers of one thread, for what the loops cannot read or write in place.
struct Scratch {
  alignas(64) double y[kChunk];  // of any type
  affine::QparamsScratch qparams;
  std::uint8_t codes[kChunk];
};

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec)
      : table_(table),
        p_(params),
        exec_(exec),
        lines_(affine::make_lines(words_of(params.problem), params.y.strides, params.code_row_bytes)),
        dtype_(params.problem.dtype),
        per_byte_(codes_per_byte(params.problem.format)),
        load_(is_unsigned(params.problem.format) ? kU8 : kS8),
        target_(dtype_ == DType::f16    ? kF16
                : dtype_ == DType::bf16 ? kBf16
                                        : kF32),
        stream_(lines_.count * lines_.k * static_cast<std::int64_t>(size_of(dtype_)) >= affine::kStreamBytes) {}

  Status run() {
    affine::each_piece(lines_, exec_.threads, [&](auto& pieces) {
      Scratch scratch;
      for (affine::Piece piece; pieces.next(piece);)
        for (std::int64_t at = piece.begin; at < piece.end; at += kChunk)
          chunk(scratch, piece.line, at, std::min(kChunk, piece.end - at));
      if (stream_) table_.stream_fence();
    });
    return {};
  }

 private:
  // n <= kChunk elements of a line from `at`, which begins a byte.
  void chunk(Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) const {
    const std::uint8_t* codes = p_.codes + line * lines_.code_bytes + at / per_byte_;
    if (per_byte_ > 1) {
      const std::int64_t whole = n / per_byte_ * per_byte_;
      const bool is_signed = load_ == kS8;
      table_.unpack(codes, whole, static_cast<int>(8 / per_byte_), is_signed, scratch.codes);
      for (std::int64_t i = whole; i < n; ++i)
        scratch.codes[i] = static_cast<std::uint8_t>(read_code(p_.problem.format, codes, i));
      codes = scratch.codes;
    }
    void* y = static_cast<std::byte*>(p_.y.data) +
              (lines_.offset_of(line) + at * lines_.last_stride) * static_cast<std::int64_t>(size_of(dtype_));
    const std::int64_t first = lines_.scale_of(line);
    const bool dense = lines_.last_stride == 1;
    if (dtype_ == DType::f64)
      wide(scratch, first, at, n, codes);
    else if (dense && !stream_)
      return narrow(scratch, first, at, n, codes, y);
    else
      narrow(scratch, first, at, n, codes, scratch.y);
    if (!dense) return affine::scatter(scratch.y, dtype_, lines_.last_stride, n, y);
    const std::int64_t bytes = n * static_cast<std::int64_t>(size_of(dtype_));
    if (stream_)
      table_.stream(scratch.y, bytes, y);
    else
      std::memcpy(y, scratch.y, static_cast<std::size_t>(bytes));
  }

  void narrow(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const std::uint8_t* codes,
              void* y) const {
    if (lines_.run == Lines::Run::each) {
      const auto q = scratch.qparams.narrow(p_.qparams, first + at, n);
      return table_.each[target_][load_](codes, n, q.scales, q.zero_points, y);
    }
    // The end of a range that began before, whole ranges, the begin of one that ends behind.
    const std::int64_t len = lines_.run == Lines::Run::groups ? lines_.group : lines_.k, range = at / len;
    const auto q = scratch.qparams.narrow(p_.qparams, first + range, (at + n - 1) / len - range + 1);
    for (std::int64_t done = 0, r = 0; done < n;) {
      const std::int64_t left = len - (at + done) % len;
      const std::int64_t count = left == len ? std::max<std::int64_t>(1, (n - done) / len) : 1;
      const std::int64_t each = std::min(left, n - done);
      table_.ranges[target_][load_](codes + done, count, each, q.scales + r,
                                    q.zero_points == nullptr ? nullptr : q.zero_points + r,
                                    static_cast<std::byte*>(y) + done * static_cast<std::int64_t>(size_of(dtype_)));
      done += count * each;
      r += count;
    }
  }

  void wide(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const std::uint8_t* codes) const {
    if (lines_.run == Lines::Run::each) {
      const auto q = scratch.qparams.wide(p_.qparams, first + at, n);
      return table_.wide[load_](codes, n, q.scales, q.zero_points, 1, scratch.y);
    }
    const std::int64_t len = lines_.run == Lines::Run::groups ? lines_.group : lines_.k;
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t part = std::min(len - (at + done) % len, n - done);
      const auto q = scratch.qparams.wide(p_.qparams, first + (at + done) / len, 1);
      table_.wide[load_](codes + done, part, q.scales, q.zero_points, 0, scratch.y + done);
      done += part;
    }
  }

  const SimdTable& table_;
  const Params& p_;
  const Exec& exec_;
  Lines lines_;
  DType dtype_;
  std::int64_t per_byte_;
  int load_, target_;
  bool stream_;
};

}  // namespace

std::size_t cpu_workspace(const SimdTable&, const AffineDequantize::Problem&, int) { return 0; }

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  return Driver(table, params, exec).run();
}

}  // namespace tern::affine_dequantize
