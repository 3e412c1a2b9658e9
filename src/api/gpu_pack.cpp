// Weights on their way to a GPU: pieces of rows through pinned memory, tiled by a kernel as they arrive.
#include "api/gpu_pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/errors.h"
#include "format/format.h"
#include "ops/linear/cuda_tile.h"
#include "ops/ranges.h"
#include "ops/views.h"
#include "plan/own_stream.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "pack";
constexpr std::int64_t kPieceBytes = 16 << 20;
constexpr int kSlots = 2;

struct Slot {
  Tensor pinned, device;
  Stream stream;
};

class Packer {
 public:
  Packer(const Context& context, const Stream& stream, const CanonicalWeights& weights, std::uint8_t* tiles)
      : context_(context), stream_(stream), w_(weights), line_(row_bytes(weights.format, weights.k)), tiles_(tiles) {}

  // Codes that lie on the GPU.
  Status tile() {
    TERN_RETURN_IF_ERROR(launch(stream_, w_.codes, w_.stride_bytes, 0, w_.n));
    return stream_.synchronize();
  }
  // Codes that lie on the host.
  Status tile_in_pieces() {
    const std::int64_t rows = std::clamp<std::int64_t>(kPieceBytes / std::max<std::int64_t>(line_, 1), TileMma::kRows,
                                                       std::max(w_.n, TileMma::kRows)) /
                              TileMma::kRows * TileMma::kRows;
    TERN_ASSIGN(pinned, pinned_memory());
    const std::int64_t pieces = ceil_div(w_.n, rows);
    detail::OwnStream second;
    if (pieces > 1) {
      TERN_ASSIGN(opened, detail::OwnStream::open(context_));
      second = std::move(opened);
    }
    for (int i = 0; i < std::min<std::int64_t>(kSlots, pieces); ++i) {
      TERN_ASSIGN(stage, Tensor::allocate(pinned, DType::u8, {rows * line_}, "pinned codes"));
      TERN_ASSIGN(piece, context_.allocate(DType::u8, {rows * line_}, "piece of codes"));
      slots_[i] = {std::move(stage), std::move(piece), i == 0 ? stream_ : *second};
    }
    Status status;
    int turn = 0;
    for (std::int64_t row = 0; row < w_.n && status.ok(); row += rows, turn = (turn + 1) % kSlots)
      status = send(slots_[turn], row, std::min(rows, w_.n - row));
    for (Slot& slot : slots_) {
      if (slot.pinned.bytes() == 0) continue;
      Status found = slot.stream.synchronize();  // a piece under way uses its memory, whatever came of the others
      if (status.ok()) status = std::move(found);
    }
    return status;
  }

 private:
  Status send(Slot& slot, std::int64_t row, std::int64_t rows) {
    TERN_RETURN_IF_ERROR(slot.stream.synchronize());  // the piece before
    auto* stage = slot.pinned.as<std::uint8_t>().data();
    const std::uint8_t* from = w_.codes + row * w_.stride_bytes;
    for (std::int64_t i = 0; i < rows; ++i)
      std::memcpy(stage + i * line_, from + i * w_.stride_bytes, static_cast<std::size_t>(line_));
    TERN_RETURN_IF_ERROR(context_.copy({slot.device.data(), DType::u8, {rows * line_}, context_.device().id},
                                       {stage, DType::u8, {rows * line_}}, slot.stream));
    return launch(slot.stream, slot.device.as<std::uint8_t>().data(), line_, row, rows);
  }
  Status launch(const Stream& stream, const std::uint8_t* codes, std::int64_t stride, std::int64_t row,
                std::int64_t rows) {
    detail::Gpu& gpu = *context_.state().gpu;
    TERN_ON_GPU(gpu.index());
    TERN_ASSIGN(run, gpu.start(detail::ContextState::lane(stream), kWhere, w_.k));
    const linear::TilePiece piece{
        .format = w_.format, .n = w_.n, .k = w_.k, .first_row = row, .rows = rows, .stride_bytes = stride};
    TERN_RETURN_IF_ERROR(
        cuda::launched(linear::cuda_tile.tile({.piece = piece, .codes = codes, .tiles = tiles_}, run.launch)));
    return gpu.finish(run, "pack.cuda");
  }

  const Context& context_;
  const Stream stream_;
  const CanonicalWeights& w_;
  std::int64_t line_;
  std::uint8_t* tiles_;
  std::array<Slot, kSlots> slots_;
};

// A copy on the host of what lies on the GPU.
Result<Tensor> to_host(const Context& context, const Stream& stream, const void* data, std::int64_t rows,
                       std::int64_t line, std::int64_t stride, DeviceId on) {
  TERN_ASSIGN(host, Tensor::allocate(host_memory(), DType::u8, {rows * line}, "pack"));
  TERN_RETURN_IF_ERROR(context.copy({host.data(), DType::u8, {rows, line}},
                                    ConstTensorView(data, DType::u8, {rows, line}, {stride, 1}, on), stream));
  TERN_RETURN_IF_ERROR(stream.synchronize());
  return host;
}

}  // namespace

Result<PackedWeights::State> pack_on_gpu(const Context& context, const CanonicalWeights& given, WeightPlaces places,
                                         std::span<std::byte> memory) {
  const std::int64_t line = row_bytes(given.format, given.k),
                     ranges = make_ranges(given.n, given.k, given.granularity).total;
  const TileMma tile = TileMma::of(given.n, given.k, mma_bits(given.format));
  const PackedScales packed_scales = PackedScales::of(given.n, given.k, given.granularity);
  auto* codes = reinterpret_cast<std::uint8_t*>(memory.data());
  auto* scales = reinterpret_cast<float*>(
      memory.data() + round_up(static_cast<std::size_t>(tile.bytes()), packed_alignment(DeviceKind::cuda)));

  TERN_ASSIGN(stream, detail::OwnStream::open(context));

  // The host's view: scales are arranged there, and the checksum is of the canonical bytes.
  CanonicalWeights host = given;
  Tensor host_scales, host_codes;
  if (places.scales.kind == DeviceKind::cuda) {
    TERN_ASSIGN(copy, to_host(context, *stream, given.scales, 1, 4 * ranges, 4 * ranges, places.scales));
    host_scales = std::move(copy);
    host.scales = host_scales.as<float>().data();
  }
  TERN_RETURN_IF_ERROR(check_weight_scales(host));
  std::vector<float> arranged(static_cast<std::size_t>(packed_scales.count));
  packed_scales.arrange_for_gpu(host, arranged.data());
  const Shape scale_shape{packed_scales.count};
  TERN_RETURN_IF_ERROR(context.copy({scales, DType::f32, scale_shape, context.device().id},
                                    {arranged.data(), DType::f32, scale_shape}, *stream));

  if (given.n > 0 && given.k > 0) {
    const bool on_host = places.codes.kind == DeviceKind::cpu;
    Packer packer(context, *stream, given, codes);
    if (Status status = on_host ? packer.tile_in_pieces() : packer.tile(); !status.ok()) {
      if (on_host && status.code() == Code::invalid_quantized_value) return invalid_code_error(given);
      return std::move(status).error();
    }
    if (!on_host) {
      TERN_ASSIGN(copy, to_host(context, *stream, given.codes, given.n, line, given.stride_bytes, places.codes));
      host_codes = std::move(copy);
      host.codes = host_codes.as<std::uint8_t>().data();
      host.stride_bytes = line;
    }
  }
  TERN_RETURN_IF_ERROR(stream->synchronize());
  PackedWeights::State state;
  state.n = given.n;
  state.k = given.k;
  state.format = given.format;
  state.granularity = given.granularity;
  state.device = context.device().id;
  state.codes = codes;
  state.scales = scales;
  state.bytes = memory.size();
  state.checksum = checksum_of(host);
  return state;
}

}  // namespace tern
