// Tests the GPU kernels for many tokens with problems that reach each of their shapes: they return the CPU's bits and
// write nothing outside of y. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/linear_checks.h"

namespace tern::test {
namespace {

// Problems for which a GPU of 132 multiprocessors chooses a certain shape of tiles (cuda_wgmma_tuning.h), with tails in
// m, n and k: one whose results the copy engine stores, one with odd rows, one with four matrices. Another GPU, or
// another fit of the times, may choose other shapes; the bits are the same.
struct Reach {
  const char* shape;
  struct {
    std::int64_t m, n, k;
  } whole, odd;
  struct {
    std::int64_t m, n[4], k;
  } four;
};
constexpr Reach kReaches[] = {
    // clang-format off
    {"128 wide, split 2", {900, 1000, 4000}, {1000, 1003, 3500}, {1000, {280, 211, 35, 168}, 3500}},
    {"128 wide, split 4", {1000, 264, 4000}, {1000, 267, 4001}, {511, {208, 157, 26, 128}, 4005}},
    {"16 wide, split 1", {9, 8200, 16}, {9, 8003, 17}, {9, {3200, 2401, 400, 1992}, 21}},
    {"16 wide, split 2", {9, 7000, 144}, {9, 7003, 145}, {65, {408, 309, 51, 264}, 900}},
    {"16 wide, split 4", {9, 72, 784}, {9, 21, 777}, {9, {48, 39, 6, 32}, 777}},
    {"16 wide, split 8", {9, 72, 912}, {9, 21, 900}, {9, {48, 39, 6, 32}, 900}},
    {"32 wide, split 1", {65, 7000, 16}, {65, 7003, 17}, {65, {2800, 2101, 350, 1744}, 21}},
    {"32 wide, split 2", {700, 264, 1680}, {1000, 130, 1300}, {511, {48, 39, 6, 32}, 1300}},
    {"32 wide, split 4", {257, 264, 1680}, {400, 130, 1300}, {200, {48, 39, 6, 32}, 1300}},
    {"32 wide, split 8", {511, 72, 1680}, {511, 23, 1681}, {127, {48, 39, 6, 32}, 1685}},
    {"48 wide, split 1", {129, 10000, 784}, {129, 10003, 777}, {129, {4000, 3001, 500, 2496}, 777}},
    {"48 wide, split 2", {900, 520, 912}, {900, 523, 900}, {900, {48, 39, 6, 32}, 1300}},
    {"48 wide, split 4", {700, 264, 2000}, {1000, 133, 2001}, {511, {48, 39, 6, 32}, 2005}},
    {"48 wide, split 8", {511, 200, 4000}, {511, 133, 4001}, {255, {48, 39, 6, 32}, 4005}},
    {"64 wide, split 2", {700, 1032, 1680}, {700, 1035, 1681}, {900, {280, 211, 35, 168}, 1500}},
    {"64 wide, split 4", {1000, 264, 2320}, {1000, 267, 2321}, {900, {48, 39, 6, 32}, 2325}},
    {"96 wide, split 1", {1000, 2600, 2320}, {1000, 2603, 2321}, {1000, {816, 617, 102, 520}, 2325}},
    {"96 wide, split 2", {900, 1032, 2800}, {900, 1035, 2500}, {900, {400, 301, 50, 248}, 2500}},
    {"96 wide, split 4", {900, 520, 4000}, {1023, 523, 3500}, {1000, {48, 39, 6, 32}, 4005}},
    {"shape 0", {513, 6000, 304}, {1000, 2603, 385}, {1000, {1200, 901, 150, 744}, 149}},
    {"shape 0, cut", {1100, 5000, 784}, {1100, 5003, 777}, {1100, {2000, 1501, 250, 1248}, 777}},
    {"shape 0, one follows", {2049, 5000, 784}, {2049, 5003, 777}, {2049, {2000, 1501, 250, 1248}, 777}},
    {"shape 0, one follows, cut", {1025, 12000, 784}, {1025, 12003, 777}, {1100, {4800, 3601, 600, 2992}, 600}},
    {"shape 1", {65, 12000, 16}, {65, 12003, 17}, {65, {4800, 3601, 600, 2992}, 21}},
    {"shape 2", {3000, 1032, 304}, {3000, 1035, 305}, {3000, {208, 157, 26, 128}, 309}},
    {"shape 2, cut", {2049, 2600, 784}, {2049, 2603, 777}, {900, {2400, 1801, 300, 1496}, 777}},
    {"shape 2, one follows", {3000, 7000, 784}, {3000, 4100, 600}, {3000, {1640, 1231, 205, 1024}, 600}},
    {"shape 2, one follows, cut", {1500, 6000, 784}, {2049, 4100, 777}, {3000, {1040, 781, 130, 648}, 777}},
    {"shape 3", {3000, 264, 16}, {3000, 267, 17}, {2049, {48, 39, 6, 32}, 21}},
    {"shape 3, cut", {1025, 264, 3120}, {1025, 267, 3121}, {1000, {280, 211, 35, 168}, 1030}},
    {"shape 3, one follows", {513, 10000, 784}, {513, 10003, 777}, {1100, {2000, 1501, 250, 1248}, 2500}},
    {"shape 3, one follows, cut", {511, 10000, 1680}, {511, 10003, 1030}, {3000, {520, 391, 65, 320}, 1030}},
    {"shape 4", {9, 72, 16}, {9, 23, 17}, {9, {48, 39, 6, 32}, 21}},
    {"shape 4, cut", {1025, 72, 3120}, {1025, 23, 3121}, {0, {}, 0}},
    {"shape 4, one follows", {2049, 1032, 16}, {2049, 1035, 17}, {3000, {208, 157, 26, 128}, 21}},
    // clang-format on
};
static_assert(std::size(kReaches) > 20);

class Prefill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu() == nullptr) GTEST_SKIP() << "no CUDA device";
    use_kernels_of(Format::i2);
  }
  void use_kernels_of(Format format) {
    kernels_ = gpu_and_cpu_kernels(format);
    ASSERT_FALSE(kernels_.cuda.empty());
  }
  void TearDown() override { asked_tuning = nullptr; }

  // Makes some scales of tokens so small or large that the quotient is a division, not a corrected product.
  static void spread_scales(LinearCase& c) {
    constexpr float kFar[] = {0x1p-61F, 0x1.8p-100F, 0x1p61F, 0x1.fp90F, 0x1p-60F, 0x1p60F};
    for (std::size_t i = 0; i < c.x_scales.size(); i += 5) c.x_scales[i] = kFar[i / 5 % std::size(kFar)];
  }
  // Expects the CPU's bits. gpu.h poisons y, its gaps and what is around it before a run, and checks the inputs after.
  void expect_the_cpus_bits(const LinearCase& c, std::span<const Tuning> tunings = {}) {
    const auto want = run_linear(kernels_.cpu.entry, c, 8);
    ASSERT_TRUE(want.status.ok()) << want.status.error().str();
    note_tuning(c.problem);
    const auto run_with = [&](const Tuning* tuning) {
      asked_tuning = tuning;
      const auto got = run_linear(kernels_.cuda[0].entry, c);
      asked_tuning = nullptr;
      const std::string words = tuning == nullptr ? "" : name(*tuning);
      ASSERT_TRUE(got.status.ok()) << got.status.error().str();
      for (std::size_t i = 0; i < want.y.size(); ++i)  // ASSERT_EQ would print millions of bytes
        ASSERT_TRUE(got.y[i] == want.y[i]) << "matrix " << i << ' ' << describe(c) << ' ' << words;
    };
    run_with(nullptr);
    for (const Tuning& tuning : tunings) {
      if (HasFatalFailure()) return;
      run_with(&tuning);
    }
  }
  // Remembers the tuning that a plan reports.
  void note_tuning(const Linear::Problem& p) {
    auto plan = LinearPlan::select(*gpu(), p);
    ASSERT_TRUE(plan.ok()) << plan.error().str();
    if (const auto& tuning = plan->tuning()) tunings_.insert({tuning->grid, tuning->split});
  }
  // On the kind of GPU for which the problems were found, they reach both kernels and every split.
  void expect_every_split() const {
    const Device& device = gpu()->device();
    if (!device.capabilities.has(Capability::sm_90a) || device.gpu->multiprocessors != 132) return;
    EXPECT_TRUE(tunings_.contains({GridStrategy::occupancy, 1}));
    for (const int split : {1, 2, 4, 8}) EXPECT_TRUE(tunings_.contains({GridStrategy::fixed, split})) << split;
  }
  GpuAndCpu kernels_;
  std::set<std::pair<GridStrategy, int>> tunings_;
};

constexpr std::int64_t kSmall = 60'000'000;  // products; larger problems run once, without kTunings
const Tuning kTunings[] = {{.dependent_launch = false},
                           {.split = 1},
                           {.split = 2, .dependent_launch = false},
                           {.split = 4},
                           {.split = 8},
                           {.threads = 128, .grid = GridStrategy::fixed},
                           {.threads = 384, .grid = GridStrategy::occupancy, .split = 3}};
std::span<const Tuning> tunings_for(std::int64_t products) {
  return products < kSmall ? std::span(kTunings) : std::span<const Tuning>();
}

// Rows of whole 16-byte pieces, 2-byte results and every step of the epilogue: the copy engine stores these.
TEST_F(Prefill, EveryShapeWhereTheCopyEngineStores) {
  Random random(41);
  for (const Reach& reach : kReaches) {
    SCOPED_TRACE(reach.shape);
    Linear::Problem p{.m_max = reach.whole.m, .k = reach.whole.k};
    const bool turn = random.below(2) == 0;
    p.matrices = {{.n = reach.whole.n,
                   .granularity = turn ? Granularity::row() : Granularity::tensor(),
                   .y_dtype = turn ? DType::bf16 : DType::f16,
                   .bias = true,
                   .activation = random.below(2) == 0 ? Activation::squared_relu : Activation::none,
                   .residual = random.below(4) != 0}};
    LinearCase c = make_case(p, random);
    spread_scales(c);
    if (turn) c.y_gap = 8;
    expect_the_cpus_bits(c, tunings_for(p.m_max * p.k * reach.whole.n));
    if (HasFatalFailure()) return;
  }
  expect_every_split();
}

// Nothing is aligned: rows of y have gaps, and tokens are copied first.
TEST_F(Prefill, EveryShapeWithOddRows) {
  Random random(42);
  const DType types[] = {DType::f32, DType::i32, DType::f16, DType::bf16};
  int turn = 0;
  for (const Reach& reach : kReaches) {
    SCOPED_TRACE(reach.shape);
    Linear::Problem p{.m_max = reach.odd.m, .k = reach.odd.k};
    const DType y = types[turn++ % 4];
    p.matrices = {{.n = reach.odd.n, .granularity = Granularity::row(), .y_dtype = y}};
    if (y != DType::i32) p.matrices[0].bias = p.matrices[0].residual = true;
    LinearCase c = make_case(p, random);
    spread_scales(c);
    c.y_gap = 5;
    c.x_gap = turn % 3;
    expect_the_cpus_bits(c, tunings_for(p.m_max * p.k * reach.odd.n));
    if (HasFatalFailure()) return;
  }
  expect_every_split();
}

// Float tokens, and four matrices of four types.
TEST_F(Prefill, EveryShapeWithSeveralMatrices) {
  Random random(43);
  const DType types[] = {DType::bf16, DType::f32, DType::f16, DType::i8};
  int turn = 0;
  for (const Reach& reach : kReaches) {
    if (reach.four.m == 0) continue;  // no problem was found
    SCOPED_TRACE(reach.shape);
    const auto& [m, n, k] = reach.four;
    Linear::Problem p{.m_max = m, .k = k, .x_dtype = types[turn++ % 4]};
    p.matrices = {{.n = n[0], .granularity = Granularity::row(), .y_dtype = DType::f16, .residual = true},
                  {.n = n[1], .y_dtype = DType::f32, .bias = true},
                  {.n = n[2], .y_dtype = DType::i32},
                  {.n = n[3], .y_dtype = DType::bf16, .activation = Activation::squared_relu}};
    LinearCase c = make_case(p, random);
    spread_scales(c);
    expect_the_cpus_bits(c, tunings_for(m * k * (n[0] + n[1] + n[2] + n[3])));
    if (HasFatalFailure()) return;
  }
  expect_every_split();
}

// Every m and n around the edges of tiles, every k around a step and a chunk.
TEST_F(Prefill, EveryTail) {
  Random random(44);
  const auto epilogues = all_epilogues();
  std::size_t turn = 0;
  for (const std::int64_t m : {9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 81, 96, 97, 127, 128, 129, 255, 256, 257})
    for (const std::int64_t n : {1, 8, 63, 64, 65, 127, 129, 136, 255, 257})
      for (const std::int64_t k : {1, 15, 16, 127, 128, 129, 144, 513}) {
        if ((turn++ * 7) % 5 > 1) continue;  // runs two of five: each value of a dimension with some of the others
        Linear::Problem p{.m_max = m, .k = k, .x_dtype = turn % 4 == 0 ? DType::bf16 : DType::i8};
        p.matrices = {epilogues[turn % epilogues.size()]};
        p.matrices[0].n = n;
        p.matrices[0].granularity = turn % 2 == 0 ? Granularity::row() : Granularity::tensor();
        LinearCase c = make_case(p, random, turn % 9 == 0 ? X::bottom : X::random, turn % 9 == 0 ? W::plus : W::random);
        if (turn % 3 == 0) spread_scales(c);
        expect_the_cpus_bits(c);
        if (HasFatalFailure()) return;
      }
}

// Weights of 8 and 4 bits. Up to 64 tokens, 1, 2, 4 or 8 blocks share a tile, depending on n and k; with more tokens,
// tiles are whole, or shared where they are few.
TEST_F(Prefill, WiderWeights) {
  Random random(45);
  const auto epilogues = all_epilogues();
  std::size_t turn = 0;
  for (const Format format : {Format::s8, Format::s4}) {
    use_kernels_of(format);
    for (const std::int64_t m : {9, 16, 17, 32, 33, 64, 65, 127, 128, 129, 192, 257})
      for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{4200, 16},
                                 {4201, 129},
                                 {8320, 256},
                                 {65, 777},
                                 {130, 1100},
                                 {300, 2100},
                                 {65, 4100},
                                 {8320, 4610}}) {
        Linear::Problem p{.m_max = m, .k = k, .x_dtype = turn % 4 == 0 ? DType::bf16 : DType::i8, .format = format};
        p.matrices = {epilogues[turn++ % epilogues.size()]};
        p.matrices[0].n = n;
        p.matrices[0].granularity = turn % 2 == 0 ? Granularity::row() : Granularity::tensor();
        LinearCase c =
            make_case(p, random, turn % 5 == 0 ? X::bottom : X::random, turn % 5 == 0 ? W::minus : W::random);
        if (turn % 3 == 0) spread_scales(c);
        expect_the_cpus_bits(c, turn % 7 == 0 ? std::span(kTunings) : std::span<const Tuning>());
        if (HasFatalFailure()) return;
      }
    // Two matrices, the second with tiles of its own; k longer than a ring of stages.
    Linear::Problem p{.m_max = 200, .k = 2570, .x_dtype = DType::f32, .format = format};
    p.matrices = {{.n = 2100, .granularity = Granularity::row(), .y_dtype = DType::bf16, .residual = true},
                  {.n = 2305, .y_dtype = DType::f16, .bias = true}};
    expect_the_cpus_bits(make_case(p, random));
  }
}

// Small problems, for tools that check every memory access: so many tokens that a few rows make enough tiles, or so few
// that blocks share a tile.
TEST_F(Prefill, SmallProblemsOfWiderWeights) {
  Random random(46);
  for (const Format format : {Format::s8, Format::s4}) {
    use_kernels_of(format);
    for (const auto& [m, k] : {std::pair<std::int64_t, std::int64_t>{8449, 16},
                               {8449, 129},
                               {8449, 650},
                               {20, 16},
                               {33, 1100},
                               {64, 4100},
                               {100, 2100}}) {
      Linear::Problem p{.m_max = m, .k = k, .format = format};
      p.matrices = {{.n = 16, .granularity = Granularity::row(), .y_dtype = DType::bf16, .bias = true},
                    {.n = 9, .granularity = Granularity::row(), .y_dtype = DType::i32}};
      expect_the_cpus_bits(make_case(p, random));
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tern::test
