// Every affine_quantize kernel, and the loops at every width, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "lab/affine_problems.h"
#include "ops/affine_quantize/affine_quantize.h"
#include "ops/affine_quantize/generic.h"
#include "tests/support/affine_golden.h"
#include "tests/support/quantize_runner.h"

namespace tern {
namespace {

using lab::AffineInput;
using lab::Random;
using test::Guarded;
using test::NamedKernel;
using Problem = AffineQuantize::Problem;

std::vector<NamedKernel> all_kernels(Format format) {
  return test::kernels_and_loops<affine_quantize::Loops>("affine_quantize", format);
}
KernelEntry reference(Format format) { return test::reference_kernel("affine_quantize", format); }

struct Codes {
  Status status;
  std::vector<std::uint8_t> bytes;
};

// `gap` bytes lie between rows of codes. x is dense unless `strides` is given.
Codes run(const KernelEntry& entry, const AffineInput& in, int threads = 1, std::int64_t gap = 0,
          const Shape* strides = nullptr) {
  const Problem& p = in.problem;
  Codes out;
  if (auto facts = OpTraits<AffineQuantize>::facts(p); !facts.ok()) {
    out.status = std::move(facts).error();
    return out;
  }
  const std::int64_t rows = affine::rows_of(p.shape), bytes = row_bytes(p.format, affine::last_of(p.shape));
  Guarded<std::byte> x(in.x.size()), scales(in.scales.size());
  Guarded<std::int32_t> zero_points(in.zero_points.size());
  std::copy(in.x.begin(), in.x.end(), x.data());
  std::copy(in.scales.begin(), in.scales.end(), scales.data());
  std::copy(in.zero_points.begin(), in.zero_points.end(), zero_points.data());
  Guarded<std::uint8_t> codes(static_cast<std::size_t>(rows * (bytes + gap) - (rows > 0 ? gap : 0)));
  const auto count = static_cast<std::int64_t>(in.scales.size() / size_of(p.scale_dtype));
  const AffineQuantize::Args args{
      .x = {x.data(), p.dtype, p.shape, strides == nullptr ? dense_strides(p.shape) : *strides, {}},
      .scales = {scales.data(), p.scale_dtype, {count}},
      .zero_points = {zero_points.data(), DType::i32, {static_cast<std::int64_t>(in.zero_points.size())}},
      .codes = {codes.data(), code_dtype(p.format), {rows, bytes}, {bytes + gap, 1}, {}}};
  auto params = OpTraits<AffineQuantize>::bind(p, args);
  if (!params.ok()) {
    out.status = std::move(params).error();
    return out;
  }
  if (!OpTraits<AffineQuantize>::empty(*params)) out.status = test::run_entry(entry, p, *params, threads);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint8_t* from = codes.data() + row * (bytes + gap);
    out.bytes.insert(out.bytes.end(), from, from + bytes);
    for (std::int64_t i = 0; i < gap && row + 1 < rows; ++i) EXPECT_EQ(from[bytes + i], 0xEE) << "between rows";
  }
  return out;
}

// One line of f32 with one scale.
AffineInput line(const std::vector<float>& x, float scale, std::optional<int> zero_point = {},
                 Format format = Format::s8) {
  AffineInput in;
  in.problem = {
      .shape = {static_cast<std::int64_t>(x.size())}, .format = format, .zero_points = zero_point.has_value()};
  in.x.resize(4 * x.size());
  std::memcpy(in.x.data(), x.data(), in.x.size());
  in.scales.resize(4);
  std::memcpy(in.scales.data(), &scale, 4);
  if (zero_point) in.zero_points = {*zero_point};
  return in;
}
std::vector<int> codes_of(const AffineInput& in, const Codes& codes) {
  std::vector<int> out;
  for (std::int64_t i = 0; i < affine::last_of(in.problem.shape); ++i)
    out.push_back(read_code(in.problem.format, codes.bytes.data(), i));
  return out;
}

TEST(AffineQuantize, EveryFormatTypeAndGranularity) {
  Random random(1);
  for (const Format format : lab::kAffineFormats) {
    const auto kernels = all_kernels(format);
    for (const DType dtype : lab::kFloatTypes)
      for (int repetition = 0; repetition < 40; ++repetition) {
        const AffineInput in = lab::random_affine(random, dtype, format);
        const Codes want = run(reference(format), in);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str() << ' ' << lab::describe(in.problem);
        for (const NamedKernel& kernel : kernels) {
          const Codes got = run(kernel.entry, in, 1 + static_cast<int>(random.below(3)), random.below(3));
          ASSERT_TRUE(got.status.ok()) << got.status.error().str();
          ASSERT_EQ(got.bytes, want.bytes) << kernel.name << ' ' << lab::describe(in.problem);
        }
      }
  }
}

// All 65,536 values of f16 and of bf16, non-finite ones saturated, in every format with several scales and zero points.
TEST(AffineQuantize, EveryHalfThereIs) {
  AffineInput in;
  in.x.resize(2 * 65536);
  for (std::uint32_t h = 0; h < 65536; ++h) store_element(in.x.data(), h, static_cast<std::uint16_t>(h));
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const Format format : lab::kAffineFormats) {
      const CodeRange q = code_range(format);
      const auto kernels = all_kernels(format);
      for (const float scale : {1.0F, 0.0173F, 3e-7F, 511.7F})
        for (const int zero_point : {q.min, q.max, (q.min + q.max) / 2 | 1})
          for (const AffineMath math : {AffineMath::division, AffineMath::reciprocal}) {
            in.problem = {.shape = {65536},
                          .dtype = dtype,
                          .format = format,
                          .zero_points = true,
                          .math = math,
                          .non_finite = NonFinite::saturate};
            in.scales.resize(4);
            std::memcpy(in.scales.data(), &scale, 4);
            in.zero_points = {zero_point};
            const Codes want = run(reference(format), in);
            ASSERT_TRUE(want.status.ok()) << want.status.error().str();
            for (const NamedKernel& kernel : kernels)
              ASSERT_TRUE(run(kernel.entry, in).bytes == want.bytes)
                  << kernel.name << ' ' << lab::describe(in.problem) << ' ' << scale << ' ' << zero_point;
          }
    }
}

TEST(AffineQuantize, TiesZerosAndExtremes) {
  const float top = std::numeric_limits<float>::max(), tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> x = {0.5F, 1.5F,  2.5F, -0.5F, -1.5F,  -0.0F,  0.0F,
                                tiny, -tiny, top,  -top,  126.5F, 127.5F, -128.5F};
  const std::vector<int> even = {0, 2, 2, 0, -2, 0, 0, 0, 0, 127, -128, 126, 127, -128};
  // The odd zero point is added after rounding: 0.5 gives 0 + 3, not rne(3.5) = 4.
  const std::vector<int> odd = {3, 5, 5, 3, 1, 3, 3, 3, 3, 127, -128, 127, 127, -125};
  for (const NamedKernel& kernel : all_kernels(Format::s8)) {
    EXPECT_EQ(codes_of(line(x, 1.0F), run(kernel.entry, line(x, 1.0F))), even) << kernel.name;
    EXPECT_EQ(codes_of(line(x, 1.0F, 3), run(kernel.entry, line(x, 1.0F, 3))), odd) << kernel.name;
  }
  EXPECT_EQ(codes_of(line(x, 1.0F, 3), run(reference(Format::s8), line(x, 1.0F, 3))), odd);
  // A quotient that overflows gives the end of the range.
  const auto far = line({1e30F, -1e30F}, 1e-30F);
  for (const NamedKernel& kernel : all_kernels(Format::s8))
    EXPECT_EQ(codes_of(far, run(kernel.entry, far)), (std::vector<int>{127, -128})) << kernel.name;
}

// Inputs for which the three ways to divide round differently, found among ties with scales of three digits.
TEST(AffineQuantize, TheThreeMathsDiffer) {
  struct {
    float x, s;
    int division, reciprocal, torch_cuda;
  } const cases[] = {{0x1.bef5c4p+3F, 0x1.828f5cp-1F, 19, 18, 19},
                     {-0x1.de147ap+0F, 0x1.fdf3b6p-3F, -8, -7, -7},
                     {0x1.22a3d8p+3F, 0x1.bae148p-1F, 10, 11, 11},
                     {0x1.cce148p+3F, 0x1.a56042p-1F, 18, 18, 17}};
  for (const auto& c : cases)
    for (const auto& [math, code] :
         {std::pair{AffineMath::division, c.division}, std::pair{AffineMath::reciprocal, c.reciprocal},
          std::pair{AffineMath::torch_cuda, c.torch_cuda}}) {
      AffineInput in = line(std::vector<float>(70, c.x), c.s);
      in.problem.math = math;
      auto kernels = all_kernels(Format::s8);
      kernels.push_back({"reference", reference(Format::s8)});
      for (const NamedKernel& kernel : kernels)
        EXPECT_EQ(codes_of(in, run(kernel.entry, in)), std::vector<int>(70, code)) << kernel.name << ' ' << name(math);
    }
}

// Strides that permute the axes of x, skip every second element, or repeat one row (stride 0).
TEST(AffineQuantize, AnyStrides) {
  Random random(4);
  for (const DType dtype : lab::kFloatTypes)
    for (const Format format : lab::kAffineFormats)
      for (const Shape& strides : {Shape{1, 50, 10}, Shape{1000, 100, 2}, Shape{0, 70, 1}, Shape{600, 1, 90}}) {
        AffineInput in = lab::random_affine(random, dtype, format);
        while (in.problem.granularity.kind == AffineGranularity::Kind::channel)
          in = lab::random_affine(random, dtype, format);
        Problem& p = in.problem;
        p.shape = {3, 5, 50};
        p.granularity = random.below(2) == 0 ? AffineGranularity::tensor() : AffineGranularity::group(7, 1);
        const std::int64_t count = *affine_scale_count(p.shape, p.granularity);
        in.scales.resize(static_cast<std::size_t>(count) * size_of(p.scale_dtype));
        for (std::int64_t i = 0; i < count; ++i)
          write_element(in.scales.data(), p.scale_dtype, i, 0.25 + 0.001 * static_cast<double>(i));
        if (p.zero_points) in.zero_points.assign(static_cast<std::size_t>(count), code_range(format).max);
        if (p.zero_points) p.q_min = p.q_max = std::nullopt;
        in.x.assign(6000 * size_of(dtype), std::byte{});
        for (std::int64_t i = 0; i < 6000; ++i)
          write_element(in.x.data(), dtype, i, 3.0 * static_cast<double>(random.gaussian()));
        const Codes want = run(reference(format), in, 1, 0, &strides);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str();
        for (const NamedKernel& kernel : all_kernels(format))
          ASSERT_EQ(run(kernel.entry, in, 2, 0, &strides).bytes, want.bytes)
              << kernel.name << ' ' << lab::describe(p) << ' ' << name(strides);
      }
}

TEST(AffineQuantize, NonFiniteIsNamedOrSaturated) {
  for (const DType dtype : lab::kFloatTypes) {
    AffineInput in;
    in.problem = {.shape = {4, 70}, .granularity = AffineGranularity::group(32), .dtype = dtype};
    in.x.resize(280 * size_of(dtype));
    for (std::int64_t i = 0; i < 280; ++i) write_element(in.x.data(), dtype, i, static_cast<double>(i % 9));
    write_element(in.x.data(), dtype, 139, std::numeric_limits<double>::quiet_NaN());
    write_element(in.x.data(), dtype, 200, -HUGE_VAL);
    in.scales.resize(12 * 4);
    for (int i = 0; i < 12; ++i) write_element(in.scales.data(), DType::f32, i, 0.5);
    auto kernels = all_kernels(Format::s8);
    kernels.push_back({"reference", reference(Format::s8)});
    for (const NamedKernel& kernel : kernels) {
      in.problem.non_finite = NonFinite::reject;
      const Codes refused = run(kernel.entry, in);
      ASSERT_EQ(refused.status.code(), Code::non_finite) << kernel.name;
      EXPECT_EQ(refused.status.error().index, 139) << kernel.name;
      in.problem.non_finite = NonFinite::saturate;
      const Codes got = run(kernel.entry, in);
      ASSERT_TRUE(got.status.ok()) << kernel.name;
      EXPECT_EQ(got.bytes[139], 0) << kernel.name;
      EXPECT_EQ(static_cast<std::int8_t>(got.bytes[200]), -128) << kernel.name;
      EXPECT_EQ(got.bytes[201], 2 * (201 % 9)) << kernel.name;
    }
  }
}

TEST(AffineQuantize, LongLinesOnSeveralThreads) {
  Random random(5);
  for (const Format format : {Format::s8, Format::s4}) {
    AffineInput in;
    in.problem = {.shape = {3, 100'003}, .granularity = AffineGranularity::group(128), .format = format};
    in.x.resize(4 * 300'009);
    for (std::int64_t i = 0; i < 300'009; ++i)
      write_element(in.x.data(), DType::f32, i, static_cast<double>(random.gaussian()));
    in.scales.resize(static_cast<std::size_t>(4 * *affine_scale_count(in.problem.shape, in.problem.granularity)));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(in.scales.size()) / 4; ++i)
      write_element(in.scales.data(), DType::f32, i, 0.01 + 0.001 * static_cast<double>(i % 17));
    const Codes want = run(reference(format), in);
    for (const NamedKernel& kernel : all_kernels(format))
      for (const int threads : {1, 2, 5})
        ASSERT_TRUE(run(kernel.entry, in, threads).bytes == want.bytes) << kernel.name;
  }
}

// Every buffer begins one byte past an aligned address.
TEST(AffineQuantize, AnyAlignment) {
  Random random(6);
  for (const Format format : lab::kAffineFormats)
    for (const DType dtype : lab::kFloatTypes)
      for (int repetition = 0; repetition < 8; ++repetition) {
        const AffineInput in = lab::random_affine(random, dtype, format);
        const Problem& p = in.problem;
        const Codes want = run(reference(format), in);
        const auto shifted = [](const void* from, std::size_t bytes) {
          std::vector<std::byte> to(bytes + 1);
          if (bytes > 0) std::memcpy(to.data() + 1, from, bytes);
          return to;
        };
        const auto x = shifted(in.x.data(), in.x.size()), scales = shifted(in.scales.data(), in.scales.size());
        const auto zero_points = shifted(in.zero_points.data(), 4 * in.zero_points.size());
        const auto count = static_cast<std::int64_t>(in.scales.size() / size_of(p.scale_dtype));
        const std::int64_t rows = affine::rows_of(p.shape), bytes = row_bytes(format, affine::last_of(p.shape));
        for (const NamedKernel& kernel : all_kernels(format)) {
          std::vector<std::uint8_t> codes(want.bytes.size() + 1);
          const auto params = OpTraits<AffineQuantize>::bind(
              p, {.x = {x.data() + 1, dtype, p.shape},
                  .scales = {scales.data() + 1, p.scale_dtype, {count}},
                  .zero_points = {zero_points.data() + 1, DType::i32, {p.zero_points ? count : 0}},
                  .codes = {codes.data() + 1, code_dtype(format), {rows, bytes}}});
          ASSERT_TRUE(params.ok()) << params.error().str();
          ASSERT_TRUE(test::run_entry(kernel.entry, p, *params, 1).ok());
          ASSERT_TRUE(std::equal(want.bytes.begin(), want.bytes.end(), codes.begin() + 1))
              << kernel.name << ' ' << lab::describe(p);
        }
      }
}

// Streaming copies, from and to every alignment.
TEST(AffineQuantize, StreamsToEveryAddress) {
  for (const NamedKernel& kernel : all_kernels(Format::s8)) {
    if (kernel.on_gpu) continue;  // GPU kernels have no SimdTable
    const auto& table = *static_cast<const affine_quantize::SimdTable*>(kernel.entry.table);
    for (std::int64_t n = 0; n < 200; n += n < 130 ? 1 : 23)
      for (std::size_t skip = 0; skip <= 64; ++skip) {
        Guarded<std::uint8_t> from(static_cast<std::size_t>(n)), to(static_cast<std::size_t>(n) + skip);
        for (std::int64_t i = 0; i < n; ++i) from.data()[i] = static_cast<std::uint8_t>(3 * i + 1);
        table.stream(from.data(), n, to.data());
        table.stream_fence();
        ASSERT_EQ(std::memcmp(to.data(), from.data(), static_cast<std::size_t>(n)), 0) << kernel.name << ' ' << n;
        for (std::size_t i = 0; i < skip; ++i) ASSERT_EQ(to[static_cast<std::size_t>(n) + i], 0xEE) << kernel.name;
      }
  }
}

// Two rows together are long enough for streaming stores; each alone is not.
TEST(AffineQuantize, CodesThatBypassTheCache) {
  constexpr std::int64_t kK = 17'000'003;
  AffineInput both;
  both.problem = {.shape = {2, kK}, .granularity = AffineGranularity::token(), .dtype = DType::bf16};
  both.x.resize(4 * kK);
  for (std::int64_t i = 0; i < 2 * kK; ++i)
    store_element(both.x.data(), i, static_cast<std::uint16_t>((i * 40'503 & 0x83FF) | 0x3F00));
  both.scales.resize(8);
  for (int i = 0; i < 2; ++i) write_element(both.scales.data(), DType::f32, i, 0.01 + 0.003 * i);
  const auto kernels = test::runnable_kernels("affine_quantize", Format::s8);
  const Codes whole = run(kernels.front().entry, both, 2);
  for (std::int64_t row = 0; row < 2; ++row) {
    AffineInput one = both;
    one.problem.shape = {1, kK};
    one.x.assign(both.x.begin() + 2 * kK * row, both.x.begin() + 2 * kK * (row + 1));
    one.scales.assign(both.scales.begin() + 4 * row, both.scales.begin() + 4 * (row + 1));
    const Codes alone = run(kernels.front().entry, one);
    ASSERT_EQ(std::memcmp(whole.bytes.data() + kK * row, alone.bytes.data(), kK), 0);
  }
}

// A given bound counts even if it is 0, and 0 to 0 is a valid range; only an absent bound is the format's.
TEST(AffineQuantize, BoundsThatAreGivenHold) {
  std::vector<float> x;
  for (int i = -40; i <= 40; ++i) x.push_back(static_cast<float>(4 * i));
  for (const NamedKernel& kernel : all_kernels(Format::s8))
    for (const std::optional<int> low : {std::optional<int>(), std::optional(0), std::optional(-5)})
      for (const std::optional<int> high : {std::optional<int>(), std::optional(0), std::optional(7)}) {
        AffineInput in = line(x, 1.0F);
        in.problem.q_min = low;
        in.problem.q_max = high;
        std::vector<int> want;
        for (const float v : x) want.push_back(std::clamp(static_cast<int>(v), low.value_or(-128), high.value_or(127)));
        const Codes got = run(kernel.entry, in);
        ASSERT_TRUE(got.status.ok()) << got.status.error().str();
        EXPECT_EQ(codes_of(in, got), want) << kernel.name << ' ' << lab::describe(in.problem);
      }
}

// Each mistake a caller can make is reported by name.
TEST(AffineQuantize, RefusesByName) {
  const auto refusal = [](const AffineInput& in) {
    const Codes out = run(reference(Format::s8), in);
    return out.status.ok() ? std::string("accepted") : out.status.error().str();
  };
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const AffineInput good = line({1, 2, 3, 4}, 0.5F, 1);
  EXPECT_EQ(refusal(good), "accepted");
  for (const float scale :
       {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    contains(refusal(line({1}, scale)), "invalid_scale: scales[0]");
  const Codes refused = run(reference(Format::s8), line({1}, -1.0F));
  ASSERT_NE(refused.status.error().as<InvalidValue>(), nullptr);
  EXPECT_EQ(refused.status.error().as<InvalidValue>()->value, -1.0);
  EXPECT_EQ(refused.status.error().as<InvalidValue>()->lowest, 0x1p-149);
  AffineInput in = line({1}, 1e-39F);
  EXPECT_EQ(refusal(in), "accepted");
  in.problem.math = AffineMath::reciprocal;
  contains(refusal(in), "1/scales[0] is infinite");
  // InvalidValue::lowest is the smallest valid scale: that scale is accepted, the next float below is not.
  const Codes too_small = run(reference(Format::s8), in);
  ASSERT_NE(too_small.status.error().as<InvalidValue>(), nullptr);
  const auto lowest = static_cast<float>(too_small.status.error().as<InvalidValue>()->lowest);
  AffineInput at = line({1}, lowest), below = line({1}, std::nextafter(lowest, 0.0F));
  at.problem.math = below.problem.math = AffineMath::reciprocal;
  EXPECT_EQ(refusal(at), "accepted");
  contains(refusal(below), "1/scales[0] is infinite");
  contains(refusal(line({1}, 1.0F, 128)), "zero_points[0] is 128, not one of -128 to 127");
  in = good;
  in.problem.q_min = 5;
  in.problem.q_max = 2;
  contains(refusal(in), "q_min is 5, above q_max 2");
  in.problem.q_max = 128;
  contains(refusal(in), "codes of 5 to 128 do not go into s8");
  in = line({1, 2}, 1.0F);
  in.problem.q_min = 1;
  in.problem.q_max = 9;
  contains(refusal(in), "without zero points they are 0");
  in = good;
  in.problem.format = Format::i2;
  contains(refusal(in), "affine codes do not go into i2");
  in = good;
  in.problem.scale_dtype = DType::f16;
  contains(refusal(in), "scales are f16; they are f32 or f32");
  in = good;
  in.problem.granularity = AffineGranularity::channel(1);
  contains(refusal(in), "axis 1 of [4] does not exist");
  in.problem.granularity = AffineGranularity::group(3);
  contains(refusal(in), "scales is [1]: 1 elements, the problem needs 2");
  in.problem.even_groups = true;
  contains(refusal(in), "an axis of 4 does not divide into groups of 3");
  in.problem.granularity = AffineGranularity::group(0);
  contains(refusal(in), "group size is 0");
  in = good;
  in.problem.dtype = DType::i8;
  contains(refusal(in), "i8 is not a float type");
  in = good;
  in.problem.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  contains(refusal(in), "more elements than 2^63 - 1");
}

TEST(AffineQuantize, EmptyAndAliased) {
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 5}}) {
    AffineInput in;
    in.problem.shape = shape;
    in.scales.resize(4);
    write_element(in.scales.data(), DType::f32, 0, 1.0);
    EXPECT_TRUE(run(reference(Format::s8), in).status.ok()) << name(shape);
  }
  float x[8] = {};
  const float scale = 1.0F;
  const Problem p{.shape = {8}};
  const auto aliased = OpTraits<AffineQuantize>::bind(p, {.x = {x, DType::f32, {8}},
                                                          .scales = {&scale, DType::f32, {1}},
                                                          .zero_points = {},
                                                          .codes = {x + 4, DType::i8, {8}}});
  ASSERT_FALSE(aliased.ok());
  EXPECT_NE(aliased.error().str().find("x and codes overlap"), std::string::npos);
}

TEST(AffineGranularity, WordsAndCounts) {
  for (const auto& g :
       {AffineGranularity::tensor(), AffineGranularity::token(), AffineGranularity::channel(2),
        AffineGranularity::channel(-1), AffineGranularity::group(64), AffineGranularity::group(32, 0)}) {
    const auto parsed = parse_affine_granularity(name(g));
    ASSERT_TRUE(parsed.ok()) << name(g);
    EXPECT_EQ(*parsed, g);
  }
  for (const char* wrong :
       {"", "row", "channel", "channel:9", "group:0", "group:1:2:3", "token:1", "group:x", "group:"})
    EXPECT_FALSE(parse_affine_granularity(wrong).ok()) << wrong;
  EXPECT_EQ(parse_affine_granularity("group").error().message,
            "'group' does not say how many share a scale; give group:128, say");
  const Shape shape{2, 7, 5};
  EXPECT_EQ(*affine_scale_count(shape, AffineGranularity::tensor()), 1);
  EXPECT_EQ(*affine_scale_count(shape, AffineGranularity::token()), 14);
  EXPECT_EQ(*affine_scale_count(shape, AffineGranularity::channel(1)), 7);
  EXPECT_EQ(*affine_scale_count(shape, AffineGranularity::group(3)), 28);
  EXPECT_EQ(*affine_scale_count(shape, AffineGranularity::group(3, 1)), 30);
  EXPECT_FALSE(affine_scale_count(shape, AffineGranularity::channel(3)).ok());
}

// Codes recorded from PyTorch on a CPU (tools/golden_torch.py), which computes as `reciprocal` does. NumPy's codes use
// one division, as `division` does. The inputs contain ties on purpose, where the two differ.
TEST(AffineQuantize, PyTorchsAndNumPysCodes) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  const auto cases = test::read_affine_golden(TERN_TESTS_DIR, "cpu");
  ASSERT_EQ(cases.size(), 6U);
  int differing = 0;
  for (const test::AffineGolden& golden : cases) {
    AffineInput in{.problem = {}, .x = golden.x, .scales = golden.scales, .zero_points = golden.zero_points};
    in.problem = {
        .shape = golden.shape, .granularity = golden.granularity, .format = golden.format, .zero_points = true};
    ASSERT_EQ(golden.divided.size(), golden.codes.size());
    for (std::size_t i = 0; i < golden.codes.size(); ++i) differing += golden.codes[i] != golden.divided[i] ? 1 : 0;
    auto kernels = all_kernels(golden.format);
    kernels.push_back({"reference", reference(golden.format)});
    for (const NamedKernel& kernel : kernels) {
      in.problem.math = AffineMath::reciprocal;
      EXPECT_EQ(run(kernel.entry, in).bytes, golden.codes) << kernel.name << ' ' << lab::describe(in.problem);
      in.problem.math = AffineMath::division;
      EXPECT_EQ(run(kernel.entry, in).bytes, golden.divided) << kernel.name << ' ' << lab::describe(in.problem);
    }
  }
  EXPECT_GT(differing, 0);
}

// Codes recorded from PyTorch on a GPU (tools/golden_torch.py FOLDER cuda).
TEST(AffineQuantize, PyTorchsCodesOnAGpu) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  const auto cases = test::read_affine_golden(TERN_TESTS_DIR, "cuda");
  EXPECT_EQ(cases.size(), 6U);
  for (const test::AffineGolden& golden : cases) {
    AffineInput in{.problem = {}, .x = golden.x, .scales = golden.scales, .zero_points = golden.zero_points};
    in.problem = {.shape = golden.shape,
                  .granularity = golden.granularity,
                  .format = golden.format,
                  .zero_points = true,
                  .math = AffineMath::torch_cuda};
    for (const NamedKernel& kernel : all_kernels(golden.format))
      EXPECT_EQ(run(kernel.entry, in).bytes, golden.codes) << kernel.name << ' ' << lab::describe(in.problem);
  }
}

// PyTorch's vector loop converts a value far below the range to the lowest int32, adds a negative zero point and wraps
// around to the top (torch 2.15, cpu: quantize_per_tensor(-1e30, 1, -3, qint8) is 127). Here the result is the lowest
// code.
TEST(AffineQuantize, FarBelowTheRangeIsItsEnd) {
  AffineInput in = line(std::vector<float>(40, -1e30F), 1.0F, -3);
  in.problem.math = AffineMath::reciprocal;
  for (const NamedKernel& kernel : all_kernels(Format::s8))
    EXPECT_EQ(codes_of(in, run(kernel.entry, in)), std::vector<int>(40, -128)) << kernel.name;
}

}  // namespace
}  // namespace tern
