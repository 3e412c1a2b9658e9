// cuBLAS doing the product of a linear problem on a GPU, in bf16 and in int8, loaded at run time where it is installed.
#pragma once

#include <vector>

#include "lab/bench.h"

namespace tern::lab {

// The product alone, on random data: no scales, no epilogue. Their weights rotate as the request's do.
std::vector<BaselineCase> cublas_baselines(const BenchRequest& request, const Context& context,
                                           const Linear::Problem& problem);

}  // namespace tern::lab
