// Files: tensors as .npy or as raw elements, quantized tensors as .npz, whole models as checkpoints. Output appears
// under its name only when it is whole.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tern/checkpoint.h"
#include "tern/export.h"
#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/tensor.h"

namespace tern {

// A .npy file mapped into memory, read-only; its pages are read when they are touched, so nobody may shorten the file
// meanwhile. () is a scalar: rank 0, one element.
class NpyFile {
 public:
  static TERN_API Result<NpyFile> open(const std::string& path);
  // The same of a file that holds nothing but the elements, little-endian and dense: just as many as the shape has.
  // A file that begins as .npy does is refused: it says itself what it holds.
  static TERN_API Result<NpyFile> open_raw(const std::string& path, DType dtype, const Shape& shape);
  [[nodiscard]] TERN_API ConstTensorView view() const;
  [[nodiscard]] TERN_API const std::string& path() const;

 private:
  struct Impl;
  explicit NpyFile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Told now and then how many of how many bytes are written.
using Progress = std::function<void(std::size_t done_bytes, std::size_t total_bytes)>;

TERN_API Status save_npy(const std::string& path, const ConstTensorView& tensor, const Progress& progress = {});
// The elements alone, as open_raw() reads them; for bf16, which .npy has no name for.
TERN_API Status save_raw(const std::string& path, const ConstTensorView& tensor, const Progress& progress = {});

// An .npz of codes.npy, scales.npy and meta.npy (a JSON text: scheme, granularity, format, shape, version, checksum).
TERN_API Status save_quantized(const std::string& path, const QuantizedTensor& tensor, const Progress& progress = {});
TERN_API Result<QuantizedTensor> load_quantized(const std::string& path,
                                                const std::shared_ptr<MemoryResource>& memory = nullptr);

}  // namespace tern
