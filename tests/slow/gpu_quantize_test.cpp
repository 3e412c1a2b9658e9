// The GPU's quantization ops give the same bits as the CPU's at every size that matters, up to more than 2^31 elements.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/elements.h"
#include "format/format.h"
#include "format/ranges.h"
#include "lab/random_weights.h"
#include "lab/weights.h"
#include "plan/context_state.h"
#include "plan/run_once.h"
#include "tern/linear.h"
#include "tern/quantize.h"
#include "tests/support/gpu_fixture.h"

namespace tern {
namespace {

using Problem = TernaryQuantize::Problem;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Outputs {
  Tensor codes, scales;
  Status status;
};

class GpuQuantize : public test::GpuTest {
 protected:
  static Tensor make(DType dtype, const Shape& shape) { return *Tensor::allocate(host_memory(), dtype, shape); }

  Outputs run(const Context& context, const Problem& p, const Tensor& x, const std::string& kernel = {}) const {
    auto plan = TernaryQuantizePlan::select(context, p, {.kernel = kernel, .strict = !kernel.empty()});
    EXPECT_TRUE(plan.ok()) << plan.error().str();
    const std::int64_t ranges = make_ranges(p.rows, p.k, p.granularity).total;
    Outputs out;
    out.codes = *context.allocate(code_dtype(p.format), {p.rows, row_bytes(p.format, p.k)});
    out.scales = *context.allocate(DType::f32, {ranges});
    out.status = run_once(context, *plan, {.x = x.view(), .codes = out.codes.view(), .scales = out.scales.view()});
    return out;
  }

  void expect_same(const Problem& p, const Tensor& x, const std::string& kernel = {}) const {
    auto there = x.to(*gpu_);
    ASSERT_TRUE(there.ok()) << there.error().str();
    const Outputs got = run(*gpu_, p, *there, kernel), want = run(*cpu_, p, x);
    const std::string what = std::string(name(p.dtype)) + " " + std::string(name(p.scheme)) + " " +
                             name(p.granularity) + " " + std::string(name(p.format)) + " " + std::to_string(p.rows) +
                             "x" + std::to_string(p.k) + " " + kernel;
    ASSERT_EQ(got.status.code(), want.status.code()) << what;
    if (!want.status.ok()) {
      ASSERT_EQ(got.status.error().index, want.status.error().index) << what;
      return;
    }
    const Tensor codes = *got.codes.to(*cpu_), scales = *got.scales.to(*cpu_);
    ASSERT_TRUE(scales.bytes() == 0 || std::memcmp(scales.data(), want.scales.data(), scales.bytes()) == 0) << what;
    ASSERT_TRUE(codes.bytes() == 0 || std::memcmp(codes.data(), want.codes.data(), codes.bytes()) == 0) << what;
  }
};

constexpr DType kDtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
constexpr std::pair<Scheme, Format> kPairs[] = {{Scheme::absmean, Format::i2}, {Scheme::absmax, Format::i2},
                                                {Scheme::mse, Format::i2},     {Scheme::int2, Format::s2},
                                                {Scheme::absmean, Format::b3}, {Scheme::absmax, Format::i8}};

// All combinations, with one row or four, on every kind of data.
TEST_F(GpuQuantize, EveryTypeSchemeGranularityAndSize) {
  lab::Random random(1);
  for (const std::int64_t size : {0, 1, 7, 1'024, 10'000, 1'000'003})
    for (const DType dtype : kDtypes)
      for (const auto& [scheme, format] : kPairs)
        for (const Granularity g : {Granularity::tensor(), Granularity::row(), Granularity::group(128),
                                    Granularity::group(32), Granularity::group(100)})
          for (const lab::Pattern pattern : lab::kPatterns) {
            if (size > 10'000 && pattern != lab::Pattern::gaussian && pattern != lab::Pattern::order) continue;
            const std::int64_t rows = size % 1000 == 0 && size > 0 ? 4 : 1;
            const Problem p{
                .rows = rows, .k = size / rows, .dtype = dtype, .scheme = scheme, .granularity = g, .format = format};
            std::vector<float> values(static_cast<std::size_t>(size));
            lab::fill_weights(pattern, random, values.data(), size);
            const Tensor x = make(dtype, {rows, p.k});
            for (std::int64_t i = 0; i < size; ++i) {
              write_element(x.data(), dtype, i, values[static_cast<std::size_t>(i)]);
              write_element(x.data(), dtype, i, saturated(read_element(x.data(), dtype, i), dtype));
            }
            expect_same(p, x);
            if (HasFatalFailure()) return;
          }
}

TEST_F(GpuQuantize, NonFiniteUnderBothPolicies) {
  for (const DType dtype : kDtypes)
    for (const auto& [scheme, format] : kPairs)
      for (const Granularity g : {Granularity::tensor(), Granularity::row(), Granularity::group(128)})
        for (const double bad : {std::nan(""), kInf, -kInf})
          for (const NonFinite policy : {NonFinite::reject, NonFinite::saturate}) {
            Problem p{.rows = 3, .k = 5000, .dtype = dtype, .scheme = scheme, .granularity = g, .format = format};
            p.non_finite = policy;
            const Tensor x = make(dtype, {3, 5000});
            lab::fill_random_weights(cpu_->state().threads, 5, dtype, x.data(), 15'000);
            for (const std::int64_t at : {14'999, 7'777, 7'778}) write_element(x.data(), dtype, at, bad);
            expect_same(p, x);
            if (HasFatalFailure()) return;
          }
}

// 2^28 elements, and more than 2^31; one scheme for each granularity.
TEST_F(GpuQuantize, LargeTensors) {
  const std::pair<Granularity, Scheme> cases[] = {{Granularity::tensor(), Scheme::absmean},
                                                  {Granularity::row(), Scheme::absmean},
                                                  {Granularity::group(128), Scheme::absmax}};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t rows : {std::int64_t{65'536}, (std::int64_t{1} << 19) + 3}) {
      const Tensor x = make(dtype, {rows, 4096});
      lab::fill_random_weights(cpu_->state().threads, 9, dtype, x.data(), rows * 4096);
      for (const auto& [granularity, scheme] : cases) {
        expect_same({.rows = rows, .k = 4096, .dtype = dtype, .scheme = scheme, .granularity = granularity}, x);
        if (HasFatalFailure()) return;
      }
      // The same elements as one row.
      if (rows == 65'536) {
        const Problem one{.rows = 1, .k = rows * 4096, .dtype = dtype, .granularity = Granularity::row()};
        const Tensor flat = make(dtype, {1, one.k});
        std::memcpy(flat.data(), x.data(), x.bytes());
        expect_same(one, flat);
      }
      auto q = quantize(*cpu_, x.view(), {.granularity = Granularity::group(128)});
      auto want = dequantize(*cpu_, *q, dtype), got = dequantize(*gpu_, *q, dtype);
      ASSERT_TRUE(want.ok() && got.ok()) << got.error().str();
      EXPECT_EQ(std::memcmp(got->data(), want->data(), want->bytes()), 0);
    }
}

TEST_F(GpuQuantize, ActivationsOfManyTokens) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const auto& [m, k] :
         {std::pair<std::int64_t, std::int64_t>{4096, 4096}, {70'001, 33}, {3, 1'000'003}, {1, 2560}}) {
      const ActivationQuantize::Problem p{.m = m, .k = k, .dtype = dtype};
      const Tensor x = make(dtype, {m, k});
      lab::fill_random_weights(cpu_->state().threads, 11, dtype, x.data(), m * k);
      const auto run_on = [&](const Context& context, const Tensor& in) {
        auto plan = ActivationQuantizePlan::select(context, p);
        std::vector<Tensor> out;
        out.push_back(*context.allocate(DType::i8, {m, k}));
        out.push_back(*context.allocate(DType::f32, {m}));
        out.push_back(*context.allocate(DType::i32, {m}));
        EXPECT_TRUE(run_once(context, *plan,
                             {.x = in.view(), .q = out[0].view(), .scales = out[1].view(), .sums = out[2].view()})
                        .ok());
        return out;
      };
      const auto want = run_on(*cpu_, x), got = run_on(*gpu_, *x.to(*gpu_));
      for (std::size_t i = 0; i < 3; ++i) {
        const Tensor back = *got[i].to(*cpu_);
        ASSERT_EQ(std::memcmp(back.data(), want[i].data(), back.bytes()), 0)
            << name(dtype) << ' ' << m << ' ' << k << ' ' << i;
      }
    }
}

}  // namespace
}  // namespace tern
