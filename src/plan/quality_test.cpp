// The fast sums against measure_quality(), casts, and BitNet's own rounding.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/elements.h"
#include "base/errors.h"
#include "device/topology.h"
#include "format/format.h"
#include "format/i2.h"
#include "model/cast_floats.h"
#include "model/quantized_rows.h"
#include "ops/ternary_quantize/ternary_quantize.h"
#include "plan/context_state.h"
#include "plan/count_trits.h"
#include "plan/quality.h"

namespace tern {
namespace {

const Context& cpu() {
  static const Context context = *Context::open(DeviceId{}, {.threads = 2});
  return context;
}

// Normal values times `size`, in any type.
std::vector<std::uint8_t> weights(DType dtype, std::int64_t count, float size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i)
    write_element(bytes.data(), dtype, i, static_cast<double>(normal(random) * size));
  return bytes;
}

QualityRows rows_of(const ConstTensorView& x, const QuantizedTensor& q) {
  const auto trits = count_trits(q.quantized_data().data(), q.rows(), q.k());
  return {.x = x.data,
          .dtype = x.dtype,
          .rows = q.rows(),
          .k = q.k(),
          .stride = q.k(),
          .codes = q.quantized_data().data(),
          .signs = trits[0] + trits[2],
          .decided = q.scale_values(),
          .stored = q.scale_values(),
          .decided_by = q.granularity,
          .stored_by = q.granularity};
}
QualitySums fast(const QualityRows& rows) {
  return QualitySums::fast(QualityLoops::of(host_device().capabilities), rows);
}

QualitySums exact(const QualityRows& rows) {
  return QualitySums::exact(QualityLoops::of(host_device().capabilities), rows);
}

struct QualityCase {
  DType dtype;
  Granularity granularity;
  float size;
};

class QualityOf : public testing::TestWithParam<QualityCase> {};

TEST_P(QualityOf, AgreesWithTheSlowMeasure) {
  const auto [dtype, granularity, size] = GetParam();
  const std::int64_t n = 37, k = 1003;
  const auto data = weights(dtype, n * k, size, 7);
  const ConstTensorView x{data.data(), dtype, {n, k}};
  QuantizeOptions options;
  options.granularity = granularity;
  options.measure_quality = true;
  const auto q = quantize(cpu(), x, options);
  ASSERT_TRUE(q.ok()) << q.error().str();
  const auto trits = count_trits(q->quantized_data().data(), n, k);
  EXPECT_EQ(trits[0] + trits[1] + trits[2], n * k);
  const QualitySums quick = fast(rows_of(x, *q)), slow = exact(rows_of(x, *q));
  EXPECT_EQ(quick.sure(), size < 1e20F) << "squares beyond f32";
  for (const QualitySums& sums : quick.sure() ? std::vector{quick, slow} : std::vector{slow}) {
    const Quality quality = sums.quality(n * k, trits[1]);
    EXPECT_NEAR(*quality.sqnr_db, *q->quality->sqnr_db, 2e-5);
    EXPECT_NEAR(*quality.cosine, *q->quality->cosine, 2e-6);
    EXPECT_EQ(quality.zero_fraction, q->quality->zero_fraction);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QualityOf,
                         testing::Values(QualityCase{DType::bf16, Granularity::tensor(), 0.02F},
                                         QualityCase{DType::f16, Granularity::tensor(), 0.02F},
                                         QualityCase{DType::f32, Granularity::tensor(), 0.02F},
                                         QualityCase{DType::f64, Granularity::tensor(), 0.02F},
                                         QualityCase{DType::bf16, Granularity::row(), 3.0F},
                                         QualityCase{DType::f32, Granularity::group(100), 1e-3F},
                                         QualityCase{DType::f32, Granularity::group(256), 1e25F},  // squares beyond f32
                                         QualityCase{DType::bf16, Granularity::tensor(), 1e-4F}));

TEST(QualityOf, OutliersBeyondF32AreMeasuredExactly) {
  std::vector<float> x(512, 1e-3F);
  x[5] = 3e37F;
  const ConstTensorView view{x.data(), DType::f32, {2, 256}};
  QuantizeOptions options;
  options.granularity = Granularity::group(128);
  options.measure_quality = true;
  const auto q = quantize(cpu(), view, options);
  ASSERT_TRUE(q.ok());
  EXPECT_FALSE(fast(rows_of(view, *q)).sure());
  const Quality quality = exact(rows_of(view, *q)).quality(512, 0);
  ASSERT_EQ(quality.sqnr_db.has_value(), q->quality->sqnr_db.has_value());
  if (quality.sqnr_db) {
    EXPECT_NEAR(*quality.sqnr_db, *q->quality->sqnr_db, 1e-5);
  }
}

TEST(QualityOf, LosslessIsInfinite) {
  const std::vector<float> x = {0.5F, -0.5F, 0.5F, -0.5F};
  const ConstTensorView view{x.data(), DType::f32, {1, 4}};
  const auto q = quantize(cpu(), view);
  ASSERT_TRUE(q.ok());
  EXPECT_FALSE(fast(rows_of(view, *q)).sure()) << "a small difference of large sums";
  const Quality quality = exact(rows_of(view, *q)).quality(4, 0);
  EXPECT_TRUE(std::isinf(*quality.sqnr_db));
  EXPECT_DOUBLE_EQ(*quality.cosine, 1.0);
}

TEST(CountTrits, CountsEveryByteAndNoPadding) {
  for (const std::int64_t k : {1, 2, 3, 4, 5, 31, 32, 33, 67, 193, 1344, 1345, 5003}) {
    std::vector<float> x(static_cast<std::size_t>(3 * k));
    std::array<std::int64_t, 3> want = {};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const int trit = static_cast<int>(i * 7 % 3) - 1;
      x[i] = static_cast<float>(trit);
      ++want[static_cast<std::size_t>(trit + 1)];
    }
    QuantizeOptions options;
    options.scheme = Scheme::absmax;
    const auto q = quantize(cpu(), {x.data(), DType::f32, {3, k}}, options);
    ASSERT_TRUE(q.ok());
    EXPECT_EQ(count_trits(q->quantized_data().data(), 3, k), want) << k;
  }
  for (const int code : {0, 1, 2}) {  // all trits of one kind, so that the counters reach their maximum
    const std::vector<std::uint8_t> codes(5000, static_cast<std::uint8_t>(code * i2::kPadding));
    std::array<std::int64_t, 3> want = {};
    want[static_cast<std::size_t>(code)] = 20'000;
    EXPECT_EQ(count_trits(codes.data(), 1, 20'000), want) << code;
  }
}

TEST(CastFloats, RoundsAndTellsWhatItLost) {
  const std::vector<float> x = {1.0F,      1.0F + 0x1p-9F, 70000.0F,
                                -65504.0F, 1e-30F,         std::numeric_limits<float>::infinity()};
  std::vector<std::uint8_t> out(x.size() * 2);
  const std::span<const std::uint8_t> bytes{reinterpret_cast<const std::uint8_t*>(x.data()), x.size() * 4};
  const auto f16 = cast_floats(cpu().state().threads, bytes, DType::f32, out, DType::f16);
  EXPECT_EQ(f16.overflowed, 1);
  EXPECT_EQ(f16.underflowed, 1) << "1e-30 is 0 there";
  EXPECT_EQ(f16.largest_change, 0) << "the rest is exact, or below f16's normal range";
  const auto bf16 = cast_floats(cpu().state().threads, bytes, DType::f32, out, DType::bf16);
  EXPECT_EQ(bf16.overflowed, 0);
  EXPECT_EQ(bf16.underflowed, 0);
  EXPECT_GE(bf16.largest_change, 144.0 / 70000) << "70000 becomes 70144";
  EXPECT_LE(bf16.largest_change, 0x1p-8);
  std::vector<std::uint8_t> back(x.size() * 4);
  EXPECT_EQ(cast_floats(cpu().state().threads, out, DType::bf16, back, DType::f32).largest_change, 0);
  EXPECT_EQ(read_element(back.data(), DType::f32, 3), -65536.0);
}

TEST(CastFloats, EveryHalfBecomesWhatItsValueBecomes) {
  for (const auto& [from, to] : {std::pair{DType::bf16, DType::f16}, {DType::f16, DType::bf16}}) {
    std::vector<std::uint16_t> all(65536), out(65536, 0xABCD);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    const auto loss =
        cast_floats(cpu().state().threads, {reinterpret_cast<const std::uint8_t*>(all.data()), all.size() * 2}, from,
                    {reinterpret_cast<std::uint8_t*>(out.data()), out.size() * 2}, to);
    std::int64_t overflowed = 0, underflowed = 0;
    for (std::int64_t i = 0; i < 65536; ++i) {
      const double value = read_element(all.data(), from, i);
      std::uint16_t want = 0;
      if (to == DType::f16) want = half::to_f16(static_cast<float>(value));
      if (to == DType::bf16) want = half::to_bf16(static_cast<float>(value));
      ASSERT_EQ(out[static_cast<std::size_t>(i)], want) << i;
      underflowed +=
          std::fabs(value) < (to == DType::f16 ? 0x1p-14 : 0x1p-126) && value != read_element(out.data(), to, i) ? 1
                                                                                                                 : 0;
      overflowed += std::isfinite(value) && std::isinf(read_element(out.data(), to, i)) ? 1 : 0;
    }
    EXPECT_EQ(loss.overflowed, overflowed);
    EXPECT_EQ(loss.underflowed, underflowed);
    EXPECT_GT(to == DType::f16 ? underflowed : 1, 0);
    EXPECT_GT(to == DType::f16 ? overflowed : 1, 0);
    EXPECT_LE(loss.largest_change, to == DType::f16 ? 0 : 0x1p-8) << "f16 has more digits than bf16";
  }
}

// Tests the midpoints between neighbours of f16 or bf16, and the f64 values next to each, which rounding to f32 first
// would turn into the midpoint.
TEST(CastFloats, F64IsRoundedOnce) {
  for (const DType to : {DType::f16, DType::bf16}) {
    const std::uint16_t infinity = to == DType::f16 ? 0x7C00 : 0x7F80;
    std::vector<double> x;
    std::vector<std::uint16_t> want;
    const auto add = [&](double value, int bits) {
      x.insert(x.end(), {value, -value});
      want.insert(want.end(), {static_cast<std::uint16_t>(bits), static_cast<std::uint16_t>(bits | 0x8000)});
    };
    for (int low = 0; low < infinity; ++low) {
      const std::uint16_t below = static_cast<std::uint16_t>(low - 1), here = static_cast<std::uint16_t>(low);
      const std::uint16_t above = static_cast<std::uint16_t>(low + 1);
      const double value = read_element(&here, to, 0);
      // Beyond the largest value the next one would be as far away as the one before.
      const double next = above == infinity ? 2 * value - read_element(&below, to, 0) : read_element(&above, to, 0);
      const double middle = value + (next - value) / 2;
      add(value, low);
      add(std::nextafter(middle, 0.0), low);
      add(middle, low % 2 == 0 ? low : low + 1);
      add(std::nextafter(middle, HUGE_VAL), low + 1);
    }
    add(std::numeric_limits<double>::max(), infinity);
    add(HUGE_VAL, infinity);
    add(std::numeric_limits<double>::denorm_min(), 0);
    std::vector<std::uint16_t> got(x.size(), 0xABCD);
    cast_floats(cpu().state().threads, {reinterpret_cast<const std::uint8_t*>(x.data()), x.size() * 8}, DType::f64,
                {reinterpret_cast<std::uint8_t*>(got.data()), got.size() * 2}, to);
    std::size_t twice_differs = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(got[i], want[i]) << name(to) << ' ' << x[i];
      const auto on_the_way = static_cast<float>(x[i]);
      twice_differs += (to == DType::f16 ? half::to_f16(on_the_way) : half::to_bf16(on_the_way)) != want[i] ? 1 : 0;
    }
    EXPECT_EQ(twice_differs, 2U * infinity) << "one of the two beside each middle, by either sign";
    std::uint16_t nan = 0;
    write_element(&nan, to, 0, -std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(std::isnan(read_element(&nan, to, 0)));
  }
}

// ---- BitNet's converter, one element at a time ----

struct Match {
  QuantizedTensor weights;
  double threshold = 0;
};
// All rows at once, and for `in_pieces` a few at a time.
Result<Match> quantize_like_bitnet(const ConstTensorView& x, bool in_pieces = false) {
  BufferPool pool;
  TERN_ASSIGN(rows, QuantizedRows::make(cpu(), pool, x, {}, true));
  TERN_ASSIGN(q, quantize(cpu(), x));
  const std::int64_t step = in_pieces ? 3 : rows->n();
  for (std::int64_t first = 0; first < rows->n(); first += step)
    TERN_RETURN_IF_ERROR(rows->read({first, std::min(step, rows->n() - first)},
                                    q.codes.as<std::uint8_t>().data() + first * row_bytes(Format::i2, rows->k()),
                                    q.scales.as<float>().data()));
  return Match{std::move(q), *rows->threshold()};
}

float rounded(float v, DType dtype) {
  if (dtype == DType::bf16) return half::from_bf16(half::to_bf16(v));
  return dtype == DType::f16 ? half::from_f16(half::to_f16(v)) : v;
}

class BitnetMatching : public testing::TestWithParam<DType> {};

TEST_P(BitnetMatching, GivesTheCodesOfTheFormula) {
  const DType dtype = GetParam();
  const std::int64_t n = 5, k = 4099;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    auto data = weights(dtype, n * k, 0.02F, seed);
    // Values at and around half the mean, where the two differ.
    const ConstTensorView x{data.data(), dtype, {n, k}};
    const auto first = quantize(cpu(), x);
    ASSERT_TRUE(first.ok());
    const float half = first->scale_values()[0] / 2;
    for (std::int64_t i = 0; i < 400; ++i) {
      const double near =
          static_cast<double>(half) * (1 + (static_cast<double>(i) - 200) * (dtype == DType::f32 ? 1e-8 : 1e-4));
      write_element(data.data(), dtype, i * 37, i % 2 == 0 ? near : -near);
    }
    const auto match = quantize_like_bitnet(x, seed % 2 == 0);
    ASSERT_TRUE(match.ok()) << match.error().str();
    const auto absmean = quantize(cpu(), x);
    ASSERT_TRUE(absmean.ok());
    const float s = absmean->scale_values()[0];
    const float inverse = rounded(1.0F / rounded(s, dtype), dtype);
    const float stored = rounded(rounded(1.0F / inverse, dtype), DType::bf16);
    EXPECT_EQ(match->weights.scale_values()[0], stored);
    std::int64_t differing = 0;
    for (std::int64_t i = 0; i < n * k; ++i) {
      const auto w = static_cast<float>(read_element(data.data(), dtype, i));
      const float want = std::fmin(std::fmax(std::nearbyint(rounded(w * inverse, dtype)), -1.0F), 1.0F);
      const auto* row = match->weights.quantized_data().data() + i / k * row_bytes(Format::i2, k);
      ASSERT_EQ(read_code(Format::i2, row, i % k), static_cast<int>(want)) << "element " << i << " seed " << seed;
      EXPECT_EQ(std::fabs(static_cast<double>(w)) > match->threshold, want != 0);
      const auto* plain = absmean->quantized_data().data() + i / k * row_bytes(Format::i2, k);
      if (read_code(Format::i2, plain, i % k) != static_cast<int>(want)) {
        ++differing;
        // An ulp of the mean, one of its inverse and one of the product.
        const float ulp = dtype == DType::f32 ? 0x1p-23F : dtype == DType::f16 ? 0x1p-10F : 0x1p-7F;
        EXPECT_NEAR(std::fabs(w), s / 2, 2 * ulp * s) << "far from the threshold";
      }
    }
    if (dtype == DType::bf16) RecordProperty("differing_" + std::to_string(seed), static_cast<int>(differing));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BitnetMatching, testing::Values(DType::f32, DType::f16, DType::bf16));

TEST(BitnetMatching, BF16DiffersFromAbsmeanSomewhere) {
  std::int64_t differing = 0;
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    const auto data = weights(DType::bf16, 64 * 1024, 0.02F, seed);
    const ConstTensorView x{data.data(), DType::bf16, {64, 1024}};
    const auto match = quantize_like_bitnet(x);
    const auto absmean = quantize(cpu(), x);
    ASSERT_TRUE(match.ok() && absmean.ok());
    for (std::size_t i = 0; i < absmean->quantized_data().size(); ++i)
      differing += match->weights.quantized_data()[i] != absmean->quantized_data()[i] ? 1 : 0;
  }
  EXPECT_GT(differing, 0) << "else the option would be idle";
}

TEST(BitnetMatching, WhatHasNoInverseIsRefused) {
  std::vector<std::uint8_t> zeros(64 * 2);
  const auto f16 = quantize_like_bitnet({zeros.data(), DType::f16, {1, 64}});
  ASSERT_FALSE(f16.ok()) << "1e-5 has no inverse in f16";
  EXPECT_EQ(f16.error().code, Code::unsupported);
  EXPECT_TRUE(quantize_like_bitnet({zeros.data(), DType::bf16, {1, 64}}).ok());
  std::vector<double> wide(4, 1.0);
  EXPECT_EQ(quantize_like_bitnet({wide.data(), DType::f64, {1, 4}}).error().code, Code::unsupported);
}

}  // namespace
}  // namespace tern
