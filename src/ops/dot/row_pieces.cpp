// Passes rows of weights from a reader to a sink, in parallel within a piece.
#include "ops/dot/row_pieces.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/checked.h"
#include "base/errors.h"
#include "format/checksum.h"
#include "format/format.h"

namespace tern {
namespace {

constexpr std::int64_t kBytesOfThread = 16384;  // fewer bytes are not worth a thread

void add_rows(RunningChecksum& sum, const CanonicalWeights& rows, std::int64_t line_bytes) {
  const auto bytes = static_cast<std::size_t>(line_bytes);
  if (rows.stride_bytes == line_bytes) return sum.add({rows.codes, static_cast<std::size_t>(rows.n) * bytes});
  for (std::int64_t row = 0; row < rows.n; ++row) sum.add({rows.codes + row * rows.stride_bytes, bytes});
}

}  // namespace

RowPieces RowPieces::of(const CanonicalWeights& w, std::int64_t row_block, std::int64_t piece_bytes) {
  static_assert(Tile16::kRows == TileMma::kRows);
  RowPieces pieces{.line_bytes = row_bytes(w.format, w.k)};
  pieces.unit = std::min(std::lcm(Tile16::kRows, row_block), std::max<std::int64_t>(w.n, 1));  // at most all rows
  const std::int64_t units =
      std::max<std::int64_t>(piece_bytes / std::max<std::int64_t>(pieces.line_bytes * pieces.unit, 1), 1);
  pieces.rows = pieces.line_bytes > 0 ? std::min(units * pieces.unit, w.n) : 0;
  return pieces;
}

Result<std::uint64_t> pass_rows(const CanonicalWeights& w, const RowReader* reader, const RowPieces& pieces,
                                const Threads& threads, RowSink& sink) {
  RunningChecksum sum;
  for (std::int64_t first = 0; pieces.rows > 0 && first < w.n; first += pieces.rows) {
    CanonicalWeights piece = w;
    piece.n = std::min(pieces.rows, w.n - first);
    std::uint8_t* room = nullptr;
    if (reader != nullptr) {
      TERN_ASSIGN(memory, sink.room());
      room = memory;
      piece.codes = room;
      piece.stride_bytes = pieces.line_bytes;
    } else {
      piece.codes += first * w.stride_bytes;
    }
    const std::int64_t units = ceil_div(piece.n, pieces.unit);
    const int slots = static_cast<int>(std::clamp<std::int64_t>(piece.n * pieces.line_bytes / kBytesOfThread, 1,
                                                                std::min<std::int64_t>(threads.count(), units)));
    std::vector<Status> results(static_cast<std::size_t>(slots));
    threads.run(slots, [&](int slot) {
      const std::int64_t begin = units * slot / slots * pieces.unit,
                         end = std::min(units * (slot + 1) / slots * pieces.unit, piece.n);
      Status& result = results[static_cast<std::size_t>(slot)];
      if (reader != nullptr) result = reader->read(first + begin, end - begin, room + begin * pieces.line_bytes);
      if (!result.ok()) return;
      CanonicalWeights part = piece;
      part.codes += begin * piece.stride_bytes;
      part.n = end - begin;
      result = sink.take_part(part, first + begin);
    });
    for (Status& result : results) TERN_RETURN_IF_ERROR(std::move(result));
    TERN_RETURN_IF_ERROR(sink.take_piece(piece, first));
    add_rows(sum, piece, pieces.line_bytes);
  }
  return sum.value_with(scale_bytes(w));
}

}  // namespace tern
