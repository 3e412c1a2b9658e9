// Canonical rows of weights on their way to where they are packed: piece by piece, so that those that a reader makes
// never lie in memory all at once; the checksum is taken while a piece is in the cache.
#pragma once

#include <functional>

#include "device/threads.h"
#include "ops/linear/packed_weights.h"

namespace tern {

// Where rows come from that do not lie in memory.
struct RowReader {
  std::int64_t row_block = 1;  // pieces begin and end at multiples of it
  // Writes rows first .. first + count - 1 in the weights' format, dense, and their scales where weights.scales points.
  // Called by several threads at once.
  std::function<Status(std::int64_t first, std::int64_t count, std::uint8_t* codes)> read;
};

// How many rows a piece has: whole tiles and whole blocks of the reader, as many as fit `piece_bytes`, one at least.
struct RowPieces {
  std::int64_t unit = 1;        // of rows; a thread takes whole ones
  std::int64_t rows = 0;        // of a piece; fewer in the last
  std::int64_t line_bytes = 0;  // of a row
  static RowPieces of(const CanonicalWeights& weights, std::int64_t row_block, std::int64_t piece_bytes);
  [[nodiscard]] std::int64_t bytes() const { return rows * line_bytes; }
};

// Where rows go.
class RowSink {
 public:
  RowSink() = default;
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;
  virtual ~RowSink() = default;

  // Memory of the host for the next piece.
  virtual Result<std::uint8_t*> room() = 0;
  // Rows first .. first + part.n - 1, which part.codes points at. Called by several threads at once.
  virtual Status take_part(const CanonicalWeights& part, std::int64_t first) = 0;
  // All rows of a piece, whose parts were taken. They stay where they are until room() gives their memory again.
  virtual Status take_piece(const CanonicalWeights& piece, std::int64_t first) = 0;
};

// Passes every row from the reader to the sink; without a reader, from weights.codes, which is given to the sink as it
// is. Returns the checksum of the weights: their scales must be there when the last row is. Of several errors in a
// piece, that of the lowest rows.
Result<std::uint64_t> pass_rows(const CanonicalWeights& weights, const RowReader* reader, const RowPieces& pieces,
                                const Threads& threads, RowSink& sink);

}  // namespace tern
