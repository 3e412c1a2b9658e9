// Packs weights on a GPU: pieces of rows go through pinned memory, and a kernel tiles each piece as it arrives.
#include "plan/gpu_pack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/errors.h"
#include "base/views.h"
#include "format/checksum.h"
#include "format/format.h"
#include "format/ranges.h"
#include "ops/dot/cuda_tile.h"
#include "plan/own_stream.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "pack";
constexpr std::int64_t kPieceBytes = 16 << 20;
constexpr int kSlots = 2;

// Tiles rows that are on the GPU. The kernel finds codes that are no trit; wait() returns the error.
class Tiler {
 public:
  Tiler(const Context& context, const CanonicalWeights& weights, std::uint8_t* tiles)
      : context_(context), w_(weights), tiles_(tiles) {}

  Status launch(const Stream& stream, const std::uint8_t* codes, std::int64_t stride, std::int64_t row,
                std::int64_t rows) const {
    detail::Gpu& gpu = *context_.state().gpu;
    TERN_ON_GPU(gpu.index());
    TERN_ASSIGN(run, gpu.start(detail::ContextState::lane(stream), kWhere, w_.k));
    const dot::TilePiece piece{
        .format = w_.format, .n = w_.n, .k = w_.k, .first_row = row, .rows = rows, .stride_bytes = stride};
    TERN_RETURN_IF_ERROR(
        cuda::launched(dot::cuda_tile.tile({.piece = piece, .codes = codes, .tiles = tiles_}, run.launch)));
    return gpu.finish(run, {.kernel = "pack.cuda"}, nullptr);
  }
  // Waits for the stream. If the kernel found a code that is no trit, row_of(row) brings its row to the host for the
  // error message.
  template <class RowOf>
  [[nodiscard]] Status wait(const Stream& stream, RowOf row_of) const {
    Status found = stream.synchronize();
    if (found.code() != Code::invalid_quantized_value || w_.k == 0) return found;
    const CodePlace at{found.error().index / w_.k, found.error().index % w_.k};
    const Result<const std::uint8_t*> row = row_of(at.row);
    if (!row.ok()) return row.error();
    return invalid_code_at(w_.format, *row, w_.k, at);
  }

 private:
  const Context& context_;
  const CanonicalWeights& w_;
  std::uint8_t* tiles_;
};

// Sends pieces of rows to the GPU: while one is copied and tiled, the next is read.
class GpuSink final : public RowSink {
 public:
  GpuSink(const Context& context, const Tiler& tiler) : context_(context), tiler_(tiler) {}
  ~GpuSink() override { (void)finish().ok(); }  // pieces in flight use this object's memory

  Status open(const Stream& stream, const RowPieces& pieces, std::int64_t n) {
    TERN_ASSIGN(pinned, pinned_memory());
    line_ = pieces.line_bytes;
    used_ = pieces.rows < n ? kSlots : 1;
    if (used_ > 1) {
      TERN_ASSIGN(second, detail::OwnStream::open(context_));
      second_ = std::move(second);
    }
    for (int i = 0; i < used_; ++i) {
      TERN_ASSIGN(stage, Tensor::allocate(pinned, DType::u8, {pieces.bytes()}, "pinned codes"));
      TERN_ASSIGN(device, context_.allocate(DType::u8, {pieces.bytes()}, "piece of codes"));
      slots_[static_cast<std::size_t>(i)] = {std::move(stage), std::move(device), i == 0 ? stream : *second_};
    }
    return {};
  }

  Result<std::uint8_t*> room() override {
    TERN_RETURN_IF_ERROR(wait(turn_));  // for the last piece in this slot
    return slot(turn_).pinned.as<std::uint8_t>().data();
  }
  Status take_part(const CanonicalWeights& /*part*/, std::int64_t /*first*/) override { return {}; }
  Status take_piece(const CanonicalWeights& piece, std::int64_t first) override {
    Slot& to = slot(turn_);
    const Shape shape{piece.n * line_};
    auto* device = to.device.as<std::uint8_t>().data();
    to.busy = true;
    to.first = first;
    TERN_RETURN_IF_ERROR(context_.copy({device, DType::u8, shape, context_.device().id},
                                       ConstTensorView(piece.codes, DType::u8, shape), to.stream));
    TERN_RETURN_IF_ERROR(tiler_.launch(to.stream, device, line_, first, piece.n));
    turn_ = (turn_ + 1) % used_;
    return {};
  }
  // Waits for all pieces and returns the error of the earliest piece that has one.
  Status finish() {
    for (int i = 0; i < used_; ++i) (void)wait((turn_ + i) % used_).ok();
    return found_ ? Status(*found_) : Status();
  }

 private:
  struct Slot {
    Tensor pinned, device;
    Stream stream;
    bool busy = false;
    std::int64_t first = 0;  // row
  };
  Slot& slot(int index) { return slots_[static_cast<std::size_t>(index)]; }
  Status wait(int index) {
    Slot& of = slot(index);
    if (!of.busy) return {};
    of.busy = false;
    Status status = tiler_.wait(of.stream, [&](std::int64_t row) -> Result<const std::uint8_t*> {
      return of.pinned.as<const std::uint8_t>().data() + (row - of.first) * line_;
    });
    if (!status.ok() && !found_) found_ = status.error();
    return status;
  }

  const Context& context_;
  const Tiler& tiler_;
  std::int64_t line_ = 0;
  int used_ = 0, turn_ = 0;
  std::optional<Error> found_;  // of the earliest piece
  std::array<Slot, kSlots> slots_;
  detail::OwnStream second_;
};

// Copies rows of bytes from the GPU to the host and waits for them.
Status bring(const Context& context, const Stream& stream, void* to, const void* from, std::int64_t rows,
             std::int64_t line, std::int64_t stride) {
  TERN_RETURN_IF_ERROR(context.copy({to, DType::u8, {rows, line}},
                                    ConstTensorView(from, DType::u8, {rows, line}, {stride, 1}, context.device().id),
                                    stream));
  return stream.synchronize();
}

// Sends codes from host memory or from a reader to the GPU. Returns the checksum.
Result<std::uint64_t> send_rows(const Context& context, const Stream& stream, const CanonicalWeights& w,
                                const std::optional<RowReader>& given, const Tiler& tiler) {
  const std::int64_t line = row_bytes(w.format, w.k);
  const RowReader copier{1, [&w, line](std::int64_t first, std::int64_t count, std::uint8_t* codes) -> Status {
                           const std::uint8_t* from = w.codes + first * w.stride_bytes;
                           if (w.stride_bytes == line) {
                             std::memcpy(codes, from, static_cast<std::size_t>(count * line));
                             return {};
                           }
                           for (std::int64_t i = 0; i < count; ++i)
                             std::memcpy(codes + i * line, from + i * w.stride_bytes, static_cast<std::size_t>(line));
                           return {};
                         }};
  const RowReader& reader = given ? *given : copier;
  const RowPieces pieces = RowPieces::of(w, reader.row_block, kPieceBytes);
  GpuSink sink(context, tiler);
  if (pieces.rows > 0) TERN_RETURN_IF_ERROR(sink.open(stream, pieces, w.n));
  auto sum = pass_rows(w, &reader, pieces, context.state().threads, sink);
  TERN_RETURN_IF_ERROR(sink.finish());  // an error in an earlier piece takes precedence over one of pass_rows()
  return sum;
}

// Tiles codes that are on the GPU already. Returns the checksum, for which the codes are copied to the host in pieces.
Result<std::uint64_t> tile_rows(const Context& context, const Stream& stream, const CanonicalWeights& w,
                                const Tiler& tiler) {
  RunningChecksum sum;
  const RowPieces pieces = RowPieces::of(w, 1, kPieceBytes);
  if (pieces.rows > 0) {
    TERN_RETURN_IF_ERROR(tiler.launch(stream, w.codes, w.stride_bytes, 0, w.n));
    std::vector<std::uint8_t> bad(static_cast<std::size_t>(pieces.line_bytes));
    const auto bring_row = [&](std::int64_t row) -> Result<const std::uint8_t*> {
      TERN_RETURN_IF_ERROR(
          bring(context, stream, bad.data(), w.codes + row * w.stride_bytes, 1, pieces.line_bytes, pieces.line_bytes));
      return bad.data();
    };
    TERN_RETURN_IF_ERROR(tiler.wait(stream, bring_row));
    TERN_ASSIGN(pinned, pinned_memory());
    TERN_ASSIGN(piece, Tensor::allocate(pinned, DType::u8, {pieces.bytes()}, "pinned codes"));
    for (std::int64_t first = 0; first < w.n; first += pieces.rows) {
      const std::int64_t rows = std::min(pieces.rows, w.n - first);
      TERN_RETURN_IF_ERROR(bring(context, stream, piece.data(), w.codes + first * w.stride_bytes, rows,
                                 pieces.line_bytes, w.stride_bytes));
      sum.add(piece.as<const std::uint8_t>().first(static_cast<std::size_t>(rows * pieces.line_bytes)));
    }
  }
  return sum.value_with(scale_bytes(w));
}

}  // namespace

Result<PackedWeights::State> pack_on_gpu(const Context& context, const WeightSource& source,
                                         std::span<std::byte> memory) {
  CanonicalWeights w = source.weights;
  const TileMma tile = TileMma::of(w.n, w.k, mma_bits(w.format));
  auto* codes = reinterpret_cast<std::uint8_t*>(memory.data());
  auto* scales = reinterpret_cast<float*>(
      memory.data() + round_up(static_cast<std::size_t>(tile.bytes()), packed_alignment(DeviceKind::cuda)));

  std::vector<float> host_scales, arranged;
  TERN_ASSIGN(stream, detail::OwnStream::open(context));
  if (source.scales_on.kind == DeviceKind::cuda) {
    host_scales.resize(static_cast<std::size_t>(make_ranges(w.n, w.k, w.granularity).total));
    const auto bytes = static_cast<std::int64_t>(host_scales.size() * sizeof(float));
    TERN_RETURN_IF_ERROR(bring(context, *stream, host_scales.data(), w.scales, 1, bytes, bytes));
    w.scales = host_scales.data();
    TERN_RETURN_IF_ERROR(check_weight_scales(w));
  }
  const Tiler tiler(context, w, codes);
  const bool there = source.codes_on.kind == DeviceKind::cuda;
  TERN_ASSIGN(checksum,
              there ? tile_rows(context, *stream, w, tiler) : send_rows(context, *stream, w, source.reader, tiler));

  const PackedScales packed_scales = PackedScales::of(w.n, w.k, w.granularity);
  arranged.resize(static_cast<std::size_t>(packed_scales.count));
  packed_scales.arrange(w, arranged.data());  // a reader has filled w.scales by now
  const Shape scale_shape{packed_scales.count};
  TERN_RETURN_IF_ERROR(context.copy({scales, DType::f32, scale_shape, context.device().id},
                                    {arranged.data(), DType::f32, scale_shape}, *stream));
  TERN_RETURN_IF_ERROR(stream->synchronize());
  PackedWeights::State state;
  state.n = w.n;
  state.k = w.k;
  state.format = w.format;
  state.granularity = w.granularity;
  state.device = context.device().id;
  state.codes = codes;
  state.scales = scales;
  state.bytes = memory.size();
  state.checksum = checksum;
  return state;
}

}  // namespace tern
