// The ternary layers of known models as linear problems, for `tern bench linear --model`.
#pragma once

#include <string>
#include <vector>

#include "lab/bench.h"

namespace tern::lab {

struct ModelProblem {
  Linear::Problem problem;
  std::int64_t times = 1;  // how often it occurs in the model
};
struct ModelCase {
  std::string name;
  std::int64_t m = 1;
  DType x_dtype = DType::i8;
  std::vector<ModelProblem> problems;
};

// The model of the request: with x in the request's type, or else with int8 (in w2a8) and with f32. An unknown model is
// an error that lists the known ones.
Result<std::vector<ModelCase>> linear_models(const BenchRequest& request);

// A linear problem on filled buffers.
Result<OpCase> bench_linear_problem(const BenchRequest& request, const Context& context,
                                    const Linear::Problem& problem);

}  // namespace tern::lab
