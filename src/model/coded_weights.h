// 8- and 4-bit weights in a checkpoint: ggml's Q8_0 and Q4_0 blocks, or safetensors codes with a tensor of scales.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tern/model.h"

namespace tern {

inline constexpr std::int64_t kCodedGroup = 32;  // columns per scale in ggml's blocks and in what we write

// The format of Q8_0 or Q4_0 (nullopt for other types), and the type of a format.
std::optional<Format> block_format(StoredType type);
StoredType block_type(Format format);

// Views of codes and scales in the file.
struct CodedWeights {
  Format format = Format::s8;
  std::int64_t n = 0, k = 0;
  Granularity granularity;
  std::span<const std::uint8_t> blocks;         // GGUF; empty for safetensors
  std::span<const std::uint8_t> codes, scales;  // safetensors: rows of codes, and f32 scales

  // For a tensor that has ModelTensor::codes. Checks that the scales have the size that the shape requires.
  static Result<CodedWeights> of(const Checkpoint& checkpoint, const ModelTensor& tensor);

  [[nodiscard]] std::int64_t scales_per_row() const;  // 0: one scale for the tensor
  // Writes dense rows of codes and their scales, but no scale if the tensor has only one. A scale that is not finite is
  // an invalid_scale.
  Status read_rows(std::int64_t first, std::int64_t count, std::uint8_t* codes_out, float* scales_out) const;
  // Writes rows as ggml's blocks. Each scale must cover a multiple of 32 columns; a scale that f16 cannot represent is
  // an invalid_scale.
  Status write_blocks(std::int64_t first, std::int64_t count, std::uint8_t* out) const;
  // n values from element `first` on, equal to those of dequantizing to f32.
  void values(std::int64_t first, std::int64_t n, double* out) const;
  [[nodiscard]] float scale_at(std::int64_t row, std::int64_t column) const;
};

struct CodedLoss {
  double signal = 0, noise = 0;  // sums of squares: of the floats, and of the rounding errors
  // The first element of the first block that cannot be stored (a value is not finite, or the scale is too large for
  // f16), or -1.
  std::int64_t bad_element = -1;
};
// Converts floats to the same blocks as ggml's quantize_row_q8_0_ref and quantize_row_q4_0_ref: docs/numerics.md.
// `from` holds whole blocks of elements, and `blocks` has room for all of them. Runs on the calling thread only.
CodedLoss cast_to_blocks(std::span<const std::uint8_t> from, DType from_type, Format format,
                         std::span<std::uint8_t> blocks);
std::size_t coded_bytes(Format format, bool blocks, std::size_t elems);  // without separate scales

}  // namespace tern
