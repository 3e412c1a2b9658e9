// Files: tensors as .npy or as raw elements, quantized tensors as .npz, whole models as checkpoints. Output appears
// under its name only when it is whole; a name that is a link is followed, and what it leads to must be a plain file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tern/checkpoint.h"
#include "tern/export.h"
#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/tensor.h"

namespace tern {

// A .npy file mapped into memory, read-only. Its pages are read when they are touched, so the file must not be
// shortened meanwhile. The shape () is a scalar: rank 0, one element.
class NpyFile {
 public:
  static TERN_API Result<NpyFile> open(const std::string& path);
  // The same for a file of bare elements, little-endian and dense, exactly as many as the shape has. A file that begins
  // with the magic of .npy is refused, because it describes itself.
  static TERN_API Result<NpyFile> open_raw(const std::string& path, DType dtype, const Shape& shape);
  [[nodiscard]] TERN_API ConstTensorView view() const;
  [[nodiscard]] TERN_API const std::string& path() const;

 private:
  struct Impl;
  explicit NpyFile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Called every few MiB with the bytes written so far and the total.
using Progress = std::function<void(std::size_t done_bytes, std::size_t total_bytes)>;

TERN_API Status save_npy(const std::string& path, const ConstTensorView& tensor, const Progress& progress = {});
// Writes the bare elements, as open_raw() reads them. Needed for bf16, which .npy cannot express.
TERN_API Status save_raw(const std::string& path, const ConstTensorView& tensor, const Progress& progress = {});

// Takes the bytes of an output in their order, as a pipe or a socket can. It takes all of them or returns an error,
// which the call then returns. After an error, what it took is an incomplete file, and the reader must discard it.
using ByteWriter = std::function<Status(std::span<const std::uint8_t> bytes)>;

// The bytes of the files above and below. A checkpoint cannot be written like this, because its header contains
// checksums that are known only at its end.
TERN_API Status write_npy(const ByteWriter& writer, const ConstTensorView& tensor, const Progress& progress = {});
TERN_API Status write_raw(const ByteWriter& writer, const ConstTensorView& tensor, const Progress& progress = {});
TERN_API Status write_quantized(const ByteWriter& writer, const QuantizedTensor& tensor, const Progress& progress = {});

// An .npz of codes.npy, scales.npy and meta.npy (a JSON text: scheme, granularity, format, shape, version, checksum).
TERN_API Status save_quantized(const std::string& path, const QuantizedTensor& tensor, const Progress& progress = {});
TERN_API Result<QuantizedTensor> load_quantized(const std::string& path,
                                                const std::shared_ptr<MemoryResource>& memory = nullptr);

}  // namespace tern
