// Converts one matrix from a source of rows to the bytes of a layout, piece by piece, and reports on it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/buffer_pool.h"
#include "model/rows_source.h"
#include "model/stage_clock.h"
#include "tern/model.h"

namespace tern {

// 512 KiB of bf16 (half of today's second-level caches) and 64 KiB of codes.
inline constexpr std::int64_t kPieceElems = std::int64_t{1} << 18;

struct MatrixJob {
  const RowsSource& source;
  const TensorPlan& plan;
  Lossy lossy = Lossy::refuse;
  std::optional<std::uint64_t> checksum = {};  // expected for codes and scales as read

  std::int64_t piece_elems = kPieceElems;

  // The floats that are quantized, if the quality is to be measured.
  const ConstTensorView* x = nullptr;
  std::optional<double> threshold = {};
  NonFinite non_finite = NonFinite::reject;
  Capabilities instructions = {};  // that the measurement may use

  // Called on any thread for rows that it is about to read for the first time.
  std::function<void(RowRange)> fetch = {};

  // Called on any thread, but one call at a time and in the order of the pieces.
  std::function<Status(std::span<const std::uint8_t>)> write;  // the next bytes
  std::function<void(RowRange)> done;                          // these rows have been read; some are read again later
  // Other tasks that must run one at a time (copying tensors), so that one thread writes while the others compute.
  std::int64_t serial_tasks = 0;
  std::function<Status()> serial_task = {};
  // Other tasks that may run at the same time, each number below `parallel_tasks` once (uploads of the next matrix).
  std::int64_t parallel_tasks = 0;
  std::function<void(std::int64_t)> parallel_task = {};

  StageClock* clock = nullptr;
};

struct ConvertedMatrix {
  TensorReport report;
  std::vector<float> decided, stored;  // scales as computed, and as stored
};

Result<ConvertedMatrix> convert_matrix(const Context& context, BufferPool& pool, const MatrixJob& job);

}  // namespace tern
