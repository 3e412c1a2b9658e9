// ternary_quantize on views of every layout: strided rows, odd addresses, folded axes; and what it refuses.
#include <gtest/gtest.h>

#include <cmath>

#include "lab/weights.h"
#include "tests/support/quantize_runner.h"

namespace tern {
namespace {

using lab::Random;
using test::describe;
using test::NamedKernel;
using test::run_quantize;
using Problem = TernaryQuantize::Problem;
using Args = TernaryQuantize::Args;
using Traits = OpTraits<TernaryQuantize>;

constexpr std::string_view kOp = "ternary_quantize";

Status run_params(const KernelEntry& entry, const ternary_quantize::Params& params, int threads) {
  const Threads& pool = test::pool_of(threads);
  alignas(64) static thread_local std::byte workspace[256 * 1024];
  EXPECT_LE(entry.workspace_bytes(entry.table, &params.problem, threads), sizeof workspace);
  return entry.run(entry.table, &params, {pool, workspace});
}

TEST(QuantizeLayout, StridedRowsAndOddAddresses) {
  Random random(1);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const Format format : {Format::i2, Format::i8, Format::b3})
      for (const std::int64_t k : {1, 5, 32, 100, 1025, 3000})
        for (const Granularity g :
             {Granularity::tensor(), Granularity::row(), Granularity::group(32), Granularity::group(7)})
          for (const NonFinite policy : {NonFinite::reject, NonFinite::saturate}) {
            Problem p{.rows = 4, .k = k, .dtype = dtype, .granularity = g, .format = format};
            p.non_finite = policy;
            std::vector<float> dense(static_cast<std::size_t>(4 * k));
            lab::fill_weights(lab::Pattern::order, random, dense.data(), 4 * k);
            if (policy == NonFinite::saturate && dtype != DType::f64) dense[dense.size() / 2] = HUGE_VALF;
            const auto want = run_quantize(test::reference_kernel(kOp, format), p, dense);
            ASSERT_TRUE(want.status.ok()) << want.status.error().str();

            const std::int64_t x_stride = k + 3, bytes = row_bytes(format, k), c_stride = bytes + 5;
            std::vector<std::uint8_t> x_bytes(static_cast<std::size_t>(4 * x_stride) * size_of(dtype) + 1);
            std::uint8_t* x = x_bytes.data() + 1;  // an odd address
            for (std::int64_t i = 0; i < 4 * k; ++i)
              write_element(x, dtype, i / k * x_stride + i % k, dense[static_cast<std::size_t>(i)]);
            for (const NamedKernel& kernel : test::runnable_kernels(kOp, format)) {
              std::vector<std::uint8_t> codes(static_cast<std::size_t>(4 * c_stride), 0xEE);
              std::vector<std::uint8_t> scales(want.scales.size() * 4 + 1, 0xEE);
              auto params = Traits::bind(
                  p, {.x = {x, dtype, {4, k}, {x_stride, 1}, {}},
                      .codes = {codes.data(), code_dtype(format), {4, bytes}, {c_stride, 1}, {}},
                      .scales = {scales.data() + 1, DType::f32, {static_cast<std::int64_t>(want.scales.size())}}});
              ASSERT_TRUE(params.ok()) << params.error().str();
              ASSERT_TRUE(run_params(kernel.entry, *params, 2).ok());
              for (std::int64_t row = 0; row < 4; ++row)
                for (std::int64_t i = 0; i < c_stride; ++i)
                  ASSERT_EQ(codes[static_cast<std::size_t>(row * c_stride + i)],
                            i < bytes ? want.codes[static_cast<std::size_t>(row * bytes + i)] : 0xEE)
                      << kernel.name << ' ' << describe(p) << ' ' << row << ' ' << i;
              ASSERT_EQ(std::memcmp(scales.data() + 1, want.scales.data(), want.scales.size() * 4), 0) << kernel.name;
            }
          }
}

TEST(QuantizeLayout, LeadingAxesFoldIntoRows) {
  std::vector<float> x(2 * 3 * 8);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2.0F;
  std::vector<std::uint8_t> codes(12);
  std::vector<float> scales(6);
  const Problem p{.rows = 6, .k = 8, .granularity = Granularity::row(), .format = Format::i2};
  EXPECT_TRUE(Traits::bind(p, {.x = {x.data(), DType::f32, {2, 3, 8}},
                               .codes = {codes.data(), DType::u8, {6, 2}},
                               .scales = {scales.data(), DType::f32, {6, 1}}})
                  .ok());
}

// What bind() returns for arguments that differ from good ones in one thing.
class Refusals : public ::testing::Test {
 protected:
  std::vector<float> x = std::vector<float>(64, 1.0F);
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(64);
  std::vector<float> scales = std::vector<float>(4);
  std::vector<float> given = std::vector<float>(4, 1.0F);
  Problem p{.rows = 4,
            .k = 16,
            .scheme = Scheme::int2,
            .granularity = Granularity::row(),
            .format = Format::s2,
            .scale_given = true};
  Args args{.x = {x.data(), DType::f32, {4, 16}},
            .codes = {codes.data(), DType::u8, {4, 4}},
            .scales = {scales.data(), DType::f32, {4}},
            .given_scale = {given.data(), DType::f32, {4}}};

  void expect(Code code, const std::string& part) {
    auto facts = Traits::facts(p);
    Status status;
    if (!facts.ok()) {
      status = std::move(facts).error();
    } else {
      auto params = Traits::bind(p, args);
      ASSERT_FALSE(params.ok()) << "expected: " << part;
      status = std::move(params).error();
    }
    EXPECT_EQ(status.code(), code) << status.error().str();
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().str() << "\nexpected: " << part;
  }
};

TEST_F(Refusals, GoodArgumentsPass) { EXPECT_TRUE(Traits::bind(p, args).ok()); }
TEST_F(Refusals, Null) {
  args.x.data = nullptr;
  expect(Code::invalid_argument, "x is null");
}
TEST_F(Refusals, WrongDtype) {
  args.x.dtype = DType::f16;
  expect(Code::invalid_argument, "x is f16, the problem says f32");
}
TEST_F(Refusals, WrongShape) {
  args.x = {x.data(), DType::f32, {4, 15}};
  expect(Code::invalid_argument, "x is [4, 15]: 60 elements, the problem needs 64");
}
TEST_F(Refusals, WrongLastAxis) {
  args.x = {x.data(), DType::f32, {8, 8}};
  expect(Code::invalid_argument, "its last axis is 8, the problem says 16");
}
TEST_F(Refusals, StridedLastAxis) {
  args.x = {x.data(), DType::f32, {4, 16}, {32, 2}, {}};
  expect(Code::invalid_argument, "stride 2 along its last axis");
}
TEST_F(Refusals, NegativeStride) {
  args.x = {x.data(), DType::f32, {4, 16}, {-16, 1}, {}};
  expect(Code::invalid_argument, "negative stride -16");
}
TEST_F(Refusals, RowsThatOverlapEachOther) {
  args.codes = {codes.data(), DType::u8, {4, 4}, {2, 1}, {}};
  expect(Code::invalid_argument, "rows of 4 elements only 2 apart");
}
TEST_F(Refusals, UnevenRows) {
  args.x = {x.data(), DType::f32, {2, 2, 16}, {40, 16, 1}, {}};
  expect(Code::invalid_argument, "not a set of evenly spaced rows");
}
TEST_F(Refusals, ShortCodes) {
  args.codes = {codes.data(), DType::u8, {4, 3}};
  expect(Code::invalid_argument, "codes is [4, 3]");
}
TEST_F(Refusals, WrongScaleCount) {
  args.scales = {scales.data(), DType::f32, {3}};
  expect(Code::invalid_argument, "scales is [3]: 3 elements, the problem needs 4");
}
TEST_F(Refusals, Overlap) {
  args.codes.data = x.data() + 8;
  expect(Code::invalid_argument, "x and codes overlap");
}
TEST_F(Refusals, OverlapOfScales) {
  args.scales.data = x.data();
  expect(Code::invalid_argument, "x and scales overlap");
}
TEST_F(Refusals, GivenScales) {
  for (const float bad : {0.0F, -1.0F, std::nanf(""), HUGE_VALF}) {
    given[2] = bad;
    expect(Code::invalid_scale, "given_scale[2] is ");
  }
}
TEST_F(Refusals, GivenScaleForAnotherScheme) {
  p.scheme = Scheme::absmean;
  p.format = Format::i2;
  expect(Code::invalid_argument, "absmean computes its own; only int2 takes one");
}
TEST_F(Refusals, SchemeInTheWrongFormat) {
  p.format = Format::i2;
  expect(Code::invalid_argument, "int2 codes do not go into i2; take s2 or i8");
}
TEST_F(Refusals, Group) {
  for (const std::int64_t size : {0, -5}) {
    p.granularity = Granularity::group(size);
    expect(Code::invalid_argument, "it must be at least 1");
  }
}
TEST_F(Refusals, NegativeSizes) {
  p.rows = -4;
  expect(Code::invalid_argument, "rows is -4");
  p.rows = 4;
  p.k = -1;
  expect(Code::invalid_argument, "k is -1");
}
TEST_F(Refusals, SizesThatOverflow) {
  p.rows = std::int64_t{1} << 40;
  p.k = std::int64_t{1} << 40;
  expect(Code::invalid_argument, "more than 2^63 - 1 bytes");
  p.rows = std::int64_t{1} << 31;
  p.k = std::int64_t{1} << 31;  // elements fit, bytes do not
  expect(Code::invalid_argument, "more than 2^63 - 1 bytes");
}
TEST_F(Refusals, AnotherDevice) {
  args.x.device = {DeviceKind::cuda, 0};
  expect(Code::invalid_argument, "x lies on cuda:0");
}

}  // namespace
}  // namespace tern
