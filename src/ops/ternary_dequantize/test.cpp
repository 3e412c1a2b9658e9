// Every ternary_dequantize kernel, and the generic loops at every width, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lab/weights.h"
#include "ops/ternary_dequantize/generic.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"
#include "tests/support/quantize_runner.h"

namespace tern {
namespace {

using lab::Random;
using test::Guarded;
using test::NamedKernel;
using Problem = TernaryDequantize::Problem;
using Traits = OpTraits<TernaryDequantize>;

constexpr std::string_view kOp = "ternary_dequantize";

std::vector<NamedKernel> all_kernels(Format format) {
  return test::kernels_and_loops<ternary_dequantize::Loops>(kOp, format);
}

struct Input {
  Problem p;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

Input make_input(const Problem& p, Random& random) {
  Input in{p, {}, {}};
  const CodeRange range = code_range(p.scheme);
  in.codes.resize(static_cast<std::size_t>(p.rows * row_bytes(p.format, p.k)));
  std::vector<std::int8_t> row(static_cast<std::size_t>(p.k));
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (auto& code : row) code = static_cast<std::int8_t>(range.min + random.below(range.max - range.min + 1));
    pack_row(p.format, row.data(), p.k, in.codes.data() + r * row_bytes(p.format, p.k));
  }
  in.scales.resize(static_cast<std::size_t>(make_ranges(p.rows, p.k, p.granularity).total));
  for (float& s : in.scales) s = std::fabs(random.gaussian()) + 1e-3F;
  return in;
}

struct Output {
  std::vector<std::byte> y;
  Status status;
};

Output run(const KernelEntry& entry, const Input& in, int threads = 1) {
  const Problem& p = in.p;
  Guarded<std::uint8_t> codes(in.codes.size());
  std::memcpy(codes.data(), in.codes.data(), in.codes.size());
  Guarded<std::byte> y(static_cast<std::size_t>(p.rows * p.k) * size_of(p.dtype));
  auto params =
      Traits::bind(p, {.codes = {codes.data(), code_dtype(p.format), {p.rows, row_bytes(p.format, p.k)}},
                       .scales = {in.scales.data(), DType::f32, {static_cast<std::int64_t>(in.scales.size())}},
                       .y = {y.data(), p.dtype, {p.rows, p.k}}});
  Output out;
  if (!params.ok()) {
    out.status = std::move(params).error();
    return out;
  }
  const Threads& pool = test::pool_of(threads);
  out.status = entry.run(entry.table, &*params, {pool, {}});
  out.y.assign(y.data(), y.data() + y.size());
  return out;
}

constexpr DType kDtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
constexpr struct {
  Scheme scheme;
  Format format;
} kPairs[] = {{Scheme::absmean, Format::i2},
              {Scheme::absmean, Format::i8},
              {Scheme::int2, Format::s2},
              {Scheme::int2, Format::i8},
              {Scheme::absmean, Format::b3}};

TEST(Dequantize, EveryShapeAndGroup) {
  Random random(1);
  for (const auto [scheme, format] : kPairs)
    for (const std::int64_t k : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000})
      for (const std::int64_t group : {0, -1, 1, 2, 3, 4, 5, 7, 12, 32, 128, 300, 5000}) {
        Problem p{.rows = 1 + random.below(3), .k = k, .scheme = scheme, .format = format};
        p.granularity = group == 0    ? Granularity::tensor()
                        : group == -1 ? Granularity::row()
                                      : Granularity::group(group);
        Input in = make_input(p, random);
        for (const DType dtype : kDtypes) {
          in.p.dtype = dtype;
          const auto want = run(test::reference_kernel(kOp, format), in);
          ASSERT_TRUE(want.status.ok());
          for (const NamedKernel& kernel : all_kernels(format)) {
            const auto got = run(kernel.entry, in);
            ASSERT_TRUE(got.status.ok()) << kernel.name << got.status.error().str();
            ASSERT_TRUE(test::same_bytes(got.y, want.y))
                << kernel.name << ' ' << p.rows << 'x' << k << ' ' << name(p.granularity) << ' ' << name(dtype);
          }
        }
      }
}

struct Extent {
  std::int64_t rows, k;
  Granularity g;
};
// Expects the reference's bits from every kernel with three threads, and with one thread if the tensor is small.
void expect_same_with_threads(std::initializer_list<Extent> extents) {
  Random random(2);
  for (const auto [scheme, format] : kPairs)
    for (const auto& [rows, k, g] : extents) {
      Input in = make_input({.rows = rows, .k = k, .scheme = scheme, .granularity = g, .format = format}, random);
      const bool large = rows * k > 1'000'000;
      for (const DType dtype : kDtypes) {
        if (large && dtype != DType::f32) continue;  // streaming stores of other types have their own test
        in.p.dtype = dtype;
        const auto want = run(test::reference_kernel(kOp, format), in);
        for (const NamedKernel& kernel : test::runnable_kernels(kOp, format))
          for (const int threads : large ? std::vector{3} : std::vector{1, 3})
            ASSERT_TRUE(test::same_bytes(run(kernel.entry, in, threads).y, want.y))
                << kernel.name << ' ' << rows << 'x' << k << ' ' << name(dtype);
      }
    }
}

TEST(Dequantize, LargeOutputs) {
  expect_same_with_threads({{1, 9'000'001, Granularity::tensor()},  // larger than the cache
                            {2048, 4104, Granularity::group(128)},
                            {512, 4104, Granularity::group(513)}});
}

TEST(Dequantize, EveryThreadHasItsShare) {
  expect_same_with_threads({{3, 70'001, Granularity::row()}, {2, 200'003, Granularity::group(100'001)}});
}

// The driver uses streaming stores for large outputs only. This test calls the loops directly, with small outputs.
TEST(Dequantize, StreamedIsTheSameAsStored) {
  Random random(5);
  for (const auto [scheme, format] : kPairs)
    for (const DType dtype : kDtypes)
      if (format != Format::b3)  // b3 has no loops
        for (const auto& [rows, k] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 2047}, {3, 1024}, {2, 5120}}) {
          const Input in = make_input({.rows = rows,
                                       .k = k,
                                       .dtype = dtype,
                                       .scheme = scheme,
                                       .granularity = Granularity::row(),
                                       .format = format},
                                      random);
          const auto want = run(test::reference_kernel(kOp, format), in);
          for (const NamedKernel& kernel : all_kernels(format)) {
            if (kernel.on_gpu) continue;
            const auto& table = *static_cast<const ternary_dequantize::SimdTable*>(kernel.entry.table);
            alignas(64) static std::byte y[2 * 5120 * sizeof(double)];
            std::memset(y, 0xEE, sizeof y);
            EXPECT_TRUE(table.ranges[static_cast<int>(dtype)][static_cast<int>(format)](
                in.codes.data(), rows, k, in.scales.data(), code_range(scheme).min, true, y));
            ASSERT_EQ(std::memcmp(y, want.y.data(), want.y.size()), 0) << kernel.name << ' ' << name(dtype) << ' ' << k;
          }
        }
}

TEST(Dequantize, ValuesAreCodeTimesScale) {
  const Input in{{.rows = 1, .k = 5, .scheme = Scheme::int2, .format = Format::s2}, {0b11'10'01'00, 0b01}, {0.3F}};
  for (const NamedKernel& kernel : all_kernels(Format::s2)) {
    const auto got = run(kernel.entry, in);
    const float want[] = {0.0F, 0.3F, -0.6F, -0.3F, 0.3F};
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(std::memcmp(got.y.data() + 4 * i, &want[i], 4), 0) << kernel.name;
  }
}

TEST(Dequantize, EveryInvalidCodeIsNamed) {
  Random random(3);
  for (const std::int64_t k : {1, 6, 33, 130, 200})
    for (const Granularity g :
         {Granularity::tensor(), Granularity::row(), Granularity::group(32), Granularity::group(7)})
      for (std::int64_t bad = 0; bad < 2 * k; bad += 1 + k / 40) {
        Input in = make_input({.rows = 2, .k = k, .granularity = g, .format = Format::i2}, random);
        in.codes[static_cast<std::size_t>(bad / k * row_bytes(Format::i2, k) + bad % k / 4)] |=
            static_cast<std::uint8_t>(3U << (2 * (bad % k % 4)));
        Input bytes = make_input({.rows = 2, .k = k, .granularity = g, .format = Format::i8}, random);
        bytes.codes[static_cast<std::size_t>(bad)] = random.below(2) == 0 ? 0xFE : 0x02;  // -2, 2
        Input fives = make_input({.rows = 2, .k = k, .granularity = g, .format = Format::b3}, random);
        fives.codes[static_cast<std::size_t>(bad / k * row_bytes(Format::b3, k) + bad % k / 5)] = 0xD9;
        for (const Input* broken : {&in, &bytes, &fives})
          for (const NamedKernel& kernel : all_kernels(broken->p.format)) {
            const auto got = run(kernel.entry, *broken);
            ASSERT_EQ(got.status.code(), Code::invalid_quantized_value) << kernel.name << ' ' << k << ' ' << bad;
            ASSERT_EQ(got.status.error().index, broken == &fives ? bad - bad % k % 5 : bad) << kernel.name;
          }
      }
}

TEST(Dequantize, StridedRowsAndOddAddresses) {
  Random random(4);
  for (const auto [scheme, format] : kPairs)
    for (const DType dtype : kDtypes)
      for (const std::int64_t k : {5, 64, 1000}) {
        const Input in = make_input(
            {.rows = 3, .k = k, .dtype = dtype, .scheme = scheme, .granularity = Granularity::row(), .format = format},
            random);
        const auto want = run(test::reference_kernel(kOp, format), in);
        const auto size = static_cast<std::int64_t>(size_of(dtype));
        const std::int64_t stride = k + 2;
        for (const NamedKernel& kernel : test::runnable_kernels(kOp, format)) {
          std::vector<std::uint8_t> y(static_cast<std::size_t>(3 * stride * size + 1), 0xEE);
          auto params = Traits::bind(in.p, {.codes = {in.codes.data(), code_dtype(format), {3, row_bytes(format, k)}},
                                            .scales = {in.scales.data(), DType::f32, {3}},
                                            .y = {y.data() + 1, dtype, {3, k}, {stride, 1}, {}}});
          ASSERT_TRUE(params.ok()) << params.error().str();
          const Threads& pool = test::pool_of(2);
          ASSERT_TRUE(kernel.entry.run(kernel.entry.table, &*params, {pool, {}}).ok());
          for (std::int64_t row = 0; row < 3; ++row) {
            ASSERT_EQ(std::memcmp(y.data() + 1 + row * stride * size, want.y.data() + row * k * size,
                                  static_cast<std::size_t>(k * size)),
                      0)
                << kernel.name << ' ' << name(dtype);
            for (std::int64_t i = 0; i < 2 * size && row < 2; ++i)
              ASSERT_EQ(y[static_cast<std::size_t>(1 + (row * stride + k) * size + i)], 0xEE);
          }
        }
      }
}

// The scales are every half, the midpoint to the next half, and the floats next to that midpoint. Every value must be
// the half nearest to code * scale.
TEST(Dequantize, EveryHalfAndEveryRoundingOfOne) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<float> scales;
    for (std::uint32_t bits = 0; bits < 0x8000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const auto v = static_cast<float>(read_element(&half, dtype, 0));
      if (!std::isfinite(v) || v == 0) continue;
      const auto next = static_cast<std::uint16_t>(bits + 1);
      const auto above = static_cast<float>(read_element(&next, dtype, 0));
      const float tie = v + (std::isfinite(above) ? (above - v) / 2 : 0.0F);  // exact
      for (const float s : {v, tie, std::nextafter(tie, 0.0F), std::nextafter(tie, 2 * tie)})
        if (s > 0 && std::isfinite(s)) scales.push_back(s);
    }
    scales.insert(scales.end(), {65519.0F, 65520.0F, 65521.0F, 3.4e38F, std::numeric_limits<float>::max()});
    const auto ranges = static_cast<std::int64_t>(scales.size());
    ASSERT_GT(ranges, 120'000);
    for (const Format format : {Format::s2, Format::i8}) {
      const Problem p{.rows = ranges,
                      .k = 4,
                      .dtype = dtype,
                      .scheme = Scheme::int2,
                      .granularity = Granularity::row(),
                      .format = format};
      Input in{p, {}, scales};
      const std::int8_t codes[] = {0, 1, -2, -1};
      in.codes.resize(static_cast<std::size_t>(ranges * row_bytes(format, 4)));
      for (std::int64_t r = 0; r < ranges; ++r) pack_row(format, codes, 4, in.codes.data() + r * row_bytes(format, 4));
      const auto want = run(test::reference_kernel(kOp, format), in);
      for (const NamedKernel& kernel : all_kernels(format))
        ASSERT_TRUE(test::same_bytes(run(kernel.entry, in).y, want.y)) << kernel.name;
      // The reference against plain arithmetic: no half is nearer, and at equal distance the last bit is 0.
      for (std::int64_t i = 0; i < 4 * ranges; ++i) {
        const double exact = codes[i % 4] * static_cast<double>(scales[static_cast<std::size_t>(i / 4)]);
        const double y = read_element(want.y.data(), dtype, i);
        std::uint16_t bits = 0;
        std::memcpy(&bits, want.y.data() + 2 * i, sizeof bits);
        ASSERT_EQ(std::signbit(y), exact < 0) << exact;
        if (std::isinf(y)) {  // the exact value is at least half a step above the largest
          const double largest = saturated(y, dtype), step = dtype == DType::f16 ? 32 : 0x1p120;
          ASSERT_GE(std::fabs(exact), std::fabs(largest) + step / 2) << exact;
          continue;
        }
        for (const int away : {-1, 1}) {
          if ((bits & 0x7FFF) == 0 && away < 0) continue;
          const auto neighbour = static_cast<std::uint16_t>(bits + away);
          const double other = read_element(&neighbour, dtype, 0);
          const double near = std::fabs(y - exact), far = std::fabs(other - exact);
          ASSERT_TRUE(near < far || (near == far && bits % 2 == 0)) << exact << " became " << y;
        }
      }
    }
  }
}

TEST(Dequantize, BadScalesAndOverlapAreRefused) {
  std::vector<std::uint8_t> codes(16, 0b01'01'01'01);
  std::vector<float> y(64), scales = {1.0F, 0.0F}, both(66, 1.0F);
  const Problem p{.rows = 2, .k = 32, .granularity = Granularity::row(), .format = Format::i2};
  TernaryDequantize::Args args{.codes = {codes.data(), DType::u8, {2, 8}},
                               .scales = {scales.data(), DType::f32, {2}},
                               .y = {y.data(), DType::f32, {2, 32}}};
  auto refused = Traits::bind(p, args);
  EXPECT_EQ(refused.code(), Code::invalid_scale);
  EXPECT_EQ(refused.error().index, 1);
  scales[1] = 1.0F;
  EXPECT_TRUE(Traits::bind(p, args).ok());
  args.scales.data = both.data() + 64;
  args.y.data = both.data();
  EXPECT_TRUE(Traits::bind(p, args).ok());
  args.y.data = both.data() + 1;
  EXPECT_NE(Traits::bind(p, args).error().message.find("scales and y overlap"), std::string::npos);
}

}  // namespace
}  // namespace tern
