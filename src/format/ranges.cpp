// Checks of a problem's sizes and of its scales.
#include "format/ranges.h"

#include <cstring>

#include "base/errors.h"
#include "format/format.h"
#include "format/invalid_value.h"

namespace tern {

Status check_extent(std::string_view op, std::int64_t rows, std::int64_t k, DType dtype,
                    const Granularity& granularity) {
  if (rows < 0) return error(Code::invalid_argument, op, "rows is {}; it must not be negative", rows);
  if (k < 0) return error(Code::invalid_argument, op, "k is {}; it must not be negative", k);
  if (granularity.kind == Granularity::Kind::group && granularity.group_size < 1)
    return error(Code::invalid_argument, op, "group size is {}; it must be at least 1", granularity.group_size);
  const auto elements = checked_mul(rows, k);
  if (!elements || !checked_mul(*elements, static_cast<std::int64_t>(size_of(dtype))))
    return error(Code::invalid_argument, op, "{} x {} elements of {} are more than 2^63 - 1 bytes", rows, k,
                 name(dtype));
  return {};
}

Status check_scales(const Where& where, std::string_view argument, const float* scales, std::int64_t count) {
  if (where.device.kind != DeviceKind::cpu) return {};
  for (std::int64_t i = 0; i < count; ++i) {
    float scale = 0;
    std::memcpy(&scale, scales + i, sizeof scale);  // may be unaligned
    if (!valid_scale(scale))
      return with(invalid_scale(scale), error_at(i, Code::invalid_scale, where.op,
                                                 "{}[{}] is {}; it must be finite and above 0", argument, i, scale));
  }
  return {};
}

}  // namespace tern
