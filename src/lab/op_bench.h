// How an op takes part in the bench: its operands in rotating copies, filled, and a plan for them. An op says in its
// bench.cpp what bounds it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "lab/op_record.h"
#include "lab/plan_subject.h"
#include "lab/random_weights.h"
#include "lab/rotation.h"
#include "ops/ops.h"

namespace tern::lab {

template <class Op>
struct BenchFacts {
  Limit limit = Limit::streaming_read;
  std::int64_t rows = 65536, k = 4096;                      // where the request has no shape
  void (*adjust)(typename Op::Problem& problem) = nullptr;  // what words cannot say
  // Makes the operands of a copy valid, where random floats, small scales and zeros are not.
  Status (*fill)(const Context& context, const typename Op::Problem& problem, const typename Op::Args& args) = nullptr;
  // The case of a GPU whose input is in host memory, where the op has one.
  Result<OpCase> (*from_host)(const BenchRequest& request, const Context& context, const ProblemWords& words) = nullptr;
  std::vector<std::string> notes = {};
};

// What an op's bench.cpp defines: the facts; or, if its calls have more than plain tensors, the whole case.
template <class Op>
BenchFacts<Op> bench_facts();
template <class Op>
Result<OpCase> own_bench(const BenchRequest& request, const Context& context);
#define OP(name, Op)                \
  template <>                       \
  BenchFacts<Op> bench_facts<Op>(); \
  template <>                       \
  Result<OpCase> own_bench<Op>(const BenchRequest& request, const Context& context);
TERN_OPS(OP)
#undef OP

// The words of a request, with the op's usual shape. Refuses an m that the op does not have, and an empty shape.
Result<ProblemWords> words_of(const BenchRequest& request, Words known, std::int64_t rows, std::int64_t k);

// Fills one operand: floats with random weights, scales so that the largest code stands for four standard deviations,
// the rest with zeros. Outputs are zeroed on a CPU, so that their pages exist.
struct OperandFill {
  const Context& context;
  std::uint64_t seed = 0;
  int largest_code = 1;
  Status operator()(std::string_view name, DType dtype, const Shape& shape, void* data, bool is_output) const;
};

template <class Op>
Result<OpCase> operand_case(const BenchRequest& request, const Context& context) {
  using Args = typename Op::Args;
  const BenchFacts<Op> facts = bench_facts<Op>();
  TERN_ASSIGN(words, words_of(request, OpTraits<Op>::kWords, facts.rows, facts.k));
  typename Op::Problem problem = OpTraits<Op>::problem(words);
  if (facts.adjust != nullptr) facts.adjust(problem);
  TERN_RETURN_IF_ERROR(check_kernels<Op>(request, context, problem));
  if (request.from_host && facts.from_host == nullptr)
    return error(Code::invalid_argument, "BenchRequest::from_host", "{} takes no input from the host", request.op);
  if (request.from_host) return facts.from_host(request, context, words);

  OpCase op_case;
  op_case.limit = facts.limit;
  op_case.notes = facts.notes;
  op_case.problem = find_op(OpTraits<Op>::kName)->json(words);
  if constexpr (requires { problem.m; }) op_case.problem["rows"] = problem.m;
  Args args;
  std::vector<std::size_t> bytes;
  OpTraits<Op>::operands(problem, args, [&](const char*, auto&, DType dtype, const Shape& shape) {
    bytes.push_back(static_cast<std::size_t>(*element_count(shape)) * size_of(dtype));
    op_case.bytes += static_cast<std::int64_t>(bytes.back());
  });
  TERN_ASSIGN(made, Rotation::make(request, context, bytes));
  const auto rotation = std::make_shared<const Rotation>(std::move(made));
  if (!rotation->note().empty()) op_case.notes.push_back(rotation->note());
  std::vector<Args> copies;
  for (std::int64_t copy = 0; copy < rotation->copies(); ++copy) {
    OperandFill fill{.context = context, .seed = static_cast<std::uint64_t>(copy)};
    if constexpr (requires { problem.format; }) fill.largest_code = std::max(1, code_range(problem.format).max);
    std::size_t part = 0;
    Status status;
    OpTraits<Op>::operands(problem, args, [&](const char* name, auto& view, DType dtype, const Shape& shape) {
      void* data = rotation->part(part++, copy);
      view = {data, dtype, shape, rotation->device()};
      if (status.ok()) status = fill(name, dtype, shape, data, std::is_same_v<decltype(view), TensorView&>);
    });
    TERN_RETURN_IF_ERROR(std::move(status));
    if (facts.fill != nullptr) TERN_RETURN_IF_ERROR(facts.fill(context, problem, args));
    copies.push_back(args);
  }
  op_case.ready = [rotation, problem, copies](const Context& on, const Preference& preference) {
    return plan_subject<Op>(on, problem, preference, copies, rotation);
  };
  return op_case;
}

template <class Op>
Result<OpCase> bench_of(const BenchRequest& request, const Context& context) {
  if constexpr (requires(typename Op::Problem p, typename Op::Args args) {
                  OpTraits<Op>::operands(p, args, [](const char*, auto&, DType, const Shape&) {});
                })
    return operand_case<Op>(request, context);
  else
    return own_bench<Op>(request, context);
}

}  // namespace tern::lab
