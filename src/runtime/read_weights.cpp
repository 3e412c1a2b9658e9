// Ternary weights of a checkpoint to canonical codes and scales, by all threads.
#include "runtime/read_weights.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/errors.h"
#include "base/fp_env.h"
#include "format/checksum.h"
#include "format/format.h"
#include "ops/elements.h"
#include "ops/ranges.h"
#include "ops/views.h"
#include "plan/context_state.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "Model::read";
constexpr std::int64_t kElemsPerPiece = std::int64_t{1} << 20;  // 256 KiB of codes: many pieces, little overhead
constexpr std::size_t kTrailerBytes = 32;                       // behind the codes of i2_s

Status import_by_threads(const Threads& threads, const LayoutSpec& spec, std::span<const std::uint8_t> bytes,
                         QuantizedTensor& q, std::span<float> scales) {
  const std::int64_t n = q.rows(), k = q.k(), line = row_bytes(Format::i2, k);
  TERN_ASSIGN(block, layout_row_block(spec, n, k));
  const std::int64_t step = std::max<std::int64_t>(kElemsPerPiece / std::max<std::int64_t>(k, 1) / block, 1) * block;
  const bool by_block = scales_in(spec.layout) && *scales_in(spec.layout) != Granularity::tensor();
  const std::int64_t per_row = n > 0 && by_block ? static_cast<std::int64_t>(scales.size()) / n : 0;
  std::mutex mutex;
  Status failed;
  std::int64_t failed_at = n;
  WorkQueue queue(ceil_div(n, step), 1);
  threads.run(threads.count(), [&](int) {
    for (std::int64_t piece = 0, end = 0; queue.next(piece, end);) {
      const RowRange rows{piece * step, std::min(step, n - piece * step)};
      const TensorView codes{q.codes.as<std::uint8_t>().data() + rows.first * line, DType::u8, {rows.count, line}};
      float one = 1;
      const std::span<float> some = by_block         ? scales.subspan(static_cast<std::size_t>(rows.first * per_row),
                                                                      static_cast<std::size_t>(rows.count * per_row))
                                    : scales.empty() ? std::span<float>()
                                                     : std::span<float>(&one, 1);
      Status status = import_rows(spec, bytes, n, k, rows, codes, some);
      const std::lock_guard lock(mutex);
      if (!status.ok() && rows.first < failed_at) {
        failed = std::move(status);
        failed_at = rows.first;
      } else if (failed.ok() && !by_block && !scales.empty()) {
        scales[0] = one;
      }
    }
  });
  return failed;
}

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
  return error(Code::corrupt_file, kWhere, "'{}': the checksum of its bytes is {:016x}, the file says {:016x}",
               escaped(tensor.name), found, *tensor.checksum);
}

Result<QuantizedTensor> read_weights(const Context& context, const Checkpoint& checkpoint, const ModelTensor& tensor) {
  if (!tensor.ternary) return error(Code::invalid_argument, kWhere, "it is {}, no ternary weights", name(tensor.type));
  if (!tensor.layout) return error(Code::invalid_argument, kWhere, "{}", tensor.unreadable);
  const LayoutSpec& spec = *tensor.layout;
  const std::int64_t n = tensor.n(), k = tensor.k();
  TERN_RETURN_IF_ERROR(check_extent(kWhere, n, k, DType::u8, tensor.granularity));
  QuantizedTensor q;
  q.shape = Shape{n, k};
  q.granularity = tensor.granularity;
  const Ranges ranges = make_ranges(n, k, q.granularity);
  std::vector<float> given;
  if (tensor.scales_index) {  // before anything is allocated: the granularity is what the file says
    TERN_ASSIGN(values, read_floats(checkpoint, *tensor.scales_index));
    if (static_cast<std::int64_t>(values.size()) != ranges.total)
      return error(Code::corrupt_file, kWhere, "{} scales; weights of {} x {} by {} have {}", values.size(), n, k,
                   name(q.granularity), ranges.total);
    given = std::move(values);
  }
  TERN_ASSIGN(codes, Tensor::allocate(host_memory(), DType::u8, {n, row_bytes(Format::i2, k)}, "codes"));
  const Shape scale_shape = ranges.per_row == 0 ? Shape{ranges.total} : Shape{n, ranges.per_row};
  TERN_ASSIGN(scales, Tensor::allocate(host_memory(), DType::f32, scale_shape, "scales"));
  q.codes = std::move(codes);
  q.scales = std::move(scales);
  const std::span<float> all = q.scales.as<float>();

  std::span<const std::uint8_t> bytes = checkpoint.data(tensor.index);
  std::vector<std::uint8_t> with_trailer;
  if (tensor.scales_index) {
    const FpEnvGuard guard;
    for (std::size_t i = 0; i < given.size(); ++i)
      all[i] = tensor.weight_scale == WeightScale::divides ? 1.0F / given[i] : given[i];
    if (scales_in(spec.layout)) {
      with_trailer.assign(bytes.begin(), bytes.end());
      with_trailer.resize(bytes.size() + kTrailerBytes);
      std::memcpy(with_trailer.data() + bytes.size(), all.data(), sizeof(float));
      bytes = with_trailer;
    }
  }
  const bool inside = scales_in(spec.layout).has_value();
  TERN_RETURN_IF_ERROR(import_by_threads(context.state().threads, spec, bytes, q, inside ? all : std::span<float>()));
  TERN_RETURN_IF_ERROR(check_scales(kWhere, "scales", all.data(), static_cast<std::int64_t>(all.size())));
  if (tensor.checksum && q.checksum() != *tensor.checksum)
    return error(Code::corrupt_file, kWhere, "the checksum of trits and scales is {:016x}, the file says {:016x}",
                 q.checksum(), *tensor.checksum);
  return q;
}

}  // namespace tern
