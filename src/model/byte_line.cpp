// All kinds go through one conveyor; they differ in their step.
#include "model/byte_line.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/checked.h"
#include "base/errors.h"
#include "io/little_endian.h"
#include "model/conveyor.h"
#include "model/read_weights.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "write_model";

ByteStep cast(DType from, DType to) {
  const auto alone = std::make_shared<const Threads>(1);
  return {.convert = [=](std::size_t, std::span<const std::uint8_t> in, BytePiece& out) -> Status {
    out.bytes.resize(in.size() / size_of(from) * size_of(to));
    out.cast = cast_floats(*alone, in, from, out.bytes, to);
    return {};
  }};
}

// Rows of codes as the output has them: blocks in GGUF, codes with separate scales in safetensors.
Status reorder(const CodedWeights& coded, std::int64_t first, std::int64_t count, bool blocks, BytePiece& out) {
  out.bytes.resize(coded_bytes(coded.format, blocks, static_cast<std::size_t>(count * coded.k)));
  if (blocks) return coded.write_blocks(first, count, out.bytes.data());
  std::vector<float> scales(static_cast<std::size_t>(count * coded.scales_per_row()));
  TERN_RETURN_IF_ERROR(coded.read_rows(first, count, out.bytes.data(), scales.data()));
  out.scales.clear();
  append_bytes(out.scales, scales);
  return {};
}

// Floats to 8 or 4 bits.
ByteStep code(DType from, Format format, bool blocks) {
  return {.convert = [=](std::size_t at, std::span<const std::uint8_t> in, BytePiece& out) -> Status {
    std::vector<std::uint8_t> made;
    std::vector<std::uint8_t>& to = blocks ? out.bytes : made;
    to.resize(coded_bytes(format, true, in.size() / size_of(from)));
    out.coded = cast_to_blocks(in, from, format, to);
    if (out.coded.bad_element >= 0) {
      const std::int64_t element = static_cast<std::int64_t>(at / size_of(from)) + out.coded.bad_element;
      return error_at(element, Code::non_finite, kWhere,
                      "the block of elements {} to {} has a value that is not finite, or a scale beyond f16", element,
                      element + kCodedGroup - 1);
    }
    if (blocks) return {};
    const auto count = static_cast<std::int64_t>(in.size() / size_of(from)) / kCodedGroup;
    return reorder({format, count, kCodedGroup, Granularity::group(kCodedGroup), made, {}, {}}, 0, count, false, out);
  }};
}

// 8- or 4-bit codes from one container's order to the other's, some rows at a time.
ByteStep recode(const CodedWeights& coded, bool blocks) {
  const std::size_t bytes = std::max(coded.blocks.size(), coded.codes.size());
  if (bytes == 0) return {.checked = true};
  const std::size_t line = bytes / static_cast<std::size_t>(coded.n);
  const auto rows = std::max<std::size_t>(kCopyBytes / static_cast<std::size_t>(coded.k), 1);
  const auto convert = [=](std::size_t at, std::span<const std::uint8_t> in, BytePiece& out) -> Status {
    return reorder(coded, static_cast<std::int64_t>(at / line), static_cast<std::int64_t>(in.size() / line), blocks,
                   out);
  };
  return {.convert = convert, .piece_bytes = rows * line, .checked = true};
}

}  // namespace

Result<ByteStep> ByteStep::of(const Checkpoint& checkpoint, const ModelTensor& tensor, const TensorPlan& plan) {
  if (plan.action == Action::copy) return ByteStep();
  const bool blocks = plan.scale_name.empty();
  if (tensor.codes) {
    TERN_RETURN_IF_ERROR(check_bytes(checkpoint, tensor));
    TERN_ASSIGN(coded, CodedWeights::of(checkpoint, tensor));
    return recode(coded, blocks);
  }
  const DType from = *info(tensor.type).dtype;
  return plan.codes ? code(from, *plan.codes, blocks) : cast(from, *info(plan.type).dtype);
}

ByteLine::ByteLine(ModelFiles& files, const ModelTensor& tensor, ByteStep step, Outcome outcome,
                   std::optional<std::size_t> writer_index)
    : files_(files),
      tensor_(tensor),
      step_(std::move(step)),
      outcome_(std::move(outcome)),
      writer_index_(writer_index),
      bytes_(files.in.data(tensor.index)),
      pieces_(static_cast<std::int64_t>((bytes_.size() + step_.piece_bytes - 1) / step_.piece_bytes)) {}

std::span<const std::uint8_t> ByteLine::input(std::int64_t piece) const {
  const std::size_t at = static_cast<std::size_t>(piece) * step_.piece_bytes;
  return bytes_.subspan(at, std::min(step_.piece_bytes, bytes_.size() - at));
}

Status ByteLine::run() {
  TERN_RETURN_IF_ERROR(writer_index_ ? copy() : convert());
  next_ = pieces_;
  return finish();
}

Status ByteLine::convert() {
  std::vector<BytePiece> places(static_cast<std::size_t>(2 * files_.threads.count() + 2));
  const auto place = [&](std::int64_t at) -> BytePiece& { return places[static_cast<std::size_t>(at)]; };
  const auto fetch = [&](std::int64_t piece) { files_.fetch(input(piece)); };
  const auto step = [&](std::int64_t piece, std::int64_t at) {
    return step_.convert(static_cast<std::size_t>(piece) * step_.piece_bytes, input(piece), place(at));
  };
  const auto sink = [&](std::int64_t piece, std::int64_t at) { return take(piece, place(at)); };
  return Conveyor(files_.threads, static_cast<std::int64_t>(places.size()), &files_.clock)
      .run({.pieces = pieces_, .fetch = fetch, .step = step, .sink = sink});
}

// Nothing is computed but the checksum: one thread does that, another writes.
Status ByteLine::copy() {
  const auto lane = [&](std::int64_t what, std::int64_t) -> Status {
    for (std::int64_t piece = next_; what == 0 && piece < pieces_; ++piece) sum(piece);
    for (std::int64_t piece = next_; what == 1 && piece < pieces_; ++piece)
      TERN_RETURN_IF_ERROR(put(piece, input(piece)));
    return {};
  };
  return Conveyor(files_.threads, 2, &files_.clock).run({.pieces = 2, .step = lane});
}

Status ByteLine::copy_piece() {
  if (next_ < pieces_) {
    sum(next_);
    TERN_RETURN_IF_ERROR(put(next_, input(next_)));
    ++next_;
  }
  return next_ == pieces_ ? finish() : Status();
}

Status ByteLine::take(std::int64_t piece, const BytePiece& made) {
  cast_.add(made.cast);
  coded_.signal += made.coded.signal;
  coded_.noise += made.coded.noise;
  outcome_.scales.insert(outcome_.scales.end(), made.scales.begin(), made.scales.end());
  if (tensor_.checksum && !step_.checked) before_.add(input(piece));
  after_.add(made.bytes);
  return put(piece, made.bytes);
}

// A copy's input is its output.
void ByteLine::sum(std::int64_t piece) {
  files_.fetch(input(piece));
  after_.add(input(piece));
}

Status ByteLine::put(std::int64_t piece, std::span<const std::uint8_t> out) {
  TERN_RETURN_IF_ERROR(files_.write(out, writer_index_));
  const std::size_t end = std::min(static_cast<std::size_t>(piece + 1) * step_.piece_bytes, bytes_.size());
  files_.release(tensor_.index, released_, end, piece + 1 == pieces_);
  return files_.unrelated(outcome_.progress(input(piece).size()));
}

Status ByteLine::finish() {
  const std::span<const std::uint8_t> separate = scale_bytes(files_.in, tensor_);
  if (writer_index_) outcome_.scales.assign(separate.begin(), separate.end());
  after_.add(outcome_.scales);
  TensorReport& report = outcome_.report;
  if (coded_.signal > 0) report.cast_sqnr_db = 10 * std::log10(coded_.signal / coded_.noise);
  report.largest_change = cast_.largest_change;
  report.overflowed = cast_.overflowed;
  report.underflowed = cast_.underflowed;
  report.checksum = after_.value();
  if (!separate.empty()) TERN_RETURN_IF_ERROR(files_.unrelated(outcome_.progress(separate.size())));
  if (step_.checked) return {};
  return files_.unrelated(check_bytes(tensor_, writer_index_ ? after_.value() : before_.value()));
}

}  // namespace tern
