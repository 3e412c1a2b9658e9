// PackedWeights as a user calls it: what it needs, what it refuses, and how long it lives.
#include <cmath>
#include <limits>

#include "ops/dot/packed_weights.h"
#include "tests/support/linear_weights.h"

namespace tern::test {
namespace {

constexpr Granularity kGranularities[] = {Granularity::tensor(), Granularity::row(), Granularity::group(7),
                                          Granularity::group(64)};

TEST(PackedWeights, UsesTheBytesItSaidItWould) {
  for (const Granularity& granularity : kGranularities)
    for (const std::int64_t n : {1, 4, 17})
      for (const std::int64_t k : {1, 64, 130}) {
        const Weights w = make_weights(n, k, granularity);
        const auto bytes = PackedWeights::packed_bytes(n, k, granularity);
        ASSERT_TRUE(bytes.ok()) << message(bytes);
        const Memory memory(*bytes);
        const auto own = w.pack(), in_place = w.pack(memory.span());
        ASSERT_TRUE(own.ok() && in_place.ok()) << message(own) << message(in_place);
        EXPECT_EQ(own->bytes(), *bytes);
        EXPECT_EQ(in_place->bytes(), *bytes);
        EXPECT_EQ(own->checksum(), in_place->checksum());
        EXPECT_TRUE(memory.edges_untouched()) << n << " x " << k << ' ' << name(granularity);
        EXPECT_EQ(own->n(), n);
        EXPECT_EQ(own->k(), k);
        EXPECT_EQ(own->granularity(), granularity);
        EXPECT_EQ(own->tile(), "tile16");
      }
}

TEST(PackedWeights, ComesFromTheContextsMemoryAndGoesBackToIt) {
  const auto memory = with_statistics(host_memory());
  const Context context = open({.memory = memory});
  const Weights w = make_weights();
  {
    auto packed = PackedWeights::pack(context, w.code_view(), w.scale_view(), w.n, w.k, w.granularity);
    ASSERT_TRUE(packed.ok()) << message(packed);
    const PackedWeights copy = *packed;
    EXPECT_EQ(memory->statistics().allocations, 1U);
    EXPECT_EQ(memory->statistics().bytes_in_use, copy.bytes());
  }
  EXPECT_TRUE(memory->live().empty());
}

TEST(PackedWeights, AnEmptyHandleHasNothing) {
  const PackedWeights none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.n() + none.k(), 0);
  EXPECT_EQ(none.bytes(), 0U);
  EXPECT_EQ(none.checksum(), 0U);
}

TEST(PackedWeights, RefusesMemoryThatDoesNotDo) {
  Weights w = make_weights();
  const std::size_t bytes = *PackedWeights::packed_bytes(w.n, w.k, w.granularity);
  const Memory memory(bytes + 64);
  const auto small = w.pack(memory.span().first(bytes - 1));
  EXPECT_EQ(message(small), "invalid_argument: the memory has " + std::to_string(bytes - 1) + " bytes, " +
                                std::to_string(bytes) + " are needed (pack)");
  EXPECT_EQ(message(w.pack(memory.span().first(0))).find("invalid_argument: the memory has 0 bytes"), 0U);
  EXPECT_EQ(message(w.pack(memory.span().subspan(4))),
            "invalid_argument: the memory is not aligned to 64 bytes (pack)");
  EXPECT_TRUE(memory.edges_untouched());

  // Codes, then scales, in the last bytes of the memory.
  std::byte* end = memory.span().data() + bytes;
  std::memcpy(end - w.codes.size(), w.codes.data(), w.codes.size());
  const ConstTensorView codes(end - w.codes.size(), DType::u8, w.code_view().shape);
  EXPECT_EQ(message(PackedWeights::pack(open(), codes, w.scale_view(), w.n, w.k, w.granularity, memory.span())),
            "invalid_argument: codes and the memory overlap; each needs memory of its own (pack)");
  std::memcpy(end - 12, w.scales.data(), 12);
  const ConstTensorView scales(end - 12, DType::f32, {3});
  EXPECT_EQ(message(PackedWeights::pack(open(), w.code_view(), scales, w.n, w.k, w.granularity, memory.span())),
            "invalid_argument: scales and the memory overlap; each needs memory of its own (pack)");
}

TEST(PackedWeights, RefusesCodesAndScalesThatDoNotFit) {
  Weights w = make_weights();
  const auto pack = [&w](const ConstTensorView& codes, const ConstTensorView& scales) {
    return message(PackedWeights::pack(open(), codes, scales, w.n, w.k, w.granularity));
  };
  EXPECT_EQ(pack({nullptr, DType::u8, {3, 3}}, w.scale_view()), "invalid_argument: codes is null (pack)");
  EXPECT_EQ(pack(w.code_view(), {nullptr, DType::f32, {3}}), "invalid_argument: scales is null (pack)");
  EXPECT_EQ(pack({w.codes.data(), DType::i8, {3, 3}}, w.scale_view()),
            "invalid_argument: codes is i8, the problem says u8 (pack)");
  EXPECT_EQ(pack({w.codes.data(), DType::u8, {3, 2}}, w.scale_view()),
            "invalid_argument: codes is [3, 2]: 6 elements, the problem needs 9 (pack)");
  EXPECT_EQ(pack(w.code_view(), {w.scales.data(), DType::f32, {2}}),
            "invalid_argument: scales is [2]: 2 elements, the problem needs 3 (pack)");
  for (const float bad : {0.0F, -1.0F, HUGE_VALF, std::nanf("")}) {
    w.scales[1] = bad;
    const auto refused = w.pack();
    ASSERT_EQ(refused.code(), Code::invalid_scale) << bad;
    EXPECT_EQ(refused.error().index, 1);
    EXPECT_EQ(refused.error().message.find("scales[1] is "), 0U) << refused.error().message;
  }
}

// Scales that come from a file may have any alignment.
TEST(PackedWeights, TakesScalesOfAnyAlignment) {
  for (const Granularity& granularity : kGranularities) {
    const Weights w = make_weights(5, 70, granularity);
    std::vector<std::byte> bytes(w.scales.size() * sizeof(float) + 1);
    std::memcpy(bytes.data() + 1, w.scales.data(), bytes.size() - 1);
    const auto packed = PackedWeights::pack(open(), w.code_view(), {bytes.data() + 1, DType::f32, w.scale_view().shape},
                                            w.n, w.k, granularity);
    ASSERT_TRUE(packed.ok()) << message(packed);
    EXPECT_EQ(packed->checksum(), w.pack()->checksum()) << name(granularity);
  }
}

// Tries every position of a bad code, to cover every path of the packer: whole bytes, odd ends, groups of odd size.
TEST(PackedWeights, NamesTheFirstCodeThatIsNoTrit) {
  for (const Granularity& granularity : kGranularities) {
    const Weights good = make_weights(5, 70, granularity);
    for (std::int64_t n = 0; n < good.n; ++n)
      for (std::int64_t k = 0; k < good.k; ++k) {
        Weights bad = good;
        bad.codes[static_cast<std::size_t>(n * row_bytes(Format::i2, 70) + k / 4)] |=
            static_cast<std::uint8_t>(3U << (2 * (k % 4)));
        bad.codes.back() |= 0b11'00;  // the last code is bad too, but the first is named
        const auto refused = bad.pack();
        const std::int64_t at = n * 70 + k;
        ASSERT_EQ(refused.code(), Code::invalid_quantized_value) << at << ' ' << name(granularity);
        ASSERT_EQ(refused.error().index, at);
        ASSERT_EQ(refused.error().message, "codes[" + std::to_string(n) + ", " + std::to_string(k) + "] (element " +
                                               std::to_string(at) + ") is 3, which is no trit");
      }
  }
}

TEST(PackedWeights, SizesThatNoMachineHasAreRefused) {
  const std::int64_t large = std::int64_t{1} << 56;
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{127}, large})
    EXPECT_EQ(PackedWeights::packed_bytes(n, large, Granularity::group(1)).code(), Code::invalid_argument) << n;
  EXPECT_EQ(PackedWeights::packed_bytes(-1, 4, {}).code(), Code::invalid_argument);
  EXPECT_EQ(PackedWeights::packed_bytes(4, -1, {}).code(), Code::invalid_argument);
  EXPECT_EQ(PackedWeights::packed_bytes(4, 4, Granularity::group(0)).code(), Code::invalid_argument);
}

QuantizedTensor quantized(const QuantizeOptions& options) {
  std::vector<float> x(6 * 130);
  lab::Random random(5);
  lab::fill_weights(lab::Pattern::gaussian, random, x.data(), 6 * 130);
  auto q = quantize(open(), {x.data(), DType::f32, {6, 130}}, options);
  EXPECT_TRUE(q.ok()) << message(q);
  return *std::move(q);
}

TEST(PackedWeights, OfAQuantizedTensorHasItsChecksum) {
  for (const Granularity& granularity : kGranularities) {
    const QuantizedTensor q = quantized({.granularity = granularity});
    const auto packed = PackedWeights::pack(open(), q);
    ASSERT_TRUE(packed.ok()) << message(packed);
    EXPECT_EQ(packed->checksum(), q.checksum()) << name(granularity);
    EXPECT_EQ(packed->n(), 6);
    EXPECT_EQ(packed->k(), 130);
  }
}

TEST(PackedWeights, FormatsThatAreNotTritsInTwoBitsAreRefusedByName) {
  EXPECT_EQ(message(PackedWeights::pack(open(), quantized({.scheme = Scheme::int2}))),
            "unsupported: s2 codes of scheme int2 are not packed trits; quantize to i2 or b3 (pack)");
  EXPECT_EQ(message(PackedWeights::pack(open(), quantized({.format = Format::i8}))),
            "unsupported: i8 codes of scheme absmean are not packed trits; quantize to i2 or b3 (pack)");
}

TEST(PackedWeights, OutlivesWhatItWasMadeFrom) {
  auto source = std::make_unique<Weights>(make_weights(9, 130));
  auto packed = source->pack();
  ASSERT_TRUE(packed.ok());
  std::vector<float> x = whole_numbers(1, 130), y(9);
  const std::vector<float> want = expected(*source, x);
  std::ranges::fill(source->codes, std::uint8_t{0});
  std::ranges::fill(source->scales, -1.0F);
  source.reset();
  auto layer = BitLinear::make(open(), *packed);
  packed = PackedWeights();  // the layer shares ownership
  ASSERT_TRUE(layer.ok()) << message(layer);
  ASSERT_TRUE(layer->forward(rows(x, 130), rows(y, 9)).ok());
  EXPECT_EQ(y, want);
}

TEST(PackedWeights, FiveTritsAByteTakeAFifthLess) {
  const Weights w = make_weights(37, 203, Granularity::row(), Format::b3);
  const auto packed = w.pack();
  ASSERT_TRUE(packed.ok()) << message(packed);
  EXPECT_EQ(packed->format(), Format::b3);
  EXPECT_EQ(packed->bytes(), *PackedWeights::packed_bytes(37, 203, w.granularity, Format::b3));
  EXPECT_EQ(*PackedWeights::packed_bytes(1600, 1600, Granularity::tensor(), Format::b3) - 4, 1600U * 1600 / 5);
  EXPECT_EQ(*PackedWeights::packed_bytes(1600, 1600, Granularity::tensor()) - 4, 1600U * 1600 / 4);
  for (std::int64_t n = 0; n < 37; ++n)
    for (std::int64_t k = 0; k < 203; ++k)
      ASSERT_EQ(packed->state()->tile.value(packed->state()->codes, n, k),
                w.trits[static_cast<std::size_t>(n * 203 + k)]);
}

TEST(PackedWeights, OfEightAndFourBitsKeepTheirWeights) {
  for (const Format format : {Format::s8, Format::s4})
    for (const Granularity& granularity : {Granularity::tensor(), Granularity::row(), Granularity::group(32)}) {
      Weights w = make_weights(37, 203, granularity, format);  // its trits are replaced by every code of the format
      const CodeRange range = code_range(format);
      for (std::size_t i = 0; i < w.trits.size(); ++i)
        w.trits[i] = static_cast<std::int8_t>(range.min + static_cast<int>(i) % (range.max - range.min + 1));
      for (std::int64_t n = 0; n < 37; ++n)
        pack_row(format, w.trits.data() + n * 203, 203, w.codes.data() + n * row_bytes(format, 203));
      w.scales.back() = -0.5F;  // as in files of q4_0
      const auto packed = w.pack();
      ASSERT_TRUE(packed.ok()) << message(packed);
      EXPECT_EQ(packed->format(), format);
      EXPECT_EQ(packed->bytes(), *PackedWeights::packed_bytes(37, 203, granularity, format));
      for (std::int64_t n = 0; n < 37; ++n)
        for (std::int64_t k = 0; k < 203; ++k)
          ASSERT_EQ(packed->state()->tile.value(packed->state()->codes, n, k),
                    w.trits[static_cast<std::size_t>(n * 203 + k)]);
      w.scales.back() = std::numeric_limits<float>::infinity();
      EXPECT_NE(message(w.pack()).find("is inf; it must be finite"), std::string::npos) << message(w.pack());
    }
}

TEST(PackedWeights, AByteThatNoFiveTritsGiveIsRefusedWithItsPlace) {
  Weights w = make_weights(37, 203, Granularity::row(), Format::b3);
  w.codes[static_cast<std::size_t>(2 * row_bytes(Format::b3, 203) + 3)] = 1;
  EXPECT_EQ(message(w.pack()),
            "invalid_quantized_value: codes[2, 15] (element 421) lies in a byte that no five trits give (pack)");
}

TEST(PackedWeights, MeetOnlyPlansOfTheirFormat) {
  const Weights w = make_weights(8, 20, Granularity::row(), Format::b3);
  Linear::Problem problem{.m_max = 1, .k = 20, .x_dtype = DType::f32};
  problem.matrices = {{.n = 8, .granularity = Granularity::row()}};
  const Context context = open();
  auto plan = LinearPlan::select(context, problem);
  ASSERT_TRUE(plan.ok());
  std::vector<float> x = whole_numbers(1, 20), y(8);
  const Linear::Output output{.weights = *w.pack(), .y = rows(y, 8)};
  const Memory memory(plan->workspace_bytes());
  EXPECT_EQ(message(plan->run(context.stream(), memory.span(), {.x = rows(x, 20), .outputs = {&output, 1}})),
            "invalid_argument: weights are b3, the problem says i2 (linear)");
}

}  // namespace
}  // namespace tern::test
