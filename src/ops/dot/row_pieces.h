// Passes canonical rows of weights on to be packed, piece by piece, so that the rows that a reader makes are never in
// memory all at once. The checksum is computed while a piece is in the cache.
#pragma once

#include <functional>

#include "device/threads.h"
#include "ops/dot/packed_weights.h"

namespace tern {

// A source of rows that are not in memory.
struct RowReader {
  std::int64_t row_block = 1;  // pieces begin and end at multiples of it
  // Writes rows first .. first + count - 1 in the weights' format, dense, and their scales where weights.scales points.
  // Called by several threads at once.
  std::function<Status(std::int64_t first, std::int64_t count, std::uint8_t* codes)> read;
};

// How many rows a piece has: as many whole tiles and whole blocks of the reader as fit `piece_bytes`, at least one.
struct RowPieces {
  std::int64_t unit = 1;        // rows; a thread takes whole units
  std::int64_t rows = 0;        // of a piece; fewer in the last
  std::int64_t line_bytes = 0;  // of a row
  static RowPieces of(const CanonicalWeights& weights, std::int64_t row_block, std::int64_t piece_bytes);
  [[nodiscard]] std::int64_t bytes() const { return rows * line_bytes; }
};

// A destination of rows.
class RowSink {
 public:
  RowSink() = default;
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;
  virtual ~RowSink() = default;

  // Returns host memory for the next piece.
  virtual Result<std::uint8_t*> room() = 0;
  // Takes rows first .. first + part.n - 1, at part.codes. Called by several threads at once.
  virtual Status take_part(const CanonicalWeights& part, std::int64_t first) = 0;
  // Takes all rows of a piece, after its parts. They stay in place until room() returns their memory again.
  virtual Status take_piece(const CanonicalWeights& piece, std::int64_t first) = 0;
};

// Passes every row from the reader to the sink. Without a reader, the sink gets weights.codes without a copy. Returns
// the checksum of codes and scales; scales must be complete when the last row is. If several parts of a piece fail,
// returns the error of the lowest rows.
Result<std::uint64_t> pass_rows(const CanonicalWeights& weights, const RowReader* reader, const RowPieces& pieces,
                                const Threads& threads, RowSink& sink);

}  // namespace tern
