// Reading a mapped file ahead of the work on it, so that progress is seen and computing is timed alone.
#pragma once

#include <cstddef>
#include <optional>

#include "progress_bar.h"
#include "tern/tensor.h"

namespace tern::cli {

std::size_t dense_bytes(const ConstTensorView& view);  // of a view that io made: its size fits

// Touches every page and answers the seconds it took; nothing when the file is too large to stay in memory, where
// reading it twice would cost more than the progress is worth.
std::optional<double> read_ahead(const ConstTensorView& view, std::size_t available_bytes, ProgressBar& bar);

}  // namespace tern::cli
