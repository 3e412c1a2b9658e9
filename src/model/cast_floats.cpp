// Casts floats through blocks of f64, to which every type widens exactly. Losses are measured while a block is in
// cache.
#include "model/cast_floats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "base/elements.h"
#include "base/half.h"

namespace tern {
namespace {

constexpr std::int64_t kCastElems = 256;
constexpr std::int64_t kElemsPerPiece = std::int64_t{1} << 18;

template <class Bits, class Widen>
void widen(const std::uint8_t* from, std::int64_t n, double* values, Widen&& to_float) {
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(to_float(load_element<Bits>(from, i)));
}

void load(const std::uint8_t* from, DType type, std::int64_t n, double* values) {
  switch (type) {
    case DType::f64: return widen<double>(from, n, values, [](double v) { return v; });
    case DType::f16: return widen<std::uint16_t>(from, n, values, half::from_f16);
    case DType::bf16: return widen<std::uint16_t>(from, n, values, half::from_bf16);
    default: return widen<float>(from, n, values, [](float v) { return v; });
  }
}

void store(const double* values, std::int64_t n, std::uint8_t* to, DType type) {
  for (std::int64_t i = 0; i < n; ++i) write_element(to, type, i, values[i]);
}

double smallest_normal(DType type) { return type == DType::f16 ? 0x1p-14 : 0x1p-126; }

CastLoss compare(const double* before, const double* after, std::int64_t n, double normal) {
  CastLoss loss;
  for (std::int64_t i = 0; i < n; ++i) {
    const double change = std::fabs(after[i] - before[i]), size = std::fabs(before[i]);
    if (change == 0 || !std::isfinite(size)) continue;
    if (std::isinf(after[i])) {
      ++loss.overflowed;
    } else if (size >= normal) {
      loss.largest_change = std::max(loss.largest_change, change / size);
    } else {
      ++loss.underflowed;
    }
  }
  return loss;
}

float half_value(std::uint16_t bits, DType type) {
  return type == DType::f16 ? half::from_f16(bits) : half::from_bf16(bits);
}

// f16 and bf16 have only 65,536 values, so each of them is cast once; cast_halves() looks up the results.
struct HalfTable {
  std::array<std::uint16_t, 65536> to;
  std::array<std::uint8_t, 65536> overflows, underflows;

  HalfTable(DType from_type, DType to_type) {
    for (std::uint32_t i = 0; i < to.size(); ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const float v = half_value(bits, from_type);
      to[i] = to_type == DType::f16 ? half::to_f16(v) : half::to_bf16(v);
      const auto before = static_cast<double>(v), after = static_cast<double>(half_value(to[i], to_type));
      const CastLoss loss = compare(&before, &after, 1, smallest_normal(to_type));
      overflows[i] = static_cast<std::uint8_t>(loss.overflowed);
      underflows[i] = static_cast<std::uint8_t>(loss.underflowed);
    }
  }
};

CastLoss cast_halves(const Threads& threads, std::span<const std::uint8_t> from, DType from_type,
                     std::span<std::uint8_t> to, DType to_type) {
  const auto table = std::make_unique<const HalfTable>(from_type, to_type);
  // Allocated here, where a failure can be reported; a bad_alloc on a pool thread would end the process.
  std::vector<std::array<std::uint8_t, 65536>> seen_by(static_cast<std::size_t>(threads.count()));
  CastLoss all;
  std::mutex mutex;
  WorkQueue queue(static_cast<std::int64_t>(from.size() / 2), kElemsPerPiece);
  threads.run(threads.count(), [&](int thread) {
    auto& seen = seen_by[static_cast<std::size_t>(thread)];
    CastLoss loss;
    for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
      for (; begin < end; ++begin) {
        const auto bits = load_element<std::uint16_t>(from.data(), begin);
        store_element(to.data(), begin, table->to[bits]);
        seen[bits] = 1;
        loss.overflowed += table->overflows[bits];
        loss.underflowed += table->underflows[bits];
      }
    for (std::uint32_t i = 0; i < seen.size(); ++i) {
      if (seen[i] == 0) continue;
      const auto bits = static_cast<std::uint16_t>(i);
      const auto before = static_cast<double>(half_value(bits, from_type)),
                 after = static_cast<double>(half_value(table->to[i], to_type));
      loss.largest_change =
          std::max(loss.largest_change, compare(&before, &after, 1, smallest_normal(to_type)).largest_change);
    }
    const std::lock_guard lock(mutex);
    all.add(loss);
  });
  return all;
}

}  // namespace

void CastLoss::add(const CastLoss& other) {
  largest_change = std::max(largest_change, other.largest_change);
  overflowed += other.overflowed;
  underflowed += other.underflowed;
}

CastLoss cast_floats(const Threads& threads, std::span<const std::uint8_t> from, DType from_type,
                     std::span<std::uint8_t> to, DType to_type) {
  if (size_of(from_type) == 2 && size_of(to_type) == 2) return cast_halves(threads, from, from_type, to, to_type);
  const auto from_size = static_cast<std::int64_t>(size_of(from_type)),
             to_size = static_cast<std::int64_t>(size_of(to_type));
  const std::int64_t count = static_cast<std::int64_t>(from.size()) / from_size;
  const bool exact = to_type == DType::f64 || (to_type == DType::f32 && from_type != DType::f64);
  CastLoss all;
  std::mutex mutex;
  WorkQueue queue(count, kElemsPerPiece);
  threads.run(threads.count(), [&](int) {
    CastLoss loss;
    std::array<double, kCastElems> before, after;
    for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
      for (; begin < end; begin += kCastElems) {
        const std::int64_t n = std::min(kCastElems, end - begin);
        std::uint8_t* out = to.data() + begin * to_size;
        load(from.data() + begin * from_size, from_type, n, before.data());
        store(before.data(), n, out, to_type);
        if (exact) continue;
        load(out, to_type, n, after.data());
        loss.add(compare(before.data(), after.data(), n, smallest_normal(to_type)));
      }
    const std::lock_guard lock(mutex);
    all.add(loss);
  });
  return all;
}

std::vector<std::uint8_t> bytes_of_scales(std::span<const float> scales, StoredType type) {
  const bool half = type == StoredType::bf16;
  std::vector<std::uint8_t> bytes(scales.size() * (half ? sizeof(std::uint16_t) : sizeof(float)));
  for (std::size_t s = 0; s < scales.size(); ++s) {
    const std::uint16_t bits = half::to_bf16(scales[s]);
    if (half) {
      std::memcpy(bytes.data() + s * sizeof bits, &bits, sizeof bits);
    } else {
      std::memcpy(bytes.data() + s * sizeof(float), &scales[s], sizeof(float));
    }
  }
  return bytes;
}

}  // namespace tern
