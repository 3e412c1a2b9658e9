// measure_quality() against a plain loop over the contract: the same bits for every type, format, shape and ISA.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/elements.h"
#include "device/isa.h"
#include "device/topology.h"
#include "format/format.h"
#include "format/ranges.h"
#include "lab/weights.h"
#include "ops/kernel.h"
#include "ops/ordered_sum.h"
#include "plan/quality.h"

namespace tern {
namespace {

// Sets TERN_MAX_ISA for one scope.
class MaxIsa {
 public:
  explicit MaxIsa(std::string_view level) { setenv("TERN_MAX_ISA", std::string(level).c_str(), 1); }
  ~MaxIsa() { unsetenv("TERN_MAX_ISA"); }
  MaxIsa(const MaxIsa&) = delete;
  MaxIsa& operator=(const MaxIsa&) = delete;
};

// The instruction sets of this processor, the lowest first.
std::vector<std::string_view> levels() {
  std::vector<std::string_view> found = {"scalar"};
  for (int i = 0; i < kCapabilityCount; ++i)
    if (const auto c = static_cast<Capability>(i); host_device().capabilities.has(c)) found.push_back(name(c));
  return found;
}

struct Measured {
  DType dtype;
  std::int64_t rows, k, stride;
  std::vector<std::byte> x;
  [[nodiscard]] ConstTensorView view() const {
    ConstTensorView v(x.data(), dtype, {rows, k});
    v.strides[0] = stride;
    return v;
  }
  [[nodiscard]] double at(std::int64_t i) const { return read_element(x.data(), dtype, i / k * stride + i % k); }
};

// Gaussians of widely different sizes, so that summing in another order gives other bits.
Measured made_up(DType dtype, std::int64_t rows, std::int64_t k, std::int64_t gap, lab::Random& random) {
  Measured m{dtype, rows, k, k + gap, {}};
  m.x.resize(static_cast<std::size_t>(rows * m.stride) * size_of(dtype));
  for (std::int64_t i = 0; i < rows * m.stride; ++i)
    write_element(m.x.data(), dtype, i,
                  static_cast<double>(random.gaussian()) * std::ldexp(1.0, static_cast<int>(random.below(12)) - 8));
  return m;
}

Quality plainly(const Measured& m, const QuantizedTensor& q) {
  const std::int64_t n = m.rows * m.k, line = row_bytes(q.format, m.k);
  const Ranges ranges = make_ranges(m.rows, m.k, q.granularity);
  const auto code = [&](std::int64_t i) {
    return read_code(q.format, q.quantized_data().data() + i / m.k * line, i % m.k);
  };
  const auto x = [&](std::int64_t i) { return saturated(m.at(i), m.dtype); };
  const auto y = [&](std::int64_t i) {
    const std::int64_t range = ranges.per_row == 0 ? 0 : i / m.k * ranges.per_row + i % m.k / ranges.len;
    const float scale = q.scale_values()[static_cast<std::size_t>(range)];
    if (m.dtype == DType::f64) return code(i) * static_cast<double>(scale);
    return static_cast<double>(static_cast<float>(code(i)) * scale);
  };
  const double xx = ordered_sum(n, [&](std::int64_t i) { return x(i) * x(i); });
  const double ee = ordered_sum(n, [&](std::int64_t i) { return (x(i) - y(i)) * (x(i) - y(i)); });
  const double xy = ordered_sum(n, [&](std::int64_t i) { return x(i) * y(i); });
  const double yy = ordered_sum(n, [&](std::int64_t i) { return y(i) * y(i); });
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < n; ++i) zeros += code(i) == 0 ? 1 : 0;
  Quality quality{.zero_fraction = static_cast<double>(zeros) / static_cast<double>(n)};
  if (xx > 0 && std::isfinite(xx))
    quality.sqnr_db = ee > 0 ? 10.0 * std::log10(xx / ee) : std::numeric_limits<double>::infinity();
  if (xx > 0 && yy > 0 && std::isfinite(xx)) quality.cosine = xy / (std::sqrt(xx) * std::sqrt(yy));
  return quality;
}

void expect_the_plain_bits(const Measured& m, const QuantizedTensor& q, NonFinite policy = NonFinite::reject) {
  const Quality want = plainly(m, q);
  for (const std::string_view level : levels()) {
    const MaxIsa limit(level);
    for (const int threads : {1, 3}) {
      const auto got = measure_quality(*Context::open(DeviceId{}, {.threads = threads}), m.view(), q, policy);
      ASSERT_TRUE(got.ok()) << got.error().str();
      const std::string what = fmt::format("{} {} x {} by {} to {}, stride {}, {} and {} threads", name(m.dtype),
                                           m.rows, m.k, name(q.granularity), name(q.format), m.stride, level, threads);
      ASSERT_EQ(got->sqnr_db, want.sqnr_db) << what;
      ASSERT_EQ(got->cosine, want.cosine) << what;
      ASSERT_EQ(got->zero_fraction, want.zero_fraction) << what;
    }
  }
}

class MeasureQuality : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, MeasureQuality, testing::Values(DType::f32, DType::f64, DType::f16, DType::bf16),
                         [](const auto& type) { return std::string(name(type.param)); });

TEST_P(MeasureQuality, HasThePlainBitsForEveryFormatShapeAndGranularity) {
  lab::Random random(5);
  const Context context = *Context::open(DeviceId{}, {.threads = 2});
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{1, 1},    {1, 3},    {3, 5},    {7, 31},  {5, 129},
                                                          {2, 1023}, {1, 1024}, {3, 1025}, {4, 512}, {67, 1030}};
  for (const auto& [rows, k] : shapes)
    for (const Format format : {Format::i2, Format::b3, Format::i8, Format::s2})
      for (const Granularity& granularity : {Granularity::tensor(), Granularity::row(), Granularity::group(7),
                                             Granularity::group(64), Granularity::group(128)}) {
        const Measured m = made_up(GetParam(), rows, k, random.below(2) * 3, random);
        const auto q = quantize(context, m.view(),
                                {.scheme = format == Format::s2 ? Scheme::int2 : Scheme::absmean,
                                 .granularity = granularity,
                                 .format = format});
        ASSERT_TRUE(q.ok()) << q.error().str();
        expect_the_plain_bits(m, *q);
        if (HasFatalFailure()) return;
      }
}

// More than 64 blocks, so that threads share them, and rows that begin inside a block.
TEST_P(MeasureQuality, HasThePlainBitsOfLongTensors) {
  lab::Random random(6);
  const Context context = *Context::open(DeviceId{}, {.threads = 2});
  for (const Granularity& granularity : {Granularity::tensor(), Granularity::group(128)}) {
    const Measured m = made_up(GetParam(), 149, 1345, 0, random);
    const auto q = quantize(context, m.view(), {.granularity = granularity});
    ASSERT_TRUE(q.ok()) << q.error().str();
    expect_the_plain_bits(m, *q);
  }
}

TEST_P(MeasureQuality, SaturatesOrRefusesWhatIsNotFinite) {
  lab::Random random(7);
  const Context context = *Context::open(DeviceId{}, {.threads = 2});
  Measured m = made_up(GetParam(), 5, 700, 2, random);
  const float one = 1;
  QuantizeOptions how{.scheme = Scheme::int2, .non_finite = NonFinite::saturate, .scale = {&one, 1}};
  const double infinity = std::numeric_limits<double>::infinity();
  write_element(m.x.data(), m.dtype, 3 * m.stride + 1, -infinity);
  write_element(m.x.data(), m.dtype, 2 * m.stride + 699, std::numeric_limits<double>::quiet_NaN());
  const auto q = quantize(context, m.view(), how);
  ASSERT_TRUE(q.ok()) << q.error().str();
  expect_the_plain_bits(m, *q, NonFinite::saturate);
  for (const std::string_view level : levels()) {
    const MaxIsa limit(level);
    EXPECT_EQ(measure_quality(context, m.view(), *q).code(), Code::non_finite) << level;
  }
  // The gaps between rows are not read.
  Measured gap = made_up(GetParam(), 5, 700, 2, random);
  for (std::int64_t row = 0; row < 5; ++row) write_element(gap.x.data(), gap.dtype, row * gap.stride + 700, infinity);
  const auto clean = quantize(context, gap.view());
  ASSERT_TRUE(clean.ok());
  expect_the_plain_bits(gap, *clean);
}

TEST(QualityLoops, AreThoseThatTheEnvironmentLeaves) {
  const auto table_of = [](std::string_view wanted) -> const void* {
    for (const Kernel& kernel : kernel_list())
      if (kernel.info.name == wanted) return kernel.entry.table;
    return nullptr;
  };
  for (const std::string_view level : levels()) {
    const MaxIsa limit(level);
    const auto instructions = usable_instructions();
    ASSERT_TRUE(instructions.ok()) << instructions.error().str();
    const QualityLoops loops = QualityLoops::of(*instructions);
    for (const std::string_view isa : {"scalar", "x86_sse41", "x86_avx2", "arm_neon"}) {
      if (isa != level) continue;
      EXPECT_EQ(loops.sums, table_of(fmt::format("ternary_quantize.i2.{}", isa)));
      EXPECT_EQ(loops.values, table_of(fmt::format("ternary_dequantize.i2.{}", isa)));
    }
  }
  const MaxIsa nonsense("x86_mmx");
  EXPECT_EQ(usable_instructions().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace tern
