// Passing rows of weights in pieces: each row arrives once, in order, and the checksum is that of all rows.
#include "ops/dot/row_pieces.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>

#include "base/errors.h"
#include "format/checksum.h"
#include "tests/support/linear_weights.h"

namespace tern {
namespace {

using test::make_weights;
using test::message;
using test::Weights;

CanonicalWeights canonical(const Weights& w) {
  return {.codes = w.codes.data(),
          .stride_bytes = row_bytes(w.format, w.k),
          .scales = w.scales.data(),
          .n = w.n,
          .k = w.k,
          .granularity = w.granularity,
          .format = w.format};
}

// Keeps the rows it gets. Pieces go to two buffers in turn, as when they are sent to a GPU.
class Keeper final : public RowSink {
 public:
  Keeper(const Weights& w, const RowPieces& pieces) : line_(pieces.line_bytes), all_(w.codes.size(), 0xEE) {
    for (auto& buffer : buffers_) buffer.resize(static_cast<std::size_t>(pieces.bytes()));
  }
  Result<std::uint8_t*> room() override {
    turn_ = 1 - turn_;
    ++rooms_;
    return buffers_[turn_].data();
  }
  Status take_part(const CanonicalWeights& part, std::int64_t first) override {
    if (first % 16 != 0) return error(Code::internal, "test", "a part begins at row {}", first);
    part_rows_ += part.n;
    return {};
  }
  Status take_piece(const CanonicalWeights& piece, std::int64_t first) override {
    if (first != next_) return error(Code::internal, "test", "row {} came after {}", first, next_);
    for (std::int64_t row = 0; row < piece.n; ++row)
      std::memcpy(all_.data() + (first + row) * line_, piece.codes + row * piece.stride_bytes,
                  static_cast<std::size_t>(line_));
    next_ += piece.n;
    return {};
  }
  [[nodiscard]] const std::vector<std::uint8_t>& all() const { return all_; }
  [[nodiscard]] std::int64_t rows() const { return next_; }
  [[nodiscard]] std::int64_t part_rows() const { return part_rows_; }
  [[nodiscard]] int rooms() const { return rooms_; }

 private:
  std::int64_t line_, next_ = 0;
  std::atomic<std::int64_t> part_rows_{0};
  std::vector<std::uint8_t> all_;
  std::array<std::vector<std::uint8_t>, 2> buffers_;
  std::size_t turn_ = 1;
  int rooms_ = 0;
};

RowReader reader_of(const Weights& w, std::int64_t row_block = 1) {
  return {row_block, [&w](std::int64_t first, std::int64_t count, std::uint8_t* codes) -> Status {
            const auto line = static_cast<std::size_t>(row_bytes(w.format, w.k));
            std::memcpy(codes, w.codes.data() + static_cast<std::size_t>(first) * line,
                        static_cast<std::size_t>(count) * line);
            return {};
          }};
}

TEST(RowPieces, EveryRowArrivesOnce) {
  for (const int thread_count : {1, 3}) {
    const Threads threads(thread_count, {});
    for (const Format format : {Format::i2, Format::b3, Format::s8, Format::s4})
      for (const std::int64_t n : {1, 15, 16, 17, 160, 1000})
        for (const std::int64_t block : {1, 16, 48, 1000})
          for (const std::int64_t bytes : {1, 20'000, 1 << 24}) {
            const Weights w = make_weights(n, 600, Granularity::group(32), format);
            const RowReader reader = reader_of(w, block);
            const RowPieces pieces = RowPieces::of(canonical(w), block, bytes);
            ASSERT_TRUE(pieces.rows == n || pieces.rows % 16 == 0);
            ASSERT_TRUE(pieces.rows == n || pieces.rows % block == 0);
            CanonicalWeights given = canonical(w);
            given.codes = nullptr;
            Keeper keeper(w, pieces);
            const auto sum = pass_rows(given, &reader, pieces, threads, keeper);
            ASSERT_TRUE(sum.ok()) << message(sum);
            EXPECT_EQ(keeper.rows(), n);
            EXPECT_EQ(keeper.part_rows(), n);
            EXPECT_TRUE(keeper.all() == w.codes) << name(format) << ' ' << n << ' ' << block << ' ' << bytes;
            EXPECT_EQ(*sum, checksum(w.codes, scale_bytes(given)));
          }
  }
}

// Rows that are in memory are not copied, whatever their stride.
TEST(RowPieces, RowsInMemoryStayThere) {
  const Weights w = make_weights(100, 40, Granularity::row(), Format::s8);
  std::vector<std::uint8_t> apart(100 * 64, 0xEE);
  for (std::size_t row = 0; row < 100; ++row) std::memcpy(apart.data() + row * 64, w.codes.data() + row * 40, 40);
  CanonicalWeights given = canonical(w);
  given.codes = apart.data();
  given.stride_bytes = 64;
  const Threads threads(2, {});
  const RowPieces pieces = RowPieces::of(given, 1, 1000);
  EXPECT_EQ(pieces.rows, 16);
  Keeper keeper(w, pieces);
  const auto sum = pass_rows(given, nullptr, pieces, threads, keeper);
  ASSERT_TRUE(sum.ok()) << message(sum);
  EXPECT_EQ(keeper.rooms(), 0);
  EXPECT_TRUE(keeper.all() == w.codes);
  EXPECT_EQ(*sum, checksum(w.codes, scale_bytes(given)));
}

TEST(RowPieces, OfNothing) {
  const Threads threads(2, {});
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{0, 40}, {4, 0}}) {
    const Weights w = make_weights(n, k, Granularity::tensor());
    const RowReader reader = reader_of(w);
    const RowPieces pieces = RowPieces::of(canonical(w), 1, 1000);
    Keeper keeper(w, pieces);
    const auto sum = pass_rows(canonical(w), &reader, pieces, threads, keeper);
    ASSERT_TRUE(sum.ok()) << message(sum);
    EXPECT_EQ(keeper.rooms(), 0);
    EXPECT_EQ(*sum, checksum({}, scale_bytes(canonical(w))));
  }
}

// Two rows, read by different threads, fail: the error is that of the first, and no further piece is taken.
TEST(RowPieces, TheFirstErrorIsReported) {
  const Weights w = make_weights(400, 600, Granularity::row(), Format::s8);
  const Threads threads(4, {});
  RowReader reader = reader_of(w);
  reader.read = [](std::int64_t first, std::int64_t count, std::uint8_t* codes) -> Status {
    for (const std::int64_t bad : {std::int64_t{215}, std::int64_t{310}})
      if (bad >= first && bad < first + count) return error_at(bad, Code::invalid_scale, "test", "row {}", bad);
    std::memset(codes, 0, static_cast<std::size_t>(count * 600));
    return {};
  };
  const RowPieces pieces = RowPieces::of(canonical(w), 1, 192 * 600);
  Keeper keeper(w, pieces);
  const auto sum = pass_rows(canonical(w), &reader, pieces, threads, keeper);
  ASSERT_EQ(sum.code(), Code::invalid_scale);
  EXPECT_EQ(sum.error().index, 215);
  EXPECT_EQ(keeper.rows(), 192);
}

// A code that is no trit, in a late piece, is named by its place in the matrix.
TEST(RowPieces, ABadCodeOfALatePieceIsNamed) {
  const std::int64_t n = 9000, k = 8192;  // five pieces
  for (const bool in_memory : {false, true}) {
    Weights w = make_weights(1, k);
    w.n = n;
    w.scales.assign(static_cast<std::size_t>(n), 1.0F);
    w.codes.assign(static_cast<std::size_t>(n * k / 4), 0x55);
    w.codes[static_cast<std::size_t>(8000 * k / 4 + 5)] = 0x5D;
    w.codes[static_cast<std::size_t>(8500 * k / 4)] = 0xFF;
    CanonicalWeights given = canonical(w);
    const RowReader reader = reader_of(w);
    const test::Memory memory(*PackedWeights::packed_bytes(n, k, w.granularity));
    const Threads threads(2, {});
    const auto packed = pack_weights(given, in_memory ? nullptr : &reader, threads, memory.span());
    ASSERT_EQ(packed.code(), Code::invalid_quantized_value);
    EXPECT_EQ(packed.error().index, 8000 * k + 21);
    EXPECT_NE(packed.error().message.find("codes[8000, 21]"), std::string::npos) << packed.error().message;
  }
}

}  // namespace
}  // namespace tern
