// Random weights: bell-shaped, as large as a network's, the same for every thread count, made at memory speed.
#pragma once

#include <cstdint>

#include "device/threads.h"
#include "tern/context.h"
#include "tern/types.h"

namespace tern::lab {

// Element i is a function of (seed, i) alone: mean 0, standard deviation 0.02, |x| < 0.07.
float random_weight(std::uint64_t seed, std::int64_t index);

// In any float type.
void fill_random_weights(const Threads& threads, std::uint64_t seed, DType dtype, void* data, std::int64_t count);
// In memory of a context, on whichever device.
Status fill_random_weights(const Context& context, std::uint64_t seed, DType dtype, void* data, std::int64_t count);

}  // namespace tern::lab
