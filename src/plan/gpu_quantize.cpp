// Quantizes a host tensor on a GPU. Each piece is copied in, quantized and copied out on a stream of its own, so that
// copies in both directions and kernels overlap.
//
//     slot 0   | in 0 |k| out 0 |        | in 3 |k| out 3 |
//     slot 1          | in 1 |k| out 1 |        | in 4 |...
//     slot 2                 | in 2 |k| out 2 |
//
// Host memory that is not pinned is staged through pinned memory by the context's threads.
#include "plan/gpu_quantize.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/checked.h"
#include "base/errors.h"
#include "base/views.h"
#include "format/format.h"
#include "format/ranges.h"
#include "plan/own_stream.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "quantize";
constexpr int kPieceSlots = 3;
constexpr std::int64_t kStageBytes = 1 << 20;  // what a thread copies at once

// Some rows, or a part of one row.
struct RowsPiece {
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, k = 0;
};

// Splits a tensor into pieces of at most `most` elements.
class Pieces {
 public:
  Pieces(const TernaryQuantize::Problem& p, std::int64_t most) : p_(p) {
    rows_ = std::clamp<std::int64_t>(most / p.k, 0, p.rows);
    k_ = p.k;
    if (p.granularity.kind == Granularity::Kind::tensor) rows_ = rows_ == p.rows ? rows_ : 0;
    if (rows_ > 0 || p.granularity.kind != Granularity::Kind::group) return;
    k_ = most / unit() * unit();
    rows_ = k_ > 0 ? 1 : 0;
  }
  [[nodiscard]] bool possible() const { return rows_ > 0; }
  // Elements of the smallest possible piece.
  [[nodiscard]] std::int64_t least() const {
    if (p_.granularity.kind == Granularity::Kind::tensor) return p_.rows * p_.k;
    return p_.granularity.kind == Granularity::Kind::group ? std::min(p_.k, unit()) : p_.k;
  }
  [[nodiscard]] std::int64_t most_rows() const { return rows_; }
  [[nodiscard]] std::int64_t most_k() const { return k_; }
  bool next(RowsPiece& piece) {
    if (row_ == p_.rows) return false;
    piece = {row_, k_ == p_.k ? std::min(rows_, p_.rows - row_) : 1, column_, std::min(k_, p_.k - column_)};
    column_ += piece.k;
    if (column_ == p_.k) {
      column_ = 0;
      row_ += piece.rows;
    }
    return true;
  }

 private:
  // The unit of pieces that are shorter than a row: whole groups that end on a byte boundary.
  [[nodiscard]] std::int64_t unit() const {
    const std::int64_t group = std::clamp<std::int64_t>(p_.granularity.group_size, 1, p_.k);
    return std::max<std::int64_t>(1, std::lcm(group, std::int64_t{codes_per_byte(p_.format)}));
  }

  const TernaryQuantize::Problem& p_;
  std::int64_t rows_ = 0, k_ = 0, row_ = 0, column_ = 0;
};

// The buffers of one piece in flight: device memory, then pinned host memory.
struct PieceSlot {
  Tensor x, codes, scales, given, workspace;
  Tensor x_stage, codes_stage, scales_stage;
  bool busy = false;
  RowsPiece piece;
  detail::OwnStream own;  // last, so that it is destroyed first and waits: a piece in flight uses the rest
};

class Pipeline {
 public:
  Pipeline(const Context& context, const TernaryQuantize::Problem& problem, const ConstTensorView& x, RowView rows,
           const QuantizeOptions& options, const QuantizedTensor& q)
      : context_(context),
        p_(problem),
        x_(static_cast<const std::byte*>(x.data)),
        stride_(rows.stride * static_cast<std::int64_t>(size_of(problem.dtype))),
        options_(options),
        q_(q),
        ranges_(make_ranges(problem.rows, problem.k, problem.granularity)),
        elem_bytes_(static_cast<std::int64_t>(size_of(problem.dtype))) {}

  Status run() {
    // Elements of a piece: x, its codes (at most a byte each) and scales must fit kPieceSlots times.
    const std::int64_t budget = static_cast<std::int64_t>(options_.device_bytes) / kPieceSlots;
    const std::int64_t len = std::max<std::int64_t>(1, std::min(ranges_.len, p_.k));
    const std::int64_t milli_bytes = elem_bytes_ * 1000 + 1000 / codes_per_byte(p_.format) + 8000 / len + 1;
    Pieces pieces(p_, (budget - kReserve) / milli_bytes * 1000);
    if (!pieces.possible()) {
      const std::int64_t piece_bytes = kReserve + ceil_div(pieces.least(), 1000) * milli_bytes;
      const auto needed = static_cast<std::uint64_t>(
          checked_mul(piece_bytes, kPieceSlots).value_or(std::numeric_limits<std::int64_t>::max()));
      return with(
          MemoryShortage{.needed_bytes = needed, .free_bytes = options_.device_bytes},
          error(Code::insufficient_memory, kWhere,
                "{} x {} {} by {} cannot be quantized in {} bytes of {}: a {} must fit {} times; give device_bytes "
                "{} or more",
                p_.rows, p_.k, name(p_.dtype), name(p_.granularity), options_.device_bytes, name(context_.device().id),
                p_.granularity.kind == Granularity::Kind::tensor ? "tensor" : "row or group", kPieceSlots, needed));
    }
    TERN_ASSIGN(pinned, pinned_memory());
    pinned_ = std::move(pinned);
    stage_ = !cuda::pinned(x_);
    most_ = {0, pieces.most_rows(), 0, pieces.most_k()};
    int turn = 0;
    for (RowsPiece piece; pieces.next(piece); turn = (turn + 1) % kPieceSlots) {
      PieceSlot& slot = slots_[static_cast<std::size_t>(turn)];
      if (slot.busy)
        TERN_RETURN_IF_ERROR(drain(slot));
      else if (slot.x.bytes() == 0)
        TERN_RETURN_IF_ERROR(open(slot));
      TERN_RETURN_IF_ERROR(start(slot, piece));
    }
    for (int i = 0; i < kPieceSlots; ++i, turn = (turn + 1) % kPieceSlots)
      if (slots_[static_cast<std::size_t>(turn)].busy)
        TERN_RETURN_IF_ERROR(drain(slots_[static_cast<std::size_t>(turn)]));
    return {};
  }

 private:
  static constexpr std::int64_t kReserve = 1 << 18;  // for what is rounded up

  [[nodiscard]] std::int64_t ranges_of(const RowsPiece& piece) const {
    return make_ranges(piece.rows, piece.k, p_.granularity).total;
  }
  [[nodiscard]] std::int64_t first_range(const RowsPiece& piece) const {
    return ranges_.per_row == 0 ? 0 : piece.row * ranges_.per_row + piece.column / ranges_.len;
  }

  Result<Tensor> bytes(const std::shared_ptr<MemoryResource>& memory, std::int64_t count, const char* tag) {
    return Tensor::allocate(memory, DType::u8, {count}, tag);
  }

  Status open(PieceSlot& slot) {
    TERN_ASSIGN(own, detail::OwnStream::open(context_));
    slot.own = std::move(own);
    const std::int64_t x_bytes = most_.rows * most_.k * elem_bytes_,
                       codes_bytes = most_.rows * row_bytes(p_.format, most_.k),
                       scales_bytes = ranges_of(most_) * static_cast<std::int64_t>(sizeof(float));
    const auto& device = context_.memory();
    TERN_ASSIGN(x, bytes(device, x_bytes, "piece of x"));
    TERN_ASSIGN(codes, bytes(device, codes_bytes, "piece of codes"));
    TERN_ASSIGN(scales, bytes(device, scales_bytes, "piece of scales"));
    TERN_ASSIGN(given, bytes(device, p_.scale_given ? scales_bytes : 0, "piece of given scales"));
    TERN_ASSIGN(codes_stage, bytes(pinned_, codes_bytes, "pinned codes"));
    TERN_ASSIGN(scales_stage, bytes(pinned_, scales_bytes, "pinned scales"));
    TERN_ASSIGN(x_stage, bytes(pinned_, stage_ ? x_bytes : 0, "pinned x"));
    slot.x = std::move(x);
    slot.codes = std::move(codes);
    slot.scales = std::move(scales);
    slot.given = std::move(given);
    slot.codes_stage = std::move(codes_stage);
    slot.scales_stage = std::move(scales_stage);
    slot.x_stage = std::move(x_stage);
    return {};
  }

  // Copies rows of host memory with all threads of the context.
  void copy_rows(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                 std::int64_t row_bytes_, std::int64_t rows) const {
    const Threads& threads = context_.state().threads;
    const std::int64_t parts = std::max<std::int64_t>(1, ceil_div(row_bytes_, kStageBytes));
    WorkQueue queue(rows * parts, std::max<std::int64_t>(1, kStageBytes / std::max<std::int64_t>(row_bytes_, 1)));
    const std::int64_t slots = std::clamp<std::int64_t>(rows * row_bytes_ / kStageBytes, 1, threads.count());
    threads.run(static_cast<int>(slots), [&](int) {
      for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = i / parts, at = i % parts * kStageBytes;
          std::memcpy(to + row * to_stride + at, from + row * from_stride + at,
                      static_cast<std::size_t>(std::min(kStageBytes, row_bytes_ - at)));
        }
    });
  }

  Status start(PieceSlot& slot, const RowsPiece& piece) {
    const std::int64_t line = piece.k * elem_bytes_, code_line = row_bytes(p_.format, piece.k),
                       ranges = ranges_of(piece);
    const std::byte* from = x_ + piece.row * stride_ + piece.column * elem_bytes_;
    std::int64_t from_stride = stride_;
    if (stage_) {
      copy_rows(slot.x_stage.as<std::byte>().data(), line, from, stride_, line, piece.rows);
      from = slot.x_stage.as<std::byte>().data();
      from_stride = line;
    }
    const DeviceId device = context_.device().id;
    const auto host = [](const void* data, DType dtype, const Shape& shape, const Shape& strides) {
      return ConstTensorView(data, dtype, shape, strides, DeviceId{});
    };
    TERN_RETURN_IF_ERROR(context_.copy({slot.x.data(), p_.dtype, {piece.rows, piece.k}, device},
                                       host(from, p_.dtype, {piece.rows, piece.k}, {from_stride / elem_bytes_, 1}),
                                       *slot.own));
    TernaryQuantize::Problem problem = p_;
    problem.rows = piece.rows;
    problem.k = piece.k;
    TERN_ASSIGN(plan, TernaryQuantizePlan::select(context_, problem, options_.preference));
    if (slot.workspace.bytes() < plan.workspace_bytes()) {
      TERN_ASSIGN(workspace, bytes(context_.memory(), static_cast<std::int64_t>(plan.workspace_bytes()), "workspace"));
      slot.workspace = std::move(workspace);
    }
    TernaryQuantize::Args args{.x = {slot.x.data(), p_.dtype, {piece.rows, piece.k}, device},
                               .codes = {slot.codes.data(), code_dtype(p_.format), {piece.rows, code_line}, device},
                               .scales = {slot.scales.data(), DType::f32, {ranges}, device}};
    if (p_.scale_given) {
      const bool one = options_.scale.size() == 1;
      const Shape count{one ? 1 : ranges};
      args.given_scale = {slot.given.data(), DType::f32, count, device};
      const float* scales = options_.scale.data() + (one ? 0 : first_range(piece));
      TERN_RETURN_IF_ERROR(context_.copy({slot.given.data(), DType::f32, count, device},
                                         ConstTensorView(scales, DType::f32, count), *slot.own));
    }
    TERN_RETURN_IF_ERROR(plan.run(*slot.own, slot.workspace.as<std::byte>(), args));
    TERN_RETURN_IF_ERROR(context_.copy({slot.codes_stage.data(), DType::u8, {piece.rows * code_line}},
                                       {slot.codes.data(), DType::u8, {piece.rows * code_line}, device}, *slot.own));
    TERN_RETURN_IF_ERROR(
        context_.copy({slot.scales_stage.data(), DType::f32, {ranges}}, ConstTensorView(args.scales), *slot.own));
    slot.piece = piece;
    slot.busy = true;
    return {};
  }

  // Waits for a piece and copies its results into the tensor.
  Status drain(PieceSlot& slot) {
    const RowsPiece& piece = slot.piece;
    slot.busy = false;
    if (Status status = slot.own->synchronize(); !status.ok()) return in_the_tensor(std::move(status).error(), piece);
    const std::int64_t code_line = row_bytes(p_.format, piece.k), whole_line = row_bytes(p_.format, p_.k);
    std::byte* codes =
        q_.codes.as<std::byte>().data() + piece.row * whole_line + piece.column / codes_per_byte(p_.format);
    copy_rows(codes, whole_line, slot.codes_stage.as<std::byte>().data(), code_line, code_line, piece.rows);
    const std::int64_t scales_bytes = ranges_of(piece) * static_cast<std::int64_t>(sizeof(float));
    copy_rows(reinterpret_cast<std::byte*>(q_.scales.as<float>().data() + first_range(piece)), scales_bytes,
              slot.scales_stage.as<std::byte>().data(), scales_bytes, scales_bytes, 1);
    return {};
  }

  // Converts a finding in a piece to the index and message for the whole tensor.
  [[nodiscard]] Error in_the_tensor(Error found, const RowsPiece& piece) const {
    if (found.index < 0) return found;
    if (found.code == Code::invalid_scale) {
      found.index += first_range(piece);
      found.message =
          fmt::format("the scale of range {} must be finite, above 0 and at most the largest f32", found.index);
    } else {
      const std::int64_t row = piece.row + found.index / piece.k, column = piece.column + found.index % piece.k;
      found.index = row * p_.k + column;
      found.message = fmt::format("x[{}, {}] (element {}) is not finite; mend it, or ask for non_finite = saturate",
                                  row, column, found.index);
    }
    return found;
  }

  const Context& context_;
  const TernaryQuantize::Problem& p_;
  const std::byte* x_;
  std::int64_t stride_;  // bytes
  const QuantizeOptions& options_;
  const QuantizedTensor& q_;
  Ranges ranges_;
  std::int64_t elem_bytes_;
  std::shared_ptr<MemoryResource> pinned_;
  bool stage_ = true;
  RowsPiece most_;
  std::array<PieceSlot, kPieceSlots> slots_;
};

}  // namespace

std::size_t quantize_device_bytes(const TernaryQuantize::Problem& p, bool x_on_host, std::size_t workspace_bytes,
                                  const QuantizeOptions& options) {
  const Ranges ranges = make_ranges(p.rows, p.k, p.granularity);
  const auto codes = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(row_bytes(p.format, p.k));
  const auto scales = static_cast<std::size_t>(ranges.total) * sizeof(float);
  const std::size_t results = codes + scales + options.scale.size() * sizeof(float) + workspace_bytes;
  if (!x_on_host) return results;
  const std::size_t x = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.k) * size_of(p.dtype);
  return std::min(options.device_bytes, x + results);
}

Status quantize_in_pieces(const Context& context, const TernaryQuantize::Problem& problem, const ConstTensorView& x,
                          const QuantizeOptions& options, const QuantizedTensor& q) {
  TERN_ASSIGN(rows, as_rows(kWhere, "x", x, problem.dtype, problem.rows, problem.k));
  if (problem.scale_given)
    TERN_RETURN_IF_ERROR(
        check_scales(kWhere, "scale", options.scale.data(), static_cast<std::int64_t>(options.scale.size())));
  Pipeline pipeline(context, problem, x, rows, options, q);
  return pipeline.run();
}

}  // namespace tern
