// Reads ternary weights of a checkpoint as canonical codes and scales.
#include "model/read_weights.h"

#include <algorithm>
#include <cstring>

#include "base/elements.h"
#include "base/errors.h"
#include "base/fp_env.h"
#include "base/views.h"
#include "format/checksum.h"
#include "format/format.h"
#include "format/layout.h"
#include "format/ranges.h"
#include "model/conveyor.h"
#include "plan/context_state.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "Model::read";
constexpr std::int64_t kElemsPerPiece = std::int64_t{1} << 20;  // 256 KiB of codes: many pieces, little overhead

}  // namespace

Result<std::vector<float>> read_floats(const Checkpoint& checkpoint, std::size_t index) {
  const StoredTensor& stored = checkpoint.tensors()[index];
  const auto dtype = info(stored.type).dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    return error(Code::unsupported, kWhere, "'{}' is {}; it must be F32, F16 or BF16", escaped(stored.name),
                 name(stored.type));
  const std::span<const std::uint8_t> bytes = checkpoint.data(index);
  std::vector<float> values(bytes.size() / size_of(*dtype));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(read_element(bytes.data(), *dtype, static_cast<std::int64_t>(i)));
  return values;
}

std::span<const std::uint8_t> scale_bytes(const Checkpoint& checkpoint, const ModelTensor& tensor) {
  return tensor.codes && tensor.scales_index ? checkpoint.data(*tensor.scales_index) : std::span<const std::uint8_t>();
}

Status check_bytes(const Checkpoint& checkpoint, const ModelTensor& tensor) {
  if (tensor.ternary || !tensor.checksum) return {};
  return check_bytes(tensor, checksum(checkpoint.data(tensor.index), scale_bytes(checkpoint, tensor)));
}

Status check_bytes(const ModelTensor& tensor, std::uint64_t found) {
  if (tensor.ternary || !tensor.checksum || found == *tensor.checksum) return {};
  return error(Code::corrupt_file, kWhere,
               "'{}' is damaged: the checksum of its bytes is {:016x}, the file says {:016x}", escaped(tensor.name),
               found, *tensor.checksum);
}

ImportedRows::ImportedRows(const ModelTensor& tensor, std::span<const std::uint8_t> bytes)
    : RowsSource(tensor.n(), tensor.k(), tensor.granularity),
      spec_(*tensor.layout),
      bytes_(bytes),
      inside_(scales_in(spec_.layout)) {}

Result<std::unique_ptr<ImportedRows>> ImportedRows::make(const Checkpoint& checkpoint, const ModelTensor& tensor) {
  if (!tensor.ternary) return error(Code::invalid_argument, kWhere, "it is {}, not ternary weights", name(tensor.type));
  if (!tensor.layout) return error(Code::invalid_argument, kWhere, "{}", tensor.unreadable);
  const std::int64_t n = tensor.n(), k = tensor.k();
  TERN_RETURN_IF_ERROR(check_extent(kWhere, n, k, DType::u8, tensor.granularity));
  std::unique_ptr<ImportedRows> rows(new ImportedRows(tensor, checkpoint.data(tensor.index)));
  TERN_ASSIGN(block, layout_row_block(rows->spec_, n, k));
  rows->row_block_ = row_of(rows->spec_.layout).runs > 1 ? 1 : block;
  if (tensor.scales_index && rows->inside_) {
    TERN_ASSIGN(bytes, layout_bytes(rows->spec_, n, k));
    if (rows->bytes_.size() + kTrailerBytes != bytes)
      return error(Code::corrupt_file, kWhere, "{} x {} in {} takes {} bytes without the scale; it has {}", n, k,
                   name(rows->spec_.layout), bytes - kTrailerBytes, rows->bytes_.size());
  }
  if (tensor.scales_index) {  // before anything is allocated, because the granularity comes from the file
    TERN_ASSIGN(values, read_floats(checkpoint, *tensor.scales_index));
    if (static_cast<std::int64_t>(values.size()) != rows->scale_count(n))
      return error(Code::corrupt_file, kWhere, "there are {} scales; weights of {} x {} by {} have {}", values.size(),
                   n, k, name(tensor.granularity), rows->scale_count(n));
    const FpEnvGuard guard;
    if (tensor.weight_scale == WeightScale::divides)
      for (float& value : values) value = 1.0F / value;
    TERN_RETURN_IF_ERROR(check_scales(kWhere, "scales", values.data(), static_cast<std::int64_t>(values.size())));
    rows->given_ = std::move(values);
  }
  return rows;
}

float ImportedRows::tensor_scale() const {
  if (!given_.empty()) return given_[0];
  float scale = 0;
  if (bytes_.size() >= kTrailerBytes) std::memcpy(&scale, bytes_.data() + bytes_.size() - kTrailerBytes, sizeof scale);
  return scale == 0 ? 1 : scale;  // a matrix of zeros may have 0; read() refuses it for others
}

Status ImportedRows::read(RowRange rows, std::uint8_t* codes, float* scales) const {
  const std::int64_t line = row_bytes(Format::i2, k());
  const std::int64_t before = rows.first % row_block_;
  if (before != 0 || rows.count % row_block_ != 0) {  // read the whole blocks that contain these rows
    const RowRange whole{rows.first - before, ceil_div(before + rows.count, row_block_) * row_block_};
    std::vector<std::uint8_t> more(static_cast<std::size_t>(whole.count * line));
    std::vector<float> their_scales(static_cast<std::size_t>(scale_count(whole.count)));
    TERN_RETURN_IF_ERROR(read(whole, more.data(), their_scales.data()));
    std::memcpy(codes, more.data() + before * line, static_cast<std::size_t>(rows.count * line));
    const std::int64_t first = granularity() == Granularity::tensor() ? 0 : scale_count(before);
    std::copy_n(their_scales.begin() + first, scale_count(rows.count), scales);
    return {};
  }
  const TensorView out{codes, DType::u8, {rows.count, line}};
  if (given_.empty()) return import_rows(spec_, bytes_, n(), k(), rows, out, {scales, inside_scales(rows.count)});
  if (inside_) {
    TERN_RETURN_IF_ERROR(read_without_trailer(rows, out));
  } else {
    TERN_RETURN_IF_ERROR(import_rows(spec_, bytes_, n(), k(), rows, out, {}));
  }
  const std::int64_t first = granularity() == Granularity::tensor() ? 0 : scale_count(rows.first);
  std::copy_n(given_.begin() + first, scale_count(rows.count), scales);
  return {};
}

std::size_t ImportedRows::inside_scales(std::int64_t rows) const {
  return inside_ ? static_cast<std::size_t>(scale_count(rows)) : 0;
}

// i2_s with a separate scale has no trailer. Copies the rows (whole blocks, which are contiguous), appends a trailer,
// and imports the result as a small matrix.
Status ImportedRows::read_without_trailer(RowRange rows, const TensorView& codes) const {
  TERN_ASSIGN(bytes, layout_bytes(spec_, rows.count, k()));
  const std::size_t code_bytes = bytes - kTrailerBytes;
  const std::size_t block_bytes = code_bytes / static_cast<std::size_t>(rows.count / row_block_);
  const std::size_t begin = static_cast<std::size_t>(rows.first / row_block_) * block_bytes;
  std::vector<std::uint8_t> with_trailer(bytes);
  std::memcpy(with_trailer.data(), bytes_.data() + begin, code_bytes);
  std::memcpy(with_trailer.data() + code_bytes, given_.data(), sizeof(float));
  float ignored = 0;
  return import_rows(spec_, with_trailer, rows.count, k(), {0, rows.count}, codes, {&ignored, 1});
}

Result<QuantizedTensor> read_weights(const Context& context, const Checkpoint& checkpoint, const ModelTensor& tensor) {
  TERN_ASSIGN(source, ImportedRows::make(checkpoint, tensor));
  const std::int64_t n = source->n(), k = source->k(), line = row_bytes(Format::i2, k);
  QuantizedTensor q;
  q.shape = Shape{n, k};
  q.granularity = tensor.granularity;
  const Ranges ranges = make_ranges(n, k, q.granularity);
  TERN_ASSIGN(codes, Tensor::allocate(host_memory(), DType::u8, {n, line}, "codes"));
  const Shape scale_shape = ranges.per_row == 0 ? Shape{ranges.total} : Shape{n, ranges.per_row};
  TERN_ASSIGN(scales, Tensor::allocate(host_memory(), DType::f32, scale_shape, "scales"));
  q.codes = std::move(codes);
  q.scales = std::move(scales);
  std::uint8_t* to = q.codes.as<std::uint8_t>().data();
  float* scales_to = q.scales.as<float>().data();

  const std::int64_t block =
      row_of(tensor.layout->layout).runs > 1 ? std::max<std::int64_t>(n, 1) : source->row_block();
  const std::int64_t step = std::max<std::int64_t>(kElemsPerPiece / std::max<std::int64_t>(k, 1) / block, 1) * block;
  const bool one = ranges.per_row == 0;  // one scale, which every piece returns
  Conveyor conveyor(context.state().threads, 2 * context.state().threads.count());
  const auto read = [&](std::int64_t piece, std::int64_t) {
    const RowRange rows{piece * step, std::min(step, n - piece * step)};
    float same = 0;
    return source->read(rows, to + rows.first * line, one ? &same : scales_to + rows.first * ranges.per_row);
  };
  TERN_RETURN_IF_ERROR(conveyor.run({.pieces = ceil_div(n, step), .step = read}));
  if (one && ranges.total > 0) scales_to[0] = source->tensor_scale();
  if (tensor.checksum && q.checksum() != *tensor.checksum) return wrong_checksum(q.checksum(), *tensor.checksum);
  return q;
}

Error wrong_checksum(std::uint64_t found, std::uint64_t said) {
  return error(Code::corrupt_file, kWhere,
               "it is damaged: the checksum of trits and scales is {:016x}, the file says {:016x}", found, said);
}

}  // namespace tern
