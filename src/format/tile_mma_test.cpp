// The tiles of GPU kernels, tested on a CPU: every weight has a place of its own, operands are the fragments that the
// matrix instruction wants, and rows of 8 and 4 bits are tiled as the kernel tiles them.
#include "format/tile_mma.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "format/format.h"
#include "lab/weights.h"

namespace tern {
namespace {

// A test with the weights of each number of bits.
template <class W>
class TileMmaOf : public ::testing::Test {};
using AllBits = ::testing::Types<MmaWeights<2>, MmaWeights<4>, MmaWeights<8>>;
TYPED_TEST_SUITE(TileMmaOf, AllBits);

int smallest(int bits) { return bits == 2 ? -1 : -(1 << (bits - 1)); }
int largest(int bits) { return bits == 2 ? 1 : (1 << (bits - 1)) - 1; }

// A word of a lane's load.
std::uint32_t word_at(const std::vector<std::uint8_t>& tiles, std::int64_t tile_byte, int load, int lane, int i) {
  std::uint32_t word = 0;
  for (std::size_t b = 0; b < 4; ++b)
    word |= std::uint32_t{tiles[static_cast<std::size_t>(tile_byte + load * 512 + lane * 16 + i * 4) + b]} << (8 * b);
  return word;
}

TYPED_TEST(TileMmaOf, EveryWeightHasAPlaceOfItsOwn) {
  constexpr int kBits = TypeParam::kBits;
  const TileMma tile = TileMma::of(33, 300, kBits);
  EXPECT_EQ(tile.bytes(), 3 * 3 * TypeParam::kTileBytes);
  std::set<std::int64_t> places;
  for (std::int64_t row = 0; row < 48; ++row)
    for (std::int64_t column = 0; column < 384; ++column) {
      const TileMma::Place at = tile.place(row, column);
      EXPECT_EQ(at.bit % kBits, 0);
      ASSERT_TRUE(places.insert(8 * at.byte + at.bit).second) << row << ' ' << column;
      ASSERT_LT(at.byte, tile.bytes());
    }
  EXPECT_EQ(static_cast<std::int64_t>(places.size()) * kBits, 8 * tile.bytes());
}

// m16n8k32: register i of lane 4g + t has row g (even i) or g + 8 (odd i), columns 4t to 4t + 3, plus 16 from i = 2 on.
TYPED_TEST(TileMmaOf, OperandsAreFragmentsOfTheMatrixInstruction) {
  constexpr int kBits = TypeParam::kBits;
  lab::Random random(kBits);
  const TileMma tile = TileMma::of(16, 128, kBits);
  std::vector<std::uint8_t> tiles(static_cast<std::size_t>(tile.bytes()));
  std::vector<int> weights;
  for (std::int64_t i = 0; i < std::int64_t{16} * 128; ++i) {
    weights.push_back(smallest(kBits) + static_cast<int>(random.below(largest(kBits) - smallest(kBits) + 1)));
    const TileMma::Place at = tile.place(i / 128, i % 128);
    tiles[static_cast<std::size_t>(at.byte)] |=
        static_cast<std::uint8_t>((weights.back() & ((1 << kBits) - 1)) << at.bit);
    ASSERT_EQ(tile.value(tiles.data(), i / 128, i % 128), weights.back());
  }
  for (int step = 0; step < 4; ++step)
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t a = TypeParam::operand(word_at(tiles, 0, TypeParam::load_of(step), lane, i), step);
        for (int b = 0; b < 4; ++b) {
          const int row = lane / 4 + (i % 2 == 1 ? 8 : 0), column = 32 * step + 4 * (lane % 4) + b + (i >= 2 ? 16 : 0);
          ASSERT_EQ(static_cast<std::int8_t>(a >> (8 * b)),
                    TypeParam::kUnit * weights[static_cast<std::size_t>(row * 128 + column)])
              << step << ' ' << lane << ' ' << i << ' ' << b;
        }
      }
}

TYPED_TEST(TileMmaOf, TheLargestSumsFit) {
  const std::int64_t most = std::int64_t{128} * -smallest(TypeParam::kBits) * TypeParam::kUnit;
  EXPECT_LE(most * TypeParam::kMaxK, std::numeric_limits<std::int32_t>::max());
  EXPECT_GT(most * (TypeParam::kMaxK + 1), std::numeric_limits<std::int32_t>::max());
  for (const std::int32_t dot : {-12345, -1, 0, 1, 99}) EXPECT_EQ(TypeParam::dot_of(dot * TypeParam::kUnit), dot);
}

// The tiling kernel's loop on the host, a load of a lane at a time.
template <class W>
std::vector<std::uint8_t> tiled(const std::vector<std::uint8_t>& codes, std::int64_t n, std::int64_t k,
                                std::int64_t stride) {
  const TileMma tile = TileMma::of(n, k, W::kBits);
  std::vector<std::uint8_t> tiles;
  for (std::int64_t t = 0; t < tile.row_tiles * tile.column_tiles; ++t)
    for (int load = 0; load < W::kLoads; ++load)
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
          const std::int64_t row = t / tile.column_tiles * 16 + lane / 4 + 8 * (i % 2);
          const std::uint32_t word =
              row < n ? W::word(codes.data() + row * stride, k, t % tile.column_tiles, load, i, lane % 4) : 0;
          for (int b = 0; b < 4; ++b) tiles.push_back(static_cast<std::uint8_t>(word >> (8 * b)));
        }
  return tiles;
}

template <class W>
void expect_rows_tiled(Format format, std::int64_t n, std::int64_t k) {
  lab::Random random(static_cast<std::uint64_t>(n * k));
  const std::int64_t stride = row_bytes(format, k) + 3;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(n * stride), 0xEE);
  std::vector<std::int8_t> weights(static_cast<std::size_t>(n * k));
  for (auto& w : weights) w = static_cast<std::int8_t>(smallest(W::kBits) + random.below(1 << W::kBits));
  for (std::int64_t row = 0; row < n; ++row) pack_row(format, weights.data() + row * k, k, codes.data() + row * stride);
  const TileMma tile = TileMma::of(n, k, mma_bits(format));
  const std::vector<std::uint8_t> tiles = tiled<W>(codes, n, k, stride);
  ASSERT_EQ(static_cast<std::int64_t>(tiles.size()), tile.bytes());
  for (std::int64_t row = 0; row < tile.row_tiles * 16; ++row)
    for (std::int64_t column = 0; column < tile.column_tiles * 128; ++column)
      ASSERT_EQ(tile.value(tiles.data(), row, column),
                row < n && column < k ? weights[static_cast<std::size_t>(row * k + column)] : 0)
          << name(format) << ' ' << n << 'x' << k << ' ' << row << ' ' << column;
}

TEST(TileMmaRows, OfEightAndFourBits) {
  for (const std::int64_t n : {1, 15, 16, 17, 33})
    for (const std::int64_t k : {1, 2, 3, 31, 32, 127, 128, 129, 259}) {
      expect_rows_tiled<MmaWeights<8>>(Format::s8, n, k);
      expect_rows_tiled<MmaWeights<4>>(Format::s4, n, k);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace tern
