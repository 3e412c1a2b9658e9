// What the benches of the affine ops share: floats, codes and scales in rotating copies.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "lab/bench.h"
#include "lab/plan_subject.h"
#include "lab/rotation.h"
#include "tern/affine.h"

namespace tern::lab {

// The shape and granularity of a request; granularity row becomes token. Refuses an m and an empty shape.
struct AffineShape {
  Shape shape;
  AffineGranularity granularity;
};
Result<AffineShape> affine_shape(const BenchRequest& request);

// The buffers of an op besides scales: a number of float tensors, and bytes for codes or for a mask of one byte an
// element.
struct AffineParts {
  std::size_t floats = 1;
  bool mask = false;
};

class AffineCopies {
 public:
  // Fills every copy with random floats and with scales that use the whole range of the codes. The codes are zeros, so
  // that their pages exist. The problem must be one that a plan accepts.
  static Result<AffineCopies> make(const BenchRequest& request, const Context& context, const Shape& shape,
                                   const AffineGranularity& granularity, DType dtype, Format format,
                                   const AffineParts& parts);

  [[nodiscard]] std::int64_t copies() const { return rotation_.copies(); }
  [[nodiscard]] TensorView floats(std::int64_t copy, std::size_t tensor = 0) const;
  [[nodiscard]] TensorView codes(std::int64_t copy) const;  // or the mask
  [[nodiscard]] TensorView scales(std::int64_t copy) const;
  [[nodiscard]] TensorView zero_points(std::int64_t copy) const;
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }  // of one copy: floats + codes + scales
  [[nodiscard]] const std::string& note() const { return rotation_.note(); }
  [[nodiscard]] nlohmann::ordered_json problem() const;

 private:
  Shape shape_;
  AffineGranularity granularity_;
  DType dtype_ = DType::f32;
  Format format_ = Format::s8;
  AffineParts parts_;
  std::int64_t scale_count_ = 0;
  std::int64_t bytes_ = 0;
  Rotation rotation_;
};

// Builds the case of an op. `problem` lacks only the shape and types, which are taken from the request; args_of(copies,
// i) makes the arguments of copy i.
template <class Op, class ArgsOf>
Result<OpCase> affine_case(const BenchRequest& request, const Context& context, typename Op::Problem problem,
                           Limit limit, const AffineParts& parts, ArgsOf args_of) {
  TERN_ASSIGN(shape, affine_shape(request));
  problem.shape = shape.shape;
  problem.granularity = shape.granularity;
  problem.dtype = request.dtype.value_or(DType::f32);
  problem.format = request.format.value_or(Format::s8);
  TERN_RETURN_IF_ERROR(check_kernels<Op>(request, context, problem));
  TERN_ASSIGN(made, AffineCopies::make(request, context, problem.shape, problem.granularity, problem.dtype,
                                       problem.format, parts));
  const auto copies = std::make_shared<const AffineCopies>(std::move(made));
  std::vector<typename Op::Args> args;
  for (std::int64_t i = 0; i < copies->copies(); ++i) args.push_back(args_of(*copies, i));
  OpCase op_case;
  op_case.problem = copies->problem();
  op_case.bytes = copies->bytes();
  op_case.limit = limit;
  if (!copies->note().empty()) op_case.notes.push_back(copies->note());
  op_case.ready = [copies, problem, args](const Context& on, const Preference& preference) {
    return plan_subject<Op>(on, problem, preference, args, copies);
  };
  return op_case;
}

}  // namespace tern::lab
