// The properties of a QuantizedTensor, and its validation.
#include "base/checked.h"
#include "base/errors.h"
#include "base/views.h"
#include "format/checksum.h"
#include "format/format.h"
#include "format/invalid_value.h"
#include "format/ranges.h"
#include "tern/quantize.h"

namespace tern {

std::int64_t QuantizedTensor::k() const { return shape.rank() == 0 ? 1 : shape[shape.rank() - 1]; }

std::int64_t QuantizedTensor::rows() const {
  std::int64_t rows = 1;
  // If this overflows, an axis is 0 or element_count() refuses the shape.
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows = checked_mul(rows, shape[axis]).value_or(0);
  return rows;
}

std::int64_t QuantizedTensor::block_size() const { return make_ranges(rows(), k(), granularity).len; }

std::uint64_t QuantizedTensor::checksum() const {
  if (codes.view().device.kind != DeviceKind::cpu || scales.view().device.kind != DeviceKind::cpu) return 0;
  return tern::checksum(quantized_data(), scales.as<const std::uint8_t>());
}

Status validate(const QuantizedTensor& q) {
  constexpr std::string_view kWhere = "validate";
  auto elements = element_count(q.shape);
  if (!elements.ok()) return std::move(elements).error();
  const std::int64_t rows = q.rows(), k = q.k();
  TERN_RETURN_IF_ERROR(check_extent(kWhere, rows, k, DType::f32, q.granularity));
  if (!holds(q.format, q.scheme))
    return error(Code::invalid_argument, kWhere, "{} codes are not stored as {}; they are {}", name(q.scheme),
                 name(q.format), holders_of(q.scheme));
  TERN_RETURN_IF_ERROR(
      check_dense(kWhere, "codes", q.codes.view(), code_dtype(q.format), rows * row_bytes(q.format, k)));
  const std::int64_t ranges = make_ranges(rows, k, q.granularity).total;
  TERN_RETURN_IF_ERROR(check_dense(kWhere, "scales", q.scales.view(), DType::f32, ranges));
  TERN_RETURN_IF_ERROR(check_scales(kWhere, "scales", q.scales.as<float>().data(), ranges));
  if (*elements == 0) return {};
  const CodeRange valid = code_range(q.scheme);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint8_t* codes = q.quantized_data().data() + row * row_bytes(q.format, k);
    const std::int64_t bad = first_invalid_code(q.format, q.scheme, codes, k);
    if (bad < 0) continue;
    InvalidValue found = invalid_code(q.format, q.scheme, codes, k, bad);
    if (bad == k)
      return with(found, error(Code::invalid_quantized_value, kWhere, "the padding of row {} is not zero trits", row));
    return with(found, error_at(row * k + bad, Code::invalid_quantized_value, kWhere,
                                "codes[{}, {}] is {}; {} has codes from {} to {}", row, bad,
                                read_code(q.format, codes, bad), name(q.scheme), valid.min, valid.max));
  }
  return {};
}

}  // namespace tern
