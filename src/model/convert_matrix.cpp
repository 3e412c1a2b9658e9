// Converts a matrix in pieces of rows, each small enough to stay in a second-level cache while it is processed.
#include "model/convert_matrix.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/errors.h"
#include "format/checksum.h"
#include "format/format.h"
#include "format/layout.h"
#include "io/little_endian.h"
#include "model/conveyor.h"
#include "model/layout_pieces.h"
#include "model/read_weights.h"
#include "plan/context_state.h"
#include "plan/count_trits.h"
#include "plan/quality.h"

namespace tern {
namespace {

// A few large writes fill the page cache faster than many small ones: 4.4 GB/s, against 2.8 with 64 KiB (ext4).
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;
constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // limit for all pieces in flight, reached only by long rows

class Converter {
 public:
  Converter(const Context& context, BufferPool& pool, const MatrixJob& job, const LayoutPieces& pieces)
      : pool_(pool),
        job_(job),
        source_(job.source),
        layout_(job.plan.layout.layout),
        pieces_(pieces),
        inside_(scales_in(layout_)),
        line_(row_bytes(Format::i2, job.source.k())),
        loops_(QualityLoops::of(job.instructions)),
        places_(place_count(context.state().threads)),
        together_(pieces.in_order()
                      ? std::max<std::int64_t>(kWriteBytes / std::max<std::size_t>(pieces.room_bytes(), 1), 1)
                      : 1),
        blocks_(places_.size() / static_cast<std::size_t>(together_) + 2),
        conveyor_(context.state().threads, static_cast<std::int64_t>(places_.size()), job.clock) {}

  Result<ConvertedMatrix> run() {
    const bool one = row_of(layout_).one_scale();
    if (source_.granularity() == Granularity::tensor() && source_.n() > 0 && source_.k() > 0)
      made_.decided = {source_.tensor_scale()};
    if (!one && !inside_ && source_.granularity() != job_.plan.granularity)
      return error(Code::internal, "write_model", "scales by {} were planned by {}", name(source_.granularity()),
                   name(job_.plan.granularity));
    if ((one || !inside_) && source_.granularity() == Granularity::tensor())
      made_.stored = made_.decided;
    else if (one)
      TERN_RETURN_IF_ERROR(fit_one());
    one_ = one;
    TERN_RETURN_IF_ERROR(look());
    if (job_.checksum && codes_.value_with(bytes_of(made_.decided)) != *job_.checksum)
      return wrong_checksum(codes_.value_with(bytes_of(made_.decided)), *job_.checksum);
    if (!pieces_.in_order()) TERN_RETURN_IF_ERROR(write_in_layout_order());
    if (inside_ == Granularity::tensor())
      TERN_RETURN_IF_ERROR(job_.write(pieces_.tail(made_.stored.empty() ? 0 : made_.stored[0])));
    if (job_.x != nullptr) TERN_RETURN_IF_ERROR(settle_quality());
    made_.report.checksum = codes_.value_with(bytes_of(made_.stored));
    const auto [least, most] = std::minmax_element(made_.stored.begin(), made_.stored.end());
    if (!made_.stored.empty()) {
      made_.report.smallest_scale = *least;
      made_.report.largest_scale = *most;
    }
    return std::move(made_);
  }

 private:
  // The buffers of one piece while it is in flight.
  struct Place {
    BufferPool::Buffer memory;
    std::uint8_t* codes = nullptr;
    std::vector<float> scales;
    FittedScales fitted;
    std::span<const std::uint8_t> bytes;
    std::array<std::int64_t, 3> trits = {};
    QualitySums sums;
  };

  [[nodiscard]] std::size_t place_count(const Threads& threads) const {
    const std::size_t bytes = static_cast<std::size_t>(pieces_.most_rows() * line_) + pieces_.room_bytes() + 1;
    // Enough places that no thread waits for a write; with 8 per thread, one of 2 threads did.
    const std::size_t wanted = std::size_t{16} * static_cast<std::size_t>(threads.count()) + 4;
    return std::clamp<std::size_t>(kMostBytes / bytes, 1, wanted);
  }
  Place& place(std::int64_t at) {
    Place& found = places_[static_cast<std::size_t>(at)];
    if (found.codes == nullptr) {
      found.memory = pool_.take(static_cast<std::size_t>(pieces_.most_rows() * line_));
      found.codes = reinterpret_cast<std::uint8_t*>(found.memory.get());
    }
    return found;
  }
  // Where the bytes of a piece go: several pieces share a buffer and are written together.
  std::uint8_t* out(std::int64_t piece) {
    BufferPool::Buffer& block = blocks_[static_cast<std::size_t>(piece / together_) % blocks_.size()];
    const std::lock_guard lock(blocks_mutex_);
    if (!block) block = pool_.take(static_cast<std::size_t>(together_) * pieces_.room_bytes());
    return reinterpret_cast<std::uint8_t*>(block.get()) +
           static_cast<std::size_t>(piece % together_) * pieces_.room_bytes();
  }
  Status write(std::int64_t piece, std::int64_t pieces, std::size_t bytes) {
    waiting_bytes_ += bytes;
    if ((piece + 1) % together_ != 0 && piece + 1 < pieces) return {};
    return job_.write({out(piece / together_ * together_), std::exchange(waiting_bytes_, 0)});
  }
  [[nodiscard]] std::int64_t first_scale(RowRange rows) const {
    return source_.granularity() == Granularity::tensor() ? 0 : source_.scale_count(rows.first);
  }
  // The first pass over the rows reads them from the file.
  void fetch(std::int64_t piece) const {
    if (job_.fetch && !fetched_) job_.fetch(pieces_.rows(piece));
  }
  Status read(RowRange rows, Place& place) const {
    place.scales.resize(static_cast<std::size_t>(source_.scale_count(rows.count)));
    return source_.read(rows, place.codes, place.scales.data());
  }

  // Fits one scale to several. Only the scales of ranges with a nonzero trit matter, so each range is passed to
  // fit_scales() as a row of one trit: +1 if it has any, otherwise 0.
  Status fit_one() {
    std::vector<std::uint8_t> live;
    const std::int64_t k = source_.k();
    const auto sink = [&](std::int64_t piece, std::int64_t at) -> Status {
      const Place& here = place(at);
      const RowRange rows = pieces_.rows(piece);
      const Ranges ranges = make_ranges(rows.count, k, source_.granularity());
      for (std::int64_t row = 0; row < rows.count; ++row)
        for (std::int64_t c = 0; c < k; c += ranges.len)
          live.push_back(count_signs(here.codes + row * line_, c, std::min(ranges.len, k - c)) > 0 ? 0b10 : 0b01);
      made_.decided.insert(made_.decided.end(), here.scales.begin(), here.scales.end());
      job_.done(rows);
      return {};
    };
    TERN_RETURN_IF_ERROR(conveyor_.run(
        {.pieces = pieces_.row_pieces(),
         .fetch = [&](std::int64_t piece) { fetch(piece); },
         .step = [&](std::int64_t piece, std::int64_t at) { return read(pieces_.rows(piece), place(at)); },
         .sink = sink}));
    const auto count = static_cast<std::int64_t>(live.size());
    TERN_ASSIGN(fitted, fit_scales(inside_ ? layout_ : Layout::i2_s_x86_128, {live.data(), DType::u8, {count, 1}},
                                   count, 1, made_.decided, Granularity::row(), job_.lossy));
    made_.stored = std::move(fitted.scales);
    made_.report.scale_loss = fitted.loss;
    made_.decided.clear();
    fetched_ = true;
    return {};
  }

  // Reads every row once, in order, and writes the bytes if the layout stores rows in this order. The job's other tasks
  // are interleaved evenly.
  Status look() {
    return conveyor_.run(
        {.pieces = pieces_.row_pieces(),
         .fetch = [&](std::int64_t piece) { fetch(piece); },
         .step = [&](std::int64_t piece, std::int64_t at) { return look_at(pieces_.rows(piece), piece, place(at)); },
         .sink = [&](std::int64_t piece, std::int64_t at) { return take(pieces_.rows(piece), piece, place(at)); },
         .serial_tasks = job_.serial_tasks,
         .serial_task = job_.serial_task,
         .parallel_tasks = job_.parallel_tasks,
         .parallel_task = job_.parallel_task});
  }

  Status look_at(RowRange rows, std::int64_t piece, Place& here) {
    TERN_RETURN_IF_ERROR(read(rows, here));
    here.trits = count_trits(here.codes, rows.count, source_.k());
    if (inside_ && *inside_ != Granularity::tensor()) {
      const ConstTensorView codes{here.codes, DType::u8, {rows.count, line_}};
      TERN_ASSIGN(fitted, fit_scales(layout_, codes, rows.count, source_.k(), here.scales, source_.granularity(),
                                     job_.lossy, first_scale(rows)));
      here.fitted = std::move(fitted);
    }
    if (job_.x != nullptr && job_.non_finite == NonFinite::reject)
      here.sums = QualitySums::fast(loops_, quality_rows(rows, here, fitted_of(here)));
    if (!pieces_.in_order()) return {};
    TERN_ASSIGN(bytes, pieces_.encode(piece, here.codes, here.fitted.scales, out(piece)));
    here.bytes = bytes;
    return {};
  }
  // The scales of a piece as stored.
  [[nodiscard]] std::span<const float> fitted_of(const Place& here) const {
    if (one_) return made_.stored;
    return inside_ ? here.fitted.scales : here.scales;
  }
  [[nodiscard]] QualityRows quality_rows(RowRange rows, const Place& here, std::span<const float> stored) const {
    return {.x = static_cast<const std::uint8_t*>(job_.x->data) +
                 rows.first * source_.k() * static_cast<std::int64_t>(size_of(job_.x->dtype)),
            .dtype = job_.x->dtype,
            .rows = rows.count,
            .k = source_.k(),
            .stride = source_.k(),
            .codes = here.codes,
            .signs = here.trits[0] + here.trits[2],
            .decided = here.scales,
            .stored = stored,
            .decided_by = source_.granularity(),
            .stored_by = job_.plan.granularity,
            .threshold = job_.threshold};
  }

  Status take(RowRange rows, std::int64_t piece, Place& here) {
    codes_.add({here.codes, static_cast<std::size_t>(rows.count * line_)});
    for (std::size_t i = 0; i < 3; ++i) made_.report.trits[i] += here.trits[i];
    sums_.add(here.sums);
    if (source_.granularity() != Granularity::tensor())
      made_.decided.insert(made_.decided.end(), here.scales.begin(), here.scales.end());
    if (!one_ && (inside_ || source_.granularity() != Granularity::tensor())) {
      const std::span<const float> stored = fitted_of(here);
      made_.stored.insert(made_.stored.end(), stored.begin(), stored.end());
    }
    add_loss(here.fitted.loss);
    if (pieces_.in_order()) TERN_RETURN_IF_ERROR(write(piece, pieces_.row_pieces(), here.bytes.size()));
    job_.done(rows);
    return {};
  }
  void add_loss(const ScaleLoss& loss) {
    ScaleLoss& all = made_.report.scale_loss;
    // Every piece fits a tensor's one scale again, with the same result; count its change once.
    all.changed = source_.granularity() == Granularity::tensor() ? std::max(all.changed, loss.changed)
                                                                 : all.changed + loss.changed;
    if (loss.largest_relative <= all.largest_relative) return;
    all.largest_relative = loss.largest_relative;
    all.index = loss.index;
  }

  // Reads the rows again, in the order in which the layout stores them.
  Status write_in_layout_order() {
    const auto step = [&](std::int64_t piece, std::int64_t at) -> Status {
      Place& here = place(at);
      TERN_RETURN_IF_ERROR(pieces_.read(source_, piece, here.codes, here.scales));
      TERN_ASSIGN(bytes, pieces_.encode(piece, here.codes, {}, out(piece)));
      here.bytes = bytes;
      return {};
    };
    return conveyor_.run({.pieces = pieces_.count(), .step = step, .sink = [&](std::int64_t, std::int64_t at) {
                            return job_.write(place(at).bytes);
                          }});
  }

  Status settle_quality() {
    const std::int64_t n = source_.n(), k = source_.k();
    if (job_.non_finite == NonFinite::saturate || !sums_.sure()) {
      sums_ = {};
      const Ranges stored = make_ranges(n, k, job_.plan.granularity);
      const auto step = [&](std::int64_t piece, std::int64_t at) -> Status {
        const RowRange rows = pieces_.rows(piece);
        Place& here = place(at);
        TERN_RETURN_IF_ERROR(read(rows, here));
        const auto first = static_cast<std::size_t>(rows.first * stored.per_row);
        here.sums = QualitySums::exact(loops_, quality_rows(rows, here, std::span(made_.stored).subspan(first)));
        return {};
      };
      const auto sink = [&](std::int64_t piece, std::int64_t at) -> Status {
        sums_.add(place(at).sums);
        job_.done(pieces_.rows(piece));
        return {};
      };
      TERN_RETURN_IF_ERROR(conveyor_.run({.pieces = pieces_.row_pieces(), .step = step, .sink = sink}));
    }
    made_.report.quality = sums_.quality(n * k, made_.report.trits[1]);
    return {};
  }

  BufferPool& pool_;
  const MatrixJob& job_;
  const RowsSource& source_;
  Layout layout_;
  const LayoutPieces& pieces_;
  std::optional<Granularity> inside_;
  std::int64_t line_;
  QualityLoops loops_;
  bool one_ = false;      // one scale is stored for the whole tensor
  bool fetched_ = false;  // fit_one() has fetched all rows, so look() need not
  ConvertedMatrix made_;
  RunningChecksum codes_;
  QualitySums sums_;
  std::vector<Place> places_;
  std::int64_t together_;  // how many pieces are written together
  std::mutex blocks_mutex_;
  std::vector<BufferPool::Buffer> blocks_;
  std::size_t waiting_bytes_ = 0;  // of pieces that wait to be written with others
  Conveyor conveyor_;
};

}  // namespace

Result<ConvertedMatrix> convert_matrix(const Context& context, BufferPool& pool, const MatrixJob& job) {
  TERN_ASSIGN(pieces, LayoutPieces::make(job.plan.layout, job.source.n(), job.source.k(), job.source.row_block(),
                                         job.piece_elems));
  return Converter(context, pool, job, pieces).run();
}

}  // namespace tern
