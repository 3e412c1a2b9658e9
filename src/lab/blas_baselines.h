// Baselines that compute the product of a linear problem: OpenBLAS in f32 and oneDNN in int8, loaded at run time if
// they are installed.
#pragma once

#include <vector>

#include "lab/bench.h"

namespace tern::lab {

// Only the product: no scales, no epilogue. Their weights rotate like those of the request.
std::vector<BaselineCase> blas_baselines(const BenchRequest& request, const Context& context,
                                         const Linear::Problem& problem);

}  // namespace tern::lab
