// Weights into the order in which GPU kernels read them, on the GPU. Seen by host code and by .cu files.
#pragma once

#include <cstdint>

#include "ops/cuda_launch.h"
#include "tern/types.h"

namespace tern::linear {

// Rows `row` to `row + rows` of canonical codes of an [n, k] matrix, on their way into its tiles. `row` is a multiple of
// 16, and so is `rows` but for the last piece, which also pads the last tile.
struct TileJob {
  const std::uint8_t* codes = nullptr;  // of row `row`
  std::int64_t stride_bytes = 0;
  Format format = Format::i2;
  std::int64_t n = 0, k = 0;
  std::int64_t row = 0, rows = 0;
  std::uint8_t* tiles = nullptr;  // of the whole matrix: a TileMma
};

// A code that is no trit is reported as an invalid code by its element. Returns the runtime's code.
int tile_launch(const TileJob& job, const cuda::Launch& launch);

}  // namespace tern::linear
