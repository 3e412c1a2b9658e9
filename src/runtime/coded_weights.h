// Weights of 8 and 4 bits in a checkpoint: ggml's Q8_0 and Q4_0, or codes of safetensors with their scales beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/threads.h"
#include "tern/model.h"

namespace tern {

inline constexpr std::int64_t kCodedGroup = 32;  // columns that share a scale in ggml's blocks, and in what is written

// The format of a type of ggml's blocks, if it is one of these; and back.
std::optional<Format> block_format(StoredType type);
StoredType block_type(Format format);

// Codes and scales where the file has them.
struct CodedWeights {
  Format format = Format::s8;
  std::int64_t n = 0, k = 0;
  Granularity granularity;
  std::span<const std::uint8_t> blocks;         // of GGUF; or ...
  std::span<const std::uint8_t> codes, scales;  // ... rows of codes, and f32

  // A tensor with ModelTensor::codes. Sizes are those of the shape.
  static Result<CodedWeights> of(const Checkpoint& checkpoint, const ModelTensor& tensor);

  [[nodiscard]] std::int64_t scales_per_row() const;  // 0: one for the tensor
  // Rows in their format, dense, and their scales; of a tensor's one scale nothing is written. A scale that is not
  // finite is an invalid_scale.
  Status read_rows(std::int64_t first, std::int64_t count, std::uint8_t* codes_out, float* scales_out) const;
  // Rows as ggml's blocks. Each scale is for 32 columns or a multiple; a scale that f16 cannot represent is an
  // invalid_scale.
  Status write_blocks(std::int64_t first, std::int64_t count, std::uint8_t* out) const;
  // n values from an element on, as dequantizing to f32 gives them.
  void values(std::int64_t first, std::int64_t n, double* out) const;
  [[nodiscard]] float scale_at(std::int64_t row, std::int64_t column) const;
};

// Floats to blocks as ggml's own quantize_row_q8_0_ref and quantize_row_q4_0_ref make them: docs/numerics.md. The first
// element of a block that has no scale (not finite, or too large for f16), or -1.
struct CodedLoss {
  double signal = 0, noise = 0;  // sums of squares: of the floats, and of the rounding errors
  std::int64_t bad_element = -1;
};
// `blocks` has room for as many as `from` holds elements, which are whole blocks.
CodedLoss cast_to_blocks(const Threads& threads, std::span<const std::uint8_t> from, DType from_type, Format format,
                         std::span<std::uint8_t> blocks);
// The same blocks as codes in rows; their scales, f32, are appended to a separate list.
CodedLoss cast_to_codes(const Threads& threads, std::span<const std::uint8_t> from, DType from_type, Format format,
                        std::span<std::uint8_t> codes, std::vector<std::uint8_t>& scales);
std::size_t coded_bytes(Format format, bool blocks, std::size_t elems);  // without scales that lie apart

}  // namespace tern
