// Baselines that compute the product of a linear problem with cuBLAS, in bf16 and int8, loaded at run time if it is
// installed.
#pragma once

#include <vector>

#include "lab/bench.h"

namespace tern::lab {

// Only the product, on random data: no scales, no epilogue. Their weights rotate like those of the request.
std::vector<BaselineCase> cublas_baselines(const BenchRequest& request, const Context& context,
                                           const Linear::Problem& problem);

}  // namespace tern::lab
