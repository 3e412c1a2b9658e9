// One matrix from a source of rows to its bytes in a layout, piece by piece, with what is to be told of it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/buffer_pool.h"
#include "runtime/rows_source.h"
#include "runtime/stage_clock.h"
#include "tern/model.h"

namespace tern {

// 512 KiB of bf16, half of a second-level cache of today, and 64 KiB of codes.
inline constexpr std::int64_t kPieceElems = std::int64_t{1} << 18;

struct MatrixJob {
  const RowsSource& source;
  const TensorPlan& plan;
  Lossy lossy = Lossy::refuse;
  std::optional<std::uint64_t> checksum = {};  // that codes and scales as they are read must have

  std::int64_t piece_elems = kPieceElems;

  // Of floats that are quantized: for their quality.
  const ConstTensorView* x = nullptr;
  std::optional<double> threshold = {};
  NonFinite non_finite = NonFinite::reject;

  // Called by any thread for rows that it is about to read, the first time that they are.
  std::function<void(RowRange)> fetch = {};

  // Called one after the other, in order, on any thread.
  std::function<Status(std::span<const std::uint8_t>)> write;  // the next bytes
  std::function<void(RowRange)> done;                          // these rows are read; perhaps they will be once more
  // Other work of this kind to be mixed with it, so that one thread writes while the others compute.
  std::int64_t asides = 0;
  std::function<Status()> aside = {};
  // Other work that threads may do at once, each number below `aheads` once: the next matrix is brought to a GPU.
  std::int64_t aheads = 0;
  std::function<void(std::int64_t)> ahead = {};

  StageClock* clock = nullptr;
};

struct ConvertedMatrix {
  TensorReport report;
  std::vector<float> decided, stored;  // scales, as they came and as they are stored
};

Result<ConvertedMatrix> convert_matrix(const Context& context, BufferPool& pool, const MatrixJob& job);

}  // namespace tern
