// Allocates and fills the buffers that the benches of the affine ops run on.
#include "lab/affine_case.h"

#include <cstring>
#include <vector>

#include "base/errors.h"
#include "format/format.h"
#include "lab/random_weights.h"

namespace tern::lab {
namespace {

constexpr std::int64_t kDefaultRows = 65536;  // times 4096 columns: 1 GiB of f32, larger than most last-level caches
constexpr std::int64_t kDefaultK = 4096;

enum Part : std::size_t { kCodes, kScales, kZeroPoints, kFloats };  // float tensor i is part kFloats + i

}  // namespace

Result<AffineShape> affine_shape(const BenchRequest& request) {
  TERN_RETURN_IF_ERROR(refuse_m(request));
  const bool given = request.rows != 0 || request.k != 0;
  if (given && (request.rows < 1 || request.k < 1))
    return error(Code::invalid_argument, request.op, "a shape of {}x{} leaves nothing to measure", request.rows,
                 request.k);
  AffineShape shape{given ? Shape{request.rows, request.k} : Shape{kDefaultRows, kDefaultK}, {}};
  if (request.granularity.kind == Granularity::Kind::row) shape.granularity = AffineGranularity::token();
  if (request.granularity.kind == Granularity::Kind::group)
    shape.granularity = AffineGranularity::group(request.granularity.group_size);
  return shape;
}

Result<AffineCopies> AffineCopies::make(const BenchRequest& request, const Context& context, const Shape& shape,
                                        const AffineGranularity& granularity, DType dtype, Format format,
                                        const AffineParts& parts) {
  AffineCopies made;
  made.shape_ = shape;
  made.granularity_ = granularity;
  made.dtype_ = dtype;
  made.format_ = format;
  made.parts_ = parts;
  TERN_ASSIGN(scale_count, affine_scale_count(shape, granularity));
  made.scale_count_ = scale_count;
  const std::int64_t elems = shape[0] * shape[1];
  const auto float_bytes = static_cast<std::size_t>(elems) * size_of(dtype);
  const auto code_bytes = static_cast<std::size_t>(shape[0] * row_bytes(parts.mask ? Format::u8 : format, shape[1]));
  const std::size_t scale_bytes = static_cast<std::size_t>(scale_count) * sizeof(float);
  made.bytes_ = static_cast<std::int64_t>(parts.floats * float_bytes + code_bytes + scale_bytes);
  std::vector<std::size_t> sizes = {code_bytes, scale_bytes, scale_bytes};
  sizes.resize(kFloats + parts.floats, float_bytes);
  TERN_ASSIGN(rotation, Rotation::make(request, context, sizes));
  made.rotation_ = std::move(rotation);
  // The weights have a standard deviation of 0.02; the largest code stands for four of them.
  const std::vector<float> scales(static_cast<std::size_t>(scale_count),
                                  0.08F / static_cast<float>(std::max(1, code_range(format).max)));
  for (std::int64_t copy = 0; copy < made.copies(); ++copy) {
    for (std::size_t tensor = 0; tensor < parts.floats; ++tensor)
      TERN_RETURN_IF_ERROR(fill_random_weights(context, static_cast<std::uint64_t>(copy), dtype,
                                               made.rotation_.part(kFloats + tensor, copy), elems));
    TERN_RETURN_IF_ERROR(context.copy(made.scales(copy), {scales.data(), DType::f32, {scale_count}}, context.stream()));
    TERN_RETURN_IF_ERROR(context.stream().synchronize());
    if (context.device().id.kind != DeviceKind::cpu) continue;
    std::memset(made.rotation_.part(kCodes, copy), 0, code_bytes);
    std::memset(made.rotation_.part(kZeroPoints, copy), 0, scale_bytes);
  }
  return made;
}

TensorView AffineCopies::floats(std::int64_t copy, std::size_t tensor) const {
  return {rotation_.part(kFloats + tensor, copy), dtype_, shape_, rotation_.device()};
}
TensorView AffineCopies::codes(std::int64_t copy) const {
  const Format format = parts_.mask ? Format::u8 : format_;
  return {
      rotation_.part(kCodes, copy), code_dtype(format), {shape_[0], row_bytes(format, shape_[1])}, rotation_.device()};
}
TensorView AffineCopies::scales(std::int64_t copy) const {
  return {rotation_.part(kScales, copy), DType::f32, {scale_count_}, rotation_.device()};
}

TensorView AffineCopies::zero_points(std::int64_t copy) const {
  return {rotation_.part(kZeroPoints, copy), DType::i32, {scale_count_}, rotation_.device()};
}

nlohmann::ordered_json AffineCopies::problem() const {
  return {{"rows", shape_[0]},
          {"cols", shape_[1]},
          {"dtype", name(dtype_)},
          {"scheme", "affine"},
          {"granularity", name(granularity_)},
          {"format", name(format_)}};
}

}  // namespace tern::lab
