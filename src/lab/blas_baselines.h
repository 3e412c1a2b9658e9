// OpenBLAS in f32 and oneDNN in int8 doing the product of a linear problem, loaded at run time where they are
// installed.
#pragma once

#include <vector>

#include "lab/bench.h"

namespace tern::lab {

// The product alone: no scales, no epilogue. Their weights rotate as the request's do.
std::vector<BaselineCase> blas_baselines(const BenchRequest& request, const Context& context,
                                         const Linear::Problem& problem);

}  // namespace tern::lab
