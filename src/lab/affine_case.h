// What the benches of the affine ops share: floats, codes and scales in rotating copies.
#pragma once

#include <cstdint>

#include "lab/bench.h"
#include "lab/rotation.h"
#include "tern/affine.h"

namespace tern::lab {

// The shape and granularity a request speaks of; row is token. Refuses an m and an empty shape.
struct AffineShape {
  Shape shape;
  AffineGranularity granularity;
};
Result<AffineShape> affine_shape(const BenchRequest& request);

class AffineCopies {
 public:
  // Random floats in every copy, scales that use the range of the codes; codes zero, their pages touched. The problem
  // must be one that a plan took.
  static Result<AffineCopies> make(const BenchRequest& request, const Context& context, const Shape& shape,
                                   const AffineGranularity& granularity, DType dtype, Format format);

  [[nodiscard]] std::int64_t copies() const { return rotation_.copies(); }
  [[nodiscard]] TensorView floats(std::int64_t copy) const;
  [[nodiscard]] TensorView codes(std::int64_t copy) const;
  [[nodiscard]] TensorView scales(std::int64_t copy) const;
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }  // of one copy: floats + codes + scales
  [[nodiscard]] const std::string& note() const { return rotation_.note(); }
  [[nodiscard]] nlohmann::ordered_json problem() const;

 private:
  Shape shape_;
  AffineGranularity granularity_;
  DType dtype_ = DType::f32;
  Format format_ = Format::s8;
  std::int64_t scale_count_ = 0;
  std::int64_t bytes_ = 0;
  Rotation rotation_;
};

}  // namespace tern::lab
