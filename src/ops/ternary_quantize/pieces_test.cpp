// Tests a tensor in pieces of rows, whose scale is computed first and then given; and the sums behind quality figures.
#include "ops/ordered_sum.h"
#include "tests/support/quantize_checks.h"

namespace tern {
namespace {

using lab::Random;
using ternary_quantize::Params;
using ternary_quantize::SimdTable;
using test::NamedKernel;
using Problem = TernaryQuantize::Problem;

constexpr DType kPieceDtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

std::vector<std::byte> weights(DType dtype, std::int64_t count, Random& random, double size = 0.02) {
  std::vector<std::byte> x(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i)
    write_element(x.data(), dtype, i, static_cast<double>(random.gaussian()) * size);
  return x;
}

// The kernels of this CPU, and the reference.
std::vector<NamedKernel> kernels() {
  std::vector<NamedKernel> found = test::all_quantize_kernels(Format::i2);
  std::erase_if(found, [](const NamedKernel& k) { return k.on_gpu; });
  found.push_back({"reference", test::quantize_reference(Format::i2)});
  return found;
}

Params rows_of(const Problem& whole, const std::byte* x, std::int64_t first, std::int64_t count, std::uint8_t* codes,
               float* scales) {
  Params params{.problem = whole};
  params.problem.rows = count;
  params.ranges = make_ranges(count, whole.k, whole.granularity);
  params.x = x + first * whole.k * static_cast<std::int64_t>(size_of(whole.dtype));
  params.x_stride = whole.k;
  params.codes = codes + first * row_bytes(Format::i2, whole.k);
  params.codes_stride = row_bytes(Format::i2, whole.k);
  params.scales = scales;
  params.first_row = first;
  return params;
}

TEST(QuantizePieces, TheScaleAloneThenTheCodesOfEachPiece) {
  Random random(1);
  for (const DType dtype : kPieceDtypes)
    for (const Scheme scheme : {Scheme::absmean, Scheme::absmax, Scheme::mse})
      for (const std::int64_t k : {5, 128, 1030}) {
        const Problem p{.rows = 97, .k = k, .dtype = dtype, .scheme = scheme, .format = Format::i2};
        const auto x = weights(dtype, p.rows * k, random);
        std::vector<std::uint8_t> want(static_cast<std::size_t>(p.rows * row_bytes(Format::i2, k)));
        float scale = 0;
        Params whole = rows_of(p, x.data(), 0, p.rows, want.data(), &scale);
        ASSERT_TRUE(test::run_entry(test::quantize_reference(Format::i2), p, whole, 1).ok());
        for (const NamedKernel& kernel : kernels()) {
          float alone = 0;
          Params scales = whole;
          scales.codes = nullptr;
          scales.scales = &alone;
          ASSERT_TRUE(test::run_entry(kernel.entry, p, scales, 3).ok());
          ASSERT_EQ(alone, scale) << kernel.name << ' ' << test::describe(p);
          std::vector<std::uint8_t> codes(want.size(), 0xEE);
          for (std::int64_t first = 0, count = 1; first < p.rows;
               first += count, count = std::min<std::int64_t>(17, p.rows - first)) {
            float same = 0;
            Params piece = rows_of(p, x.data(), first, count, codes.data(), &same);
            piece.given = &scale;
            piece.finite = true;
            ASSERT_TRUE(test::run_entry(kernel.entry, piece.problem, piece, 1).ok());
            ASSERT_EQ(same, scale);
          }
          ASSERT_EQ(codes, want) << kernel.name << ' ' << test::describe(p);
        }
      }
}

TEST(QuantizePieces, ErrorsCountFromTheFirstRowOfTheTensor) {
  Random random(2);
  const Problem p{.rows = 9, .k = 20, .dtype = DType::f64, .granularity = Granularity::group(8), .format = Format::i2};
  auto x = weights(DType::f64, p.rows * p.k, random);
  std::vector<std::uint8_t> codes(9 * 5);
  std::vector<float> scales(27);
  for (const NamedKernel& kernel : kernels()) {
    write_element(x.data(), DType::f64, 7 * 20 + 13, 1e300);
    Params piece = rows_of(p, x.data(), 6, 3, codes.data(), scales.data());
    const Status large = test::run_entry(kernel.entry, piece.problem, piece, 1);
    ASSERT_FALSE(large.ok());
    EXPECT_EQ(large.error().index, 7 * 3 + 1) << kernel.name;
    EXPECT_NE(large.error().message.find("group 1 of row 7"), std::string::npos) << large.error().message;
    write_element(x.data(), DType::f64, 7 * 20 + 13, std::nan(""));
    const Status nan = test::run_entry(kernel.entry, piece.problem, piece, 1);
    ASSERT_FALSE(nan.ok());
    EXPECT_EQ(nan.error().index, 7 * 20 + 13) << kernel.name;
    EXPECT_NE(nan.error().message.find("x[7, 13] (element 153)"), std::string::npos) << nan.error().message;
  }
}

TEST(ErrorSums, AreThoseOfPlainF64AndTheSameForEveryInstructionSet) {
  Random random(3);
  for (const DType dtype : kPieceDtypes)
    for (const std::int64_t n : {0, 1, 3, 31, 32, 33, 511, 512, 513, 1024, 5000, 100'003}) {
      const auto data = weights(dtype, n, random);
      test::Guarded<std::byte> x(data.size());
      std::copy(data.begin(), data.end(), x.data());
      const double h = static_cast<double>(0.0131F);
      double want[2] = {};
      for (std::int64_t i = 0; i < n; ++i) {
        const double a = std::fabs(read_element(data.data(), dtype, i));
        want[0] += a * a;
        want[1] += a > h ? a : 0;
      }
      std::vector<std::pair<double, double>> found;
      for (const NamedKernel& kernel : kernels()) {
        if (kernel.name == "reference") continue;
        const auto& loops = static_cast<const SimdTable*>(kernel.entry.table)->of[static_cast<std::size_t>(dtype)];
        double of[2] = {-1, -1};
        loops.error_sums(x.data(), n, h, of);
        EXPECT_NEAR(of[0], want[0], 1e-6 * want[0]) << kernel.name << ' ' << name(dtype) << ' ' << n;
        EXPECT_NEAR(of[1], want[1], 1e-6 * want[1]) << kernel.name << ' ' << name(dtype) << ' ' << n;
        found.emplace_back(of[0], of[1]);
        EXPECT_EQ(found.back(), found.front()) << kernel.name << ' ' << name(dtype) << ' ' << n;
      }
    }
}

TEST(ErrorSums, SquaresBeyondF32AreInfinite) {
  const std::vector<float> x(40, 1e20F);
  for (const NamedKernel& kernel : kernels()) {
    if (kernel.name == "reference") continue;
    double of[2] = {};
    static_cast<const SimdTable*>(kernel.entry.table)->of[0].error_sums(x.data(), 40, 1, of);
    EXPECT_TRUE(std::isinf(of[0])) << kernel.name;
  }
}

TEST(PairSums, AreTheContractsForEveryInstructionSet) {
  Random random(4);
  for (const DType dtype : kPieceDtypes)
    for (const std::int64_t n : {1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129, 511, 640, 1000, 1023, 1024}) {
      const auto data = weights(dtype, n, random, std::ldexp(1.0, static_cast<int>(random.below(20)) - 10));
      test::Guarded<std::byte> x(data.size());
      std::copy(data.begin(), data.end(), x.data());
      const DType y_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
      std::vector<std::byte> y(static_cast<std::size_t>(n) * size_of(y_dtype));
      std::int64_t zeros = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t code = random.below(3) - 1;
        write_element(y.data(), y_dtype, i, static_cast<double>(code) * 0.0137);
        zeros += code == 0 ? 1 : 0;
      }
      const auto a = [&](std::int64_t i) { return read_element(data.data(), dtype, i); };
      const auto b = [&](std::int64_t i) { return read_element(y.data(), y_dtype, i); };
      const double want[4] = {ordered_sum(n, [&](std::int64_t i) { return a(i) * a(i); }),
                              ordered_sum(n, [&](std::int64_t i) { return (a(i) - b(i)) * (a(i) - b(i)); }),
                              ordered_sum(n, [&](std::int64_t i) { return a(i) * b(i); }),
                              ordered_sum(n, [&](std::int64_t i) { return b(i) * b(i); })};
      test::Guarded<std::byte> guarded_y(y.size());
      std::copy(y.begin(), y.end(), guarded_y.data());
      for (const NamedKernel& kernel : kernels()) {
        if (kernel.name == "reference") continue;
        const auto& loops = static_cast<const SimdTable*>(kernel.entry.table)->of[static_cast<std::size_t>(dtype)];
        double of[4] = {-1, -1, -1, -1};
        std::int64_t counted = 1000;
        loops.pair_sums(x.data(), guarded_y.data(), n, of, &counted);
        EXPECT_EQ(counted, 1000 + zeros) << kernel.name << ' ' << name(dtype) << ' ' << n;
        for (int t = 0; t < 4; ++t) EXPECT_EQ(of[t], want[t]) << kernel.name << ' ' << name(dtype) << ' ' << n;
      }
    }
}

TEST(PairSums, ShowWhatIsNotFinite) {
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")})
    for (const std::size_t at : {0U, 127U, 128U, 1000U}) {
      std::vector<float> x(1001, 1.0F), y(1001, 1.0F);
      x[at] = bad;
      for (const NamedKernel& kernel : kernels()) {
        if (kernel.name == "reference") continue;
        double of[4] = {};
        std::int64_t zeros = 0;
        static_cast<const SimdTable*>(kernel.entry.table)->of[0].pair_sums(x.data(), y.data(), 1001, of, &zeros);
        EXPECT_FALSE(std::isfinite(of[0])) << kernel.name << ' ' << at;
      }
    }
}

// With exactly the capabilities that a kernel needs, loops_for() returns the loops of that kernel.
TEST(LoopsFor, AMachineGetsTheBestThatItCanRun) {
  for (const Kernel& kernel : kernel_list())
    if (kernel.info.op == "ternary_quantize" && kernel.info.format == Format::i2 && kernel.entry.table != nullptr &&
        kernel.info.device == DeviceKind::cpu && kernel.info.isa != "reference") {
      EXPECT_EQ(&ternary_quantize::loops_for(kernel.info.needs), kernel.entry.table) << kernel.info.name;
    }
}

}  // namespace
}  // namespace tern
