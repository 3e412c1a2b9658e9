// Reads a mapped file before the work on it, to show progress and to time computing alone.
#pragma once

#include <cstddef>
#include <optional>

#include "progress_bar.h"
#include "tern/tensor.h"

namespace tern::cli {

std::size_t dense_bytes(const ConstTensorView& view);  // for views made by io, whose size does not overflow

// Touches every page and returns the seconds it took. Does nothing and returns nothing if the file is too large to stay
// in memory: reading it twice would cost more than the progress bar is worth.
std::optional<double> read_ahead(const ConstTensorView& view, std::size_t available_bytes, ProgressBar& bar);

}  // namespace tern::cli
