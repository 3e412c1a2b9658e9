// PyTorch's conv2d (tools/golden_conv2d.py): its exact integer sums bit for bit, its float results within the bound.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>

#include "ops/dot/generic.h"
#include "tests/support/conv2d_runner.h"

namespace tern {
namespace {

using test::ConvCase;
using test::ConvTruth;
using test::NamedKernel;
using Problem = Conv2d::Problem;

struct Golden {
  ConvCase c;                // all axes as PyTorch has them
  std::vector<std::byte> y;  // i32 sums, or f32
};

std::vector<Golden> read_golden() {
  std::ifstream file(std::string(TERN_TESTS_DIR) + "/golden/conv2d.torch_cpu.txt");
  std::string torch, version, device, kind, format;
  file >> torch >> version >> device;
  const auto whole = [&] {
    std::int64_t value = 0;
    file >> value;
    return value;
  };
  const auto bits = [&] {
    std::uint32_t value = 0;
    file >> std::hex >> value >> std::dec;
    return std::bit_cast<float>(value);
  };
  std::vector<Golden> all;
  while (file >> kind >> format) {
    const bool exact = kind == "exact";
    Golden golden;
    ConvCase& c = golden.c;
    Problem& p = c.problem;
    FilterShape& f = p.filters;
    for (std::int64_t* const size : {&p.images, &p.height, &p.width, &f.out_channels, &f.in_channels, &f.height,
                                     &f.width, &f.groups, &p.stride_h, &p.stride_w, &p.dilation_h, &p.dilation_w,
                                     &p.padding.top, &p.padding.bottom, &p.padding.left, &p.padding.right})
      *size = whole();
    p.format = *parse_format(format);
    p.x_dtype = exact ? DType::i8 : DType::f32;
    p.y_dtype = exact ? DType::i32 : DType::f32;
    p.math = exact ? LinearMath::w2a8 : LinearMath::w2_float;
    p.granularity = exact ? Granularity::tensor() : Granularity::row();
    p.bias = !exact;
    c.y = *Conv2d::output_size(p);
    for (std::int64_t n = *element_count(c.x_shape()); n > 0; --n)
      if (exact)
        c.x.push_back(static_cast<std::byte>(whole()));
      else
        lab::append_value(c.x, bits());
    std::vector<std::int8_t> filter(static_cast<std::size_t>(c.k()));
    const std::int64_t row = row_bytes(p.format, c.k());
    c.codes.resize(static_cast<std::size_t>(f.out_channels * row));
    for (std::int64_t i = 0; i < f.out_channels; ++i) {
      for (std::int8_t& weight : filter) weight = static_cast<std::int8_t>(whole());
      pack_row(p.format, filter.data(), c.k(), reinterpret_cast<std::uint8_t*>(c.codes.data()) + i * row);
    }
    if (exact) c.w_scales = {1};
    for (std::int64_t i = 0; !exact && i < f.out_channels; ++i) c.w_scales.push_back(bits());
    for (std::int64_t i = 0; !exact && i < f.out_channels; ++i) c.bias.push_back(bits());
    for (std::int64_t n = *element_count(c.y_shape()); n > 0; --n)
      if (exact)
        lab::append_value(golden.y, static_cast<std::int32_t>(whole()));
      else
        lab::append_value(golden.y, bits());
    all.push_back(std::move(golden));
  }
  return all;
}

// Images of dense planes as dense pixels.
std::vector<std::byte> as_nhwc(const std::vector<std::byte>& planes, const Shape& nhwc, std::size_t size) {
  std::vector<std::byte> pixels;
  const std::int64_t area = nhwc[1] * nhwc[2], channels = nhwc[3];
  for (std::int64_t image = 0; image < nhwc[0]; ++image)
    for (std::int64_t at = 0; at < area; ++at)
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const auto* from = planes.data() + static_cast<std::size_t>((image * channels + channel) * area + at) * size;
        pixels.insert(pixels.end(), from, from + size);
      }
  return pixels;
}

TEST(Conv2dGolden, PyTorchsResults) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  int exact = 0, floats = 0;
  for (const Golden& golden : read_golden()) {
    const bool is_exact = golden.c.problem.math == LinearMath::w2a8;
    ++(is_exact ? exact : floats);
    // PyTorch's own results are what the truth says, so the test is not of one text of the contract alone.
    if (is_exact)
      ASSERT_TRUE(test::same_bytes(ConvTruth(golden.c).bits(), golden.y)) << golden.c.text();
    else
      ASSERT_EQ(ConvTruth(golden.c).beyond_bound(golden.y), "") << golden.c.text();
    for (const ImageOrder order : {ImageOrder::nchw, ImageOrder::nhwc}) {
      ConvCase c = golden.c;
      std::vector<std::byte> y = golden.y;
      if (order == ImageOrder::nhwc) {
        c.problem.x_order = c.problem.y_order = order;
        c.x = as_nhwc(c.x, c.x_shape(), size_of(c.problem.x_dtype));
        y = as_nhwc(y, c.y_shape(), 4);
      }
      const PackedFilters filters = test::packed_filters(c);
      for (const NamedKernel& kernel : test::listed_conv_kernels(c.problem.format)) {
        const auto got = test::run_conv(kernel.entry, c, filters);
        ASSERT_TRUE(got.status.ok()) << got.status.error().str();
        if (is_exact)
          ASSERT_TRUE(test::same_bytes(got.y, y)) << kernel.name << ' ' << c.text();
        else
          ASSERT_EQ(ConvTruth(c).beyond_bound(got.y), "") << kernel.name << ' ' << c.text();
      }
    }
  }
  EXPECT_EQ(exact, 14);
  EXPECT_EQ(floats, 7);
}

}  // namespace
}  // namespace tern
