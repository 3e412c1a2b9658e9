// Every affine_dequantize kernel, and the loops at every width, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "lab/affine_problems.h"
#include "ops/affine_dequantize/affine_dequantize.h"
#include "ops/affine_dequantize/generic.h"
#include "tests/support/affine_golden.h"
#include "tests/support/quantize_runner.h"

namespace tern {
namespace {

using lab::AffineCodes;
using lab::Random;
using test::Guarded;
using test::NamedKernel;
using Problem = AffineDequantize::Problem;

std::vector<NamedKernel> all_kernels(Format format) {
  return test::kernels_and_loops<affine_dequantize::Loops>("affine_dequantize", format);
}
KernelEntry reference(Format format) { return test::reference_kernel("affine_dequantize", format); }

struct Values {
  Status status;
  std::vector<std::byte> bytes;  // all memory of y, including gaps between its elements
};

// y is dense unless `strides` is given.
Values run(const KernelEntry& entry, const AffineCodes& in, int threads = 1, const Shape* strides = nullptr) {
  const Problem& p = in.problem;
  const Shape steps = strides == nullptr ? dense_strides(p.shape) : *strides;
  std::int64_t reach = 1;
  for (int i = 0; i < p.shape.rank(); ++i) reach += (p.shape[i] - 1) * steps[i];
  Guarded<std::byte> y(static_cast<std::size_t>(reach) * size_of(p.dtype)), scales(in.scales.size());
  Guarded<std::uint8_t> codes(in.codes.size());
  Guarded<std::int32_t> zero_points(in.zero_points.size());
  std::memcpy(codes.data(), in.codes.data(), in.codes.size());
  std::memcpy(scales.data(), in.scales.data(), in.scales.size());
  std::copy(in.zero_points.begin(), in.zero_points.end(), zero_points.data());
  const auto count = static_cast<std::int64_t>(in.scales.size() / size_of(p.scale_dtype));
  const std::int64_t rows = affine::rows_of(p.shape), bytes = row_bytes(p.format, affine::last_of(p.shape));
  const AffineDequantize::Args args{
      .codes = {codes.data(), code_dtype(p.format), {rows, bytes}},
      .scales = {scales.data(), p.scale_dtype, {count}},
      .zero_points = {zero_points.data(), DType::i32, {static_cast<std::int64_t>(in.zero_points.size())}},
      .y = {y.data(), p.dtype, p.shape, steps, {}}};
  Values out;
  auto params = OpTraits<AffineDequantize>::bind(p, args);
  if (!params.ok()) {
    out.status = std::move(params).error();
    return out;
  }
  out.status = test::run_entry(entry, p, *params, threads);
  out.bytes.assign(y.data(), y.data() + y.size());
  return out;
}

TEST(AffineDequantize, EveryFormatTypeAndGranularity) {
  Random random(1);
  for (const Format format : lab::kAffineFormats) {
    const auto kernels = all_kernels(format);
    for (const DType dtype : lab::kFloatTypes)
      for (int repetition = 0; repetition < 40; ++repetition) {
        const AffineCodes in = lab::random_codes(random, dtype, format);
        const Values want = run(reference(format), in);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str() << ' ' << lab::describe(in.problem);
        for (const NamedKernel& kernel : kernels)
          ASSERT_TRUE(test::same_bytes(run(kernel.entry, in, 1 + static_cast<int>(random.below(3))).bytes, want.bytes))
              << kernel.name << ' ' << lab::describe(in.problem);
      }
  }
}

// Every byte with every zero point of its format, in every type: y must be (code - zp) * scale.
TEST(AffineDequantize, EveryByteAndZeroPoint) {
  for (const Format format : lab::kAffineFormats)
    for (const DType dtype : lab::kFloatTypes) {
      AffineCodes in;
      for (int byte = 0; byte < 256; ++byte) in.codes.push_back(static_cast<std::uint8_t>(byte));
      const std::int64_t k = 256 * codes_per_byte(format);
      in.problem = {.shape = {k}, .dtype = dtype, .format = format, .zero_points = true};
      const float scale = 0.7431640625F * 0x1.000002p0F;
      in.scales.resize(4);
      std::memcpy(in.scales.data(), &scale, 4);
      const CodeRange q = code_range(format);
      for (int zp = q.min; zp <= q.max; ++zp) {
        in.zero_points = {zp};
        const Values want = run(reference(format), in);
        for (std::int64_t i = 0; i < k; ++i) {
          const double exact = (read_code(format, in.codes.data(), i) - zp) * static_cast<double>(scale);
          std::byte one[8];
          write_element(one, dtype, 0, dtype == DType::f64 ? exact : static_cast<double>(static_cast<float>(exact)));
          ASSERT_EQ(std::memcmp(want.bytes.data() + i * static_cast<std::int64_t>(size_of(dtype)), one, size_of(dtype)),
                    0);
        }
        for (const NamedKernel& kernel : all_kernels(format))
          ASSERT_TRUE(test::same_bytes(run(kernel.entry, in).bytes, want.bytes))
              << kernel.name << ' ' << name(dtype) << ' ' << zp;
      }
    }
}

// Strides that permute the axes of y or skip elements: the gaps must not be written.
TEST(AffineDequantize, AnyStrides) {
  Random random(3);
  for (const DType dtype : lab::kFloatTypes)
    for (const Format format : lab::kAffineFormats)
      for (const Shape& strides : {Shape{1, 150, 3}, Shape{1000, 100, 2}, Shape{5000, 1, 90}, Shape{250, 50, 1}}) {
        AffineCodes in;
        in.problem = {
            .shape = {3, 5, 50}, .granularity = AffineGranularity::group(7, 1), .dtype = dtype, .format = format};
        in.codes.resize(static_cast<std::size_t>(15 * row_bytes(format, 50)));
        for (auto& byte : in.codes) byte = static_cast<std::uint8_t>(random.below(256));
        in.scales.resize(150 * 4);
        for (int i = 0; i < 150; ++i) write_element(in.scales.data(), DType::f32, i, 0.25 + 0.001 * i);
        const Values want = run(reference(format), in, 1, &strides);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str();
        for (const NamedKernel& kernel : all_kernels(format))
          ASSERT_TRUE(test::same_bytes(run(kernel.entry, in, 2, &strides).bytes, want.bytes))
              << kernel.name << ' ' << name(strides);
      }
}

TEST(AffineDequantize, LongLinesOnSeveralThreads) {
  Random random(5);
  for (const Format format : {Format::u8, Format::s4}) {
    AffineCodes in;
    in.problem = {.shape = {3, 100'003}, .granularity = AffineGranularity::group(96), .format = format};
    in.codes.resize(static_cast<std::size_t>(3 * row_bytes(format, 100'003)));
    for (auto& byte : in.codes) byte = static_cast<std::uint8_t>(random.below(256));
    in.scales.resize(static_cast<std::size_t>(4 * *affine_scale_count(in.problem.shape, in.problem.granularity)));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(in.scales.size()) / 4; ++i)
      write_element(in.scales.data(), DType::f32, i, 0.01 + 0.001 * static_cast<double>(i % 17));
    const Values want = run(reference(format), in);
    for (const NamedKernel& kernel : all_kernels(format))
      for (const int threads : {1, 2, 5})
        ASSERT_TRUE(test::same_bytes(run(kernel.entry, in, threads).bytes, want.bytes)) << kernel.name;
  }
}

// Outputs large enough for streaming stores, with unaligned rows.
TEST(AffineDequantize, LargeOutputs) {
  for (const DType dtype : lab::kFloatTypes) {
    AffineCodes in;
    const auto k = static_cast<std::int64_t>((34U << 20) / 3 / size_of(dtype)) | 1;
    in.problem = {.shape = {3, k}, .granularity = AffineGranularity::token(), .dtype = dtype};
    in.codes.resize(static_cast<std::size_t>(3 * k));
    for (std::size_t i = 0; i < in.codes.size(); ++i) in.codes[i] = static_cast<std::uint8_t>(i * i >> 7);
    in.scales.resize(12);
    for (int i = 0; i < 3; ++i) write_element(in.scales.data(), DType::f32, i, 0.01 + 0.003 * i);
    const Values want = run(reference(Format::s8), in);
    for (const NamedKernel& kernel : test::runnable_kernels("affine_dequantize", Format::s8))
      ASSERT_TRUE(test::same_bytes(run(kernel.entry, in, 2).bytes, want.bytes)) << kernel.name << ' ' << name(dtype);
  }
}

TEST(AffineDequantize, RefusesByName) {
  AffineCodes in;
  in.problem = {.shape = {2, 4}, .zero_points = true};
  in.codes.resize(8);
  in.scales.resize(4);
  in.zero_points = {1};
  const auto refusal = [&](const Shape* strides = nullptr) {
    const Values out = run(reference(Format::s8), in, 1, strides);
    return out.status.ok() ? std::string("accepted") : out.status.error().str();
  };
  EXPECT_NE(refusal().find("scales[0] is 0"), std::string::npos);
  write_element(in.scales.data(), DType::f32, 0, 1.0);
  EXPECT_EQ(refusal(), "accepted");
  const Shape overlapping{3, 1};
  EXPECT_NE(refusal(&overlapping).find("y [2, 4] with strides [3, 1] overlaps itself"), std::string::npos);
  in.zero_points = {-129};
  EXPECT_NE(refusal().find("zero_points[0] is -129, not one of -128 to 127"), std::string::npos);
}

// Values recorded from PyTorch on a CPU (tools/golden_torch.py), and on a GPU if that file exists.
TEST(AffineDequantize, PyTorchsValues) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  auto cases = test::read_affine_golden(TERN_TESTS_DIR, "cpu");
  ASSERT_EQ(cases.size(), 6U);
  for (test::AffineGolden& golden : test::read_affine_golden(TERN_TESTS_DIR, "cuda"))
    cases.push_back(std::move(golden));
  for (const test::AffineGolden& golden : cases) {
    AffineCodes in{.problem = {}, .codes = golden.codes, .scales = golden.scales, .zero_points = golden.zero_points};
    in.problem = {
        .shape = golden.shape, .granularity = golden.granularity, .format = golden.format, .zero_points = true};
    auto kernels = all_kernels(golden.format);
    kernels.push_back({"reference", reference(golden.format)});
    for (const NamedKernel& kernel : kernels)
      EXPECT_TRUE(test::same_bytes(run(kernel.entry, in).bytes, golden.values))
          << kernel.name << ' ' << lab::describe(in.problem);
  }
}

}  // namespace
}  // namespace tern
