// Reads ternary weights of a checkpoint as canonical codes and scales.
#pragma once

#include <memory>
#include <optional>

#include "model/rows_source.h"
#include "tern/model.h"

namespace tern {

// Ternary weights as stored in a checkpoint, which must outlive this. Invalid codes and scales are reported when they
// are read; the caller compares the checksum after reading all.
class ImportedRows : public RowsSource {
 public:
  static Result<std::unique_ptr<ImportedRows>> make(const Checkpoint& checkpoint, const ModelTensor& tensor);

  [[nodiscard]] std::int64_t row_block() const override { return row_block_; }
  [[nodiscard]] float tensor_scale() const override;
  Status read(RowRange rows, std::uint8_t* codes, float* scales) const override;

 private:
  ImportedRows(const ModelTensor& tensor, std::span<const std::uint8_t> bytes);
  [[nodiscard]] std::size_t inside_scales(std::int64_t rows) const;
  Status read_without_trailer(RowRange rows, const TensorView& codes) const;

  LayoutSpec spec_;
  std::span<const std::uint8_t> bytes_;
  std::optional<Granularity> inside_;
  std::vector<float> given_;  // scales from a separate tensor
  std::int64_t row_block_ = 1;
};

Error wrong_checksum(std::uint64_t found, std::uint64_t said);

Result<QuantizedTensor> read_weights(const Context& context, const Checkpoint& checkpoint, const ModelTensor& tensor);

// The separate scales of 8- or 4-bit codes, or empty. The checksum covers the codes, then these scales.
std::span<const std::uint8_t> scale_bytes(const Checkpoint& checkpoint, const ModelTensor& tensor);

// Checks the checksum of a tensor that is not ternary, if the file states one. The first function computes it from the
// bytes; the second gets it as `found`.
Status check_bytes(const Checkpoint& checkpoint, const ModelTensor& tensor);
Status check_bytes(const ModelTensor& tensor, std::uint64_t found);

// The elements of a tensor in F32, F16 or BF16 as f32, exactly. Other types are refused.
Result<std::vector<float>> read_floats(const Checkpoint& checkpoint, std::size_t index);

}  // namespace tern
