// For the CPU drivers of the affine ops: cuts lines into pieces for threads, and copies data that the SIMD loops cannot
// read or write in place.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/checked.h"
#include "base/elements.h"
#include "device/threads.h"
#include "ops/affine/affine.h"
#include "ops/affine/float_type.h"

namespace tern::affine {

constexpr std::int64_t kChunk = 2048;                 // elements per call of the loops: copies stay in the first caches
constexpr std::int64_t kElemsPerPiece = 16 * kChunk;  // a piece begins at a whole byte in every format
constexpr std::int64_t kMinElemsPerSlot = 32 * 1024;  // below some microseconds of work another thread does not pay off
// Results of this many bytes or more would not stay in the cache, so they are written with streaming stores. A normal
// store would first read every cache line.
constexpr std::int64_t kStreamBytes = 32 << 20;

// Calls chunk(scratch, line, at, n) for every chunk of n <= kMost elements of the lines, on several threads. Each
// thread has one Scratch and calls done() when it has no more work. If a chunk returns false, the walk stops early and
// each_chunk returns false.
template <class Scratch, std::int64_t kMost = kChunk, class Chunk, class Done>
bool each_chunk(const Lines& lines, const Threads& threads, Chunk chunk, Done done) {
  const std::int64_t per_line = ceil_div(lines.k, kElemsPerPiece);
  WorkQueue queue(lines.count * per_line, std::max<std::int64_t>(1, kElemsPerPiece / lines.k));
  const std::int64_t wanted = lines.count * lines.k / kMinElemsPerSlot;
  std::atomic<bool> refused{false};
  threads.run(static_cast<int>(std::clamp<std::int64_t>(wanted, 1, threads.count())), [&](int) {
    Scratch scratch;
    for (std::int64_t piece = 0, last = 0; queue.next(piece, last);)
      for (; piece < last && !refused.load(std::memory_order_relaxed); ++piece) {
        const std::int64_t begin = piece % per_line * kElemsPerPiece, end = std::min(begin + kElemsPerPiece, lines.k);
        for (std::int64_t at = begin; at < end; at += kMost)
          if (!chunk(scratch, piece / per_line, at, std::min(kMost, end - at))) refused = true;
      }
    done();
  });
  return !refused;
}

inline FloatType float_type(DType dtype) { return dtype == DType::f16 ? kF16 : dtype == DType::bf16 ? kBf16 : kF32; }

// Splits elements [at, at + n) of a line at range boundaries. f(done, count, len, range) gets `count` consecutive parts
// of `len` elements each, which begin at element at + done; the first part belongs to the line's range number `range`.
// The calls cover the rest of a range that began before `at`, then whole ranges, then the beginning of the last range.
// Not for Run::each.
template <class Fn>
void each_part(const Lines& lines, std::int64_t at, std::int64_t n, Fn f) {
  const std::int64_t len = lines.run == Lines::Run::groups ? lines.group : lines.k;
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t left = len - (at + done) % len;
    const std::int64_t count = left == len ? std::max<std::int64_t>(1, (n - done) / len) : 1;
    const std::int64_t each = std::min(left, n - done);
    f(done, count, each, (at + done) / len);
    done += count * each;
  }
}
// The number of ranges that elements [at, at + n) belong to.
inline std::int64_t parts_of(const Lines& lines, std::int64_t at, std::int64_t n) {
  return lines.run == Lines::Run::groups ? (at + n - 1) / lines.group - at / lines.group + 1 : 1;
}

// gather: copies n elements that are `stride` apart to contiguous memory; scatter: the inverse.
template <class Bits>
void gather_as(const void* x, std::int64_t stride, std::int64_t n, void* to) {
  for (std::int64_t i = 0; i < n; ++i) store_element(to, i, load_element<Bits>(x, i * stride));
}
template <class Bits>
void scatter_as(const void* x, std::int64_t stride, std::int64_t n, void* to) {
  for (std::int64_t i = 0; i < n; ++i) store_element(to, i * stride, load_element<Bits>(x, i));
}
inline void gather(const void* x, DType dtype, std::int64_t stride, std::int64_t n, void* to) {
  if (size_of(dtype) == 2) return gather_as<std::uint16_t>(x, stride, n, to);
  return size_of(dtype) == 4 ? gather_as<std::uint32_t>(x, stride, n, to) : gather_as<std::uint64_t>(x, stride, n, to);
}
inline void scatter(const void* x, DType dtype, std::int64_t stride, std::int64_t n, void* to) {
  if (size_of(dtype) == 2) return scatter_as<std::uint16_t>(x, stride, n, to);
  return size_of(dtype) == 4 ? scatter_as<std::uint32_t>(x, stride, n, to)
                             : scatter_as<std::uint64_t>(x, stride, n, to);
}

// Writes n elements as f32 or f64, with non-finite ones saturated, and returns the type written. `to` may be x.
inline DType saturate(const void* x, DType dtype, std::int64_t n, void* to) {
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  for (std::int64_t i = n - 1; i >= 0; --i)  // backwards, so that widening in place does not overwrite unread elements
    write_element(to, wide, i, saturated(read_element(x, dtype, i), dtype));
  return wide;
}

// Up to kChunk scales and zero points in the types and alignment the loops need: in place if possible, else copied.
class QparamsScratch {
 public:
  template <class T>
  struct Of {
    const T* scales;
    const std::int32_t* zero_points;
    [[nodiscard]] Of from(std::int64_t i) const {
      return {scales + i, zero_points == nullptr ? nullptr : zero_points + i};
    }
  };
  Of<float> narrow(const Qparams& q, std::int64_t first, std::int64_t count) {
    return {q.scale_dtype == DType::f32 ? static_cast<const float*>(q.scales) + first : copied<float>(q, first, count),
            zeros(q, first, count)};
  }
  Of<double> wide(const Qparams& q, std::int64_t first, std::int64_t count) {
    return {copied<double>(q, first, count), zeros(q, first, count)};
  }

 private:
  template <class T>
  const T* copied(const Qparams& q, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      store_element(scales_, i, static_cast<T>(read_element(q.scales, q.scale_dtype, first + i)));
    return reinterpret_cast<const T*>(scales_);
  }
  const std::int32_t* zeros(const Qparams& q, std::int64_t first, std::int64_t count) {
    if (q.zero_points == nullptr) return nullptr;
    const auto at = reinterpret_cast<std::uintptr_t>(q.zero_points);
    if (at % alignof(std::int32_t) == 0) return q.zero_points + first;
    std::memcpy(zero_points_, static_cast<const std::byte*>(static_cast<const void*>(q.zero_points)) + 4 * first,
                static_cast<std::size_t>(count) * 4);
    return zero_points_;
  }

  alignas(64) std::byte scales_[kChunk * 8];
  alignas(64) std::int32_t zero_points_[kChunk];
};

}  // namespace tern::affine
