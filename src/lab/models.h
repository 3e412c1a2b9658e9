// The layers of known models as problems of an op, for `tern bench OP --model NAME`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/bench.h"
#include "lab/plan_subject.h"
#include "tern/conv2d.h"

namespace tern::lab {

struct ModelProblem {
  std::function<Status(const BenchRequest&, const Context&)> check;  // whether a kernel takes it
  std::function<Result<OpCase>(const BenchRequest&, const Context&)> bench;
  std::int64_t times = 1;  // how often it occurs in the model
};
struct ModelCase {
  std::string name;
  std::string layers, item;  // as in ModelSummary
  std::int64_t m = 1;
  DType x_dtype = DType::i8;
  std::vector<ModelProblem> problems;
};

// A problem on filled buffers: in the op's bench.cpp.
template <class Op>
Result<OpCase> bench_problem(const BenchRequest& request, const Context& context, const typename Op::Problem& problem);

// The model of a request, once for each of x_dtypes(). An unknown model is an error that lists the known ones.
template <class Op>
Result<std::vector<ModelCase>> models_of(const BenchRequest& request);

template <>
Result<OpCase> bench_problem<Linear>(const BenchRequest&, const Context&, const Linear::Problem&);
template <>
Result<OpCase> bench_problem<Conv2d>(const BenchRequest&, const Context&, const Conv2d::Problem&);
template <>
Result<std::vector<ModelCase>> models_of<Linear>(const BenchRequest&);
template <>
Result<std::vector<ModelCase>> models_of<Conv2d>(const BenchRequest&);

template <class Op>
ModelProblem model_problem(const typename Op::Problem& problem, std::int64_t times) {
  return {.check = [problem](const BenchRequest& request,
                             const Context& context) { return check_kernels<Op>(request, context, problem); },
          .bench = [problem](const BenchRequest& request,
                             const Context& context) { return bench_problem<Op>(request, context, problem); },
          .times = times};
}

// Refuses a model that is not one of `known`, and a shape beside it.
Status check_model(const BenchRequest& request, std::span<const std::string_view> known);
// The type of the request, or else int8 (in w2a8) and f32.
std::vector<DType> x_dtypes(const BenchRequest& request);

// A layer of a convolutional network, without batch, and how often it occurs.
struct ConvLayer {
  WindowWords window;
  std::int64_t times = 1;
};
// All convolutions of a network on images of 224 x 224, in the order of their first occurrence; empty if it is not
// known.
std::vector<ConvLayer> conv2d_layers(std::string_view model);

nlohmann::ordered_json window_json(const Conv2d::Problem& problem);

}  // namespace tern::lab
