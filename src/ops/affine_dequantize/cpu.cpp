// CPU driver: runs the SIMD loops over the lines of a tensor. Handles threads, strides, scale types and packed codes.
#include <algorithm>
#include <cstring>

#include "base/elements.h"
#include "ops/affine/pieces.h"
#include "ops/affine_dequantize/affine_dequantize.h"

namespace tern::affine_dequantize {
namespace {

using affine::kChunk;
using affine::Lines;

// Buffers of one thread, for what the loops cannot read or write in place.
struct Scratch {
  alignas(64) double y[kChunk];  // elements of any type
  affine::QparamsScratch qparams;
  std::uint8_t codes[kChunk];
};

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec)
      : table_(table),
        p_(params),
        exec_(exec),
        lines_(affine::make_lines(affine::words_of(params.problem), params.y.strides, params.code_row_bytes)),
        last_stride_(lines_.tensors[0].last),
        dtype_(params.problem.dtype),
        per_byte_(codes_per_byte(params.problem.format)),
        load_(is_unsigned(params.problem.format) ? kU8 : kS8),
        target_(affine::float_type(dtype_)),
        stream_(lines_.count * lines_.k * static_cast<std::int64_t>(size_of(dtype_)) >= affine::kStreamBytes) {}

  Status run() {
    affine::each_chunk<Scratch>(
        lines_, exec_.threads,
        [&](Scratch& scratch, std::int64_t line, std::int64_t at, std::int64_t n) {
          chunk(scratch, line, at, n);
          return true;
        },
        [&] {
          if (stream_) table_.stream_fence();
        });
    return {};
  }

 private:
  // Dequantizes n <= kChunk elements of a line from column `at`, whose code begins a byte.
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
              (lines_.offset_of(line) + at * last_stride_) * static_cast<std::int64_t>(size_of(dtype_));
    const std::int64_t first = lines_.scale_of(line);
    const bool dense = last_stride_ == 1;
    if (dtype_ == DType::f64)
      wide(scratch, first, at, n, codes);
    else if (dense && !stream_)
      return narrow(scratch, first, at, n, codes, y);
    else
      narrow(scratch, first, at, n, codes, scratch.y);
    if (!dense) return affine::scatter(scratch.y, dtype_, last_stride_, n, y);
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
    const std::int64_t begin = lines_.run == Lines::Run::groups ? at / lines_.group : 0;
    const auto all = scratch.qparams.narrow(p_.qparams, first + begin, affine::parts_of(lines_, at, n));
    affine::each_part(lines_, at, n, [&](std::int64_t done, std::int64_t count, std::int64_t len, std::int64_t range) {
      const auto q = all.from(range - begin);
      table_.ranges[target_][load_](codes + done, count, len, q.scales, q.zero_points,
                                    static_cast<std::byte*>(y) + done * static_cast<std::int64_t>(size_of(dtype_)));
    });
  }

  void wide(Scratch& scratch, std::int64_t first, std::int64_t at, std::int64_t n, const std::uint8_t* codes) const {
    if (lines_.run == Lines::Run::each) {
      const auto q = scratch.qparams.wide(p_.qparams, first + at, n);
      return table_.wide[load_](codes, n, q.scales, q.zero_points, 1, scratch.y);
    }
    affine::each_part(lines_, at, n, [&](std::int64_t done, std::int64_t count, std::int64_t len, std::int64_t range) {
      for (; count > 0; --count, done += len, ++range) {
        const auto q = scratch.qparams.wide(p_.qparams, first + range, 1);
        table_.wide[load_](codes + done, len, q.scales, q.zero_points, 0, scratch.y + done);
      }
    });
  }

  const SimdTable& table_;
  const Params& p_;
  const Exec& exec_;
  Lines lines_;
  std::int64_t last_stride_;
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
