// Packs canonical rows into the tiles that GPUs read, both in device memory. Host code includes this header; the
// kernels are in cuda_tile.cu.
#pragma once

#include <cstdint>

#include "ops/cuda_launch.h"
#include "tern/types.h"

namespace tern::dot {

// Rows [first_row, first_row + rows) of a matrix [n, k]. first_row is a multiple of 16, and so is rows except in the
// piece that ends at n.
struct TilePiece {
  Format format = Format::i2;  // i2, b3, s8 or s4
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t stride_bytes = 0;  // between canonical rows
};

// Fills the tiles of a piece, padding included. An i2 or b3 code that is no trit is reported as cuda::kInvalidCode with
// index row * k + column, and its weight becomes 0.
struct TileJob {
  TilePiece piece = {};
  const std::uint8_t* codes = nullptr;  // of the piece's first row
  std::uint8_t* tiles = nullptr;        // TileMma of the whole matrix, aligned to 16 bytes
};

// Puts its kernels on the stream; 0, or the cudaError_t of a launch.
struct CudaTiling {
  int (*tile)(const TileJob& job, const cuda::Launch& launch);
};
extern const CudaTiling cuda_tile;

}  // namespace tern::dot
