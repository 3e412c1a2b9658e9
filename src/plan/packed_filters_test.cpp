// Filters packed from every layout convolve as their canonical codes do; what is wrong with filters is named.
#include <gtest/gtest.h>

#include "lab/conv2d_truth.h"
#include "ops/conv2d/filters.h"
#include "plan/run_once.h"
#include "tests/support/layout_cases.h"
#include "tests/support/linear_weights.h"

namespace tern {
namespace {

using lab::ConvCase;
using lab::ConvTruth;
using test::layout_cases;
using test::LayoutCase;
using test::message;

// The exact results of filters for the images of a case.
std::vector<std::byte> convolved(const Context& context, const ConvCase& c, const PackedFilters& filters) {
  auto plan = Conv2dPlan::select(context, c.problem);
  EXPECT_TRUE(plan.ok()) << message(plan);
  std::vector<std::byte> y(static_cast<std::size_t>(*element_count(c.y_shape())) * size_of(c.problem.y_dtype));
  const Status status = run_once(context, *plan,
                                 {.x = {c.x.data(), c.problem.x_dtype, c.x_shape()},
                                  .x_scales = {c.x_scales.data(), DType::f32, {c.problem.images}},
                                  .filters = filters,
                                  .y = {y.data(), c.problem.y_dtype, c.y_shape()}});
  EXPECT_TRUE(status.ok()) << message(status);
  return y;
}

// Filters of n rows of k weights, with a window where k has one.
FilterShape filters_of(std::int64_t n, std::int64_t k) {
  FilterShape shape{.out_channels = n, .in_channels = k, .groups = n % 2 == 0 ? 2 : 1};
  if (k % 9 == 0) shape = {n, k / 9, 3, 3, shape.groups};
  if (k % 9 != 0 && k % 2 == 0) shape = {n, k / 2, 1, 2, shape.groups};
  return shape;
}

TEST(PackedFilters, FromEveryLayoutConvolveAsCanonicalCodesDo) {
  lab::Random random(31);
  const Context context = test::open();
  std::vector<int> packed_layouts(16);
  for (const LayoutCase& l : layout_cases()) {
    if (l.n * l.k > 50'000) continue;
    const auto inside = scales_in(l.spec.layout);
    const Granularity granularity = inside.value_or(Granularity::row());
    if (granularity.kind == Granularity::Kind::group) {
      const auto refused = PackedFilters::pack(context, l.spec, std::vector<std::uint8_t>(), filters_of(l.n, l.k));
      EXPECT_EQ(message(refused),
                "unsupported: filters have one scale for all or one each, not scales by group:256 (PackedFilters)");
      continue;
    }
    const ConvCase c = lab::conv_case(random,
                                      {.images = 2,
                                       .height = 4,
                                       .width = 3,
                                       .filters = filters_of(l.n, l.k),
                                       .x_dtype = DType::i8,
                                       .granularity = granularity},
                                      lab::ConvData::random);
    ASSERT_EQ(c.k(), l.k);
    std::vector<std::uint8_t> bytes(*layout_bytes(l.spec, l.n, l.k));
    const ConstTensorView codes{c.codes.data(), DType::u8, {l.n, row_bytes(Format::i2, l.k)}};
    const std::span<const float> scales = c.w_scales;
    ASSERT_TRUE(export_rows(l.spec, codes, l.n, l.k, {0, l.n}, inside ? scales : std::span<const float>(), bytes).ok())
        << l.text();
    const auto packed = PackedFilters::pack(context, l.spec, bytes, c.problem.filters,
                                            inside ? std::span<const float>() : scales, granularity);
    ASSERT_TRUE(packed.ok()) << l.text() << message(packed);
    const auto canonical = c.pack(context);
    ASSERT_TRUE(canonical.ok()) << l.text() << message(canonical);
    EXPECT_EQ(packed->checksum(), canonical->checksum()) << l.text();
    EXPECT_EQ(packed->bytes(), canonical->bytes()) << l.text();
    EXPECT_EQ(packed->granularity(), granularity);
    EXPECT_EQ(packed->shape(), c.problem.filters);
    const std::vector<std::byte> want = ConvTruth(c).bits();
    EXPECT_TRUE(convolved(context, c, *packed) == want) << l.text();
    EXPECT_TRUE(convolved(context, c, *canonical) == want) << l.text();
    ++packed_layouts[static_cast<std::size_t>(l.spec.layout)];
  }
  for (std::size_t i = 0; i <= static_cast<std::size_t>(Layout::tl2); ++i) EXPECT_GT(packed_layouts[i], 0) << i;
}

TEST(PackedFilters, OfAQuantizedTensorHaveItsChecksumAndSize) {
  const Context context = test::open();
  std::vector<float> w;
  lab::Random random(32);
  for (int i = 0; i < 6 * 4 * 3 * 3; ++i) w.push_back(random.gaussian());
  const ConstTensorView view{w.data(), DType::f32, {6, 36}};
  for (const Format format : {Format::i2, Format::b3}) {
    const auto q = quantize(context, view, {.granularity = Granularity::row(), .format = format});
    ASSERT_TRUE(q.ok()) << message(q);
    const auto filters = PackedFilters::pack(context, *q, {6, 4, 3, 3});
    ASSERT_TRUE(filters.ok()) << message(filters);
    EXPECT_EQ(filters->checksum(), q->checksum());
    EXPECT_EQ(filters->format(), format);
    EXPECT_EQ(filters->bytes(), *PackedFilters::packed_bytes({6, 4, 3, 3}, Granularity::row(), format));
    EXPECT_NE(message(PackedFilters::pack(context, *q, {6, 5, 3, 3})), "ok");
  }
  const auto int2 = quantize(context, view, {.scheme = Scheme::int2});
  ASSERT_TRUE(int2.ok()) << message(int2);
  EXPECT_EQ(message(PackedFilters::pack(context, *int2, {6, 4, 3, 3})),
            "unsupported: s2 codes of scheme int2 are not packed trits; quantize to i2 or b3 (PackedFilters)");
  const auto grouped = quantize(context, view, {.granularity = Granularity::group(12)});
  ASSERT_TRUE(grouped.ok()) << message(grouped);
  EXPECT_EQ(message(PackedFilters::pack(context, *grouped, {6, 4, 3, 3})),
            "unsupported: filters have one scale for all or one each, not scales by group:12 (PackedFilters)");
}

TEST(PackedFilters, RefuseWhatIsWrongByName) {
  const Context context = test::open();
  const FilterShape shape{6, 4, 3, 3, 2};
  std::vector<std::uint8_t> codes(6 * 9, 0b01'01'01'01);
  std::vector<float> scales(6, 0.5F);
  std::int64_t rows = 6, bytes = 9, scale_count = 6;
  const auto pack = [&](const FilterShape& of, const Granularity& granularity = Granularity::row(),
                        Format format = Format::i2) {
    return PackedFilters::pack(context, {codes.data(), DType::u8, {rows, bytes}},
                               {scales.data(), DType::f32, {scale_count}}, of, granularity, format);
  };
  ASSERT_TRUE(pack(shape).ok()) << message(pack(shape));
  EXPECT_EQ(message(pack({6, 4, 3, 3, 4})),
            "invalid_argument: filters of [6, 4, 3, 3] in 4 groups: the groups do not divide the output channels "
            "(PackedFilters)");
  for (const FilterShape& wrong : {FilterShape{0, 4, 3, 3}, FilterShape{6, -4, 3, 3}, FilterShape{6, 4, 0, 3},
                                   FilterShape{6, 4, 3, 0}, FilterShape{6, 4, 3, 3, 0}})
    EXPECT_NE(message(pack(wrong)).find("every size must be 1 or more"), std::string::npos);
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  for (const FilterShape& wrong :
       {FilterShape{kHuge, 4, 3, 3}, FilterShape{6, kHuge, 3, 3}, FilterShape{6, kHuge, kHuge, kHuge}})
    EXPECT_NE(message(pack(wrong)).find("that is more than 2^30 along an axis, or 2^50 weights"), std::string::npos);
  EXPECT_EQ(message(pack(shape, Granularity::group(4))),
            "unsupported: filters have one scale for all or one each, not scales by group:4 (PackedFilters)");
  EXPECT_EQ(message(pack(shape, Granularity::row(), Format::s2)),
            "unsupported: filters are i2, b3, s8 or s4, not s2 (PackedFilters)");
  const auto refused = [&](std::string_view part) {
    const auto made = pack(shape);
    EXPECT_NE(message(made).find(part), std::string::npos) << message(made);
  };
  bytes = 10;
  refused("codes");
  bytes = 9;
  rows = 5;
  refused("codes");
  rows = 6;
  scale_count = 5;
  refused("scales");
  scale_count = 6;
  scales[4] = -1;
  refused("invalid_scale");
  scales[4] = 1;
  codes[9 * 4 + 5] = 0b01'01'11'01;
  refused("codes[4, 21]");
  EXPECT_EQ(pack(shape).code(), Code::invalid_quantized_value);
  EXPECT_EQ(pack(shape).error().index, 4 * 36 + 21);
  codes[9 * 2] = 0b11'01'01'01;  // the first one is named
  refused("codes[2, 3]");
}

TEST(PackedFilters, OfALayoutRefuseWhatIsWrongByName) {
  const Context context = test::open();
  const FilterShape shape{4, 32, 2, 2};
  std::vector<std::uint8_t> bytes(*layout_bytes(Layout::i2_s_x86_128, 4, 128), 0b01'01'01'01);
  const float scale = 0.5F;
  std::memcpy(bytes.data() + 128, &scale, sizeof(scale));
  const auto pack = [&](const FilterShape& of, std::size_t size, std::span<const float> scales = {}) {
    return message(PackedFilters::pack(context, Layout::i2_s_x86_128, std::span(bytes).first(size), of, scales));
  };
  ASSERT_EQ(pack(shape, bytes.size()), "ok");
  EXPECT_NE(pack(shape, bytes.size() - 1).find(std::to_string(bytes.size() - 1)), std::string::npos);
  EXPECT_EQ(pack(shape, bytes.size(), std::span(&scale, 1)),
            "invalid_argument: i2_s.x86_128 has its scales in its bytes; 1 more were given (PackedFilters)");
  EXPECT_EQ(pack({4, 32, 2, 1}, bytes.size()).find("unsupported: "), 0U);  // rows of 64
  bytes[32] = 0b11'01'01'01;
  EXPECT_EQ(pack(shape, bytes.size()).find("invalid_quantized_value: "), 0U);
  EXPECT_EQ(message(PackedFilters::pack(context, Layout::i2, std::span(bytes).first(128), shape, std::span(&scale, 1),
                                        Granularity::row())),
            "invalid_argument: 4 filters by row have 4 scales, 1 were given (PackedFilters)");
}

TEST(PackedFilters, OfNothingAreEmpty) {
  const PackedFilters none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.bytes(), 0U);
  EXPECT_EQ(none.checksum(), 0U);
  EXPECT_EQ(none.shape(), FilterShape());
  EXPECT_EQ(none.format(), Format::i2);
  EXPECT_EQ(none.granularity(), Granularity());
}

TEST(PackedFilters, OnAGpuAreUnsupported) {
  const auto gpu = Context::open(DeviceId{DeviceKind::cuda, 0});
  if (!gpu.ok()) GTEST_SKIP() << message(gpu);
  std::uint8_t code = 0b01'01'01'01;
  float scale = 1;
  const auto refused = PackedFilters::pack(*gpu, {&code, DType::u8, {1, 1}}, {&scale, DType::f32, {1}}, {1, 4, 1, 1},
                                           Granularity::tensor());
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(message(refused).find("conv2d has no kernels for GPUs yet"), std::string::npos);
}

}  // namespace
}  // namespace tern
