// Baselines that compute the convolution of a problem: oneDNN in int8 and in f32, im2col with OpenBLAS, plain loops.
#pragma once

#include <vector>

#include "lab/bench.h"
#include "tern/conv2d.h"

namespace tern::lab {

// Only the convolution: no scales, no epilogue. oneDNN gets activations and weights in the layouts that it asks for,
// and OpenBLAS gets weights that were already made f32; making them is not timed. The libraries are loaded at run time
// if they are installed.
std::vector<BaselineCase> conv2d_baselines(const BenchRequest& request, const Context& context,
                                           const Conv2d::Problem& problem);

}  // namespace tern::lab
