// Checkpoints: safetensors and GGUF files, mapped to be read and streamed to be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/export.h"
#include "tern/metadata.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

enum class Container : std::uint8_t { safetensors, gguf };

// The element type of a stored tensor. Types without a DType are carried as bytes; the library computes nothing with
// them.
enum class StoredType : std::uint8_t {
  // clang-format off
  f64, f32, f16, bf16,
  i64, i32, i16, i8,
  // safetensors only
  u64, u32, u16, u8, boolean, c64,
  f8_e4m3, f8_e5m2, f8_e8m0, f8_e4m3fnuz, f8_e5m2fnuz,
  f6_e2m3, f6_e3m2, f4,
  // GGUF only: llama.cpp's blocks
  q4_0, q4_1, q5_0, q5_1, q8_0, q8_1,
  q2_k, q3_k, q4_k, q5_k, q6_k, q8_k,
  iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq4_nl, iq4_xs,
  q4_0_4_4, q4_0_4_8, q4_0_8_8,
  tq1_0, tq2_0, mxfp4, nvfp4, q1_0, q2_0, q2_0_g128,
  // GGUF only: bitnet.cpp's, with a float scale after the codes
  i2_s, i8_s, tl1, tl2,
  // clang-format on
};

struct StoredTypeInfo {
  StoredType type = StoredType::f32;
  std::string_view name;            // "F32", "TQ2_0": as the containers spell it
  std::int64_t block_elements = 1;  // consecutive elements of the innermost axis that are stored together ...
  std::int64_t block_bytes = 1;     // ... and the bytes they take; stored_bytes() knows what i2_s, tl1 and tl2 add
  int gguf_id = -1;                 // the id that is written; -1: GGUF has none
  bool in_safetensors = false;      // under the same name
  std::optional<DType> dtype;       // set for types that Tern computes with
};

TERN_API const StoredTypeInfo& info(StoredType);
TERN_API std::span<const StoredTypeInfo> stored_types();  // every one, in the order of the enum
TERN_API std::string_view name(StoredType);
TERN_API std::string_view name(Container);
TERN_API Result<StoredType> parse_stored_type(std::string_view);  // case-insensitive: "tq2_0" is "TQ2_0"
TERN_API Result<Container> parse_container(std::string_view);
TERN_API StoredType stored_type(DType);

// The bytes of a tensor of this type and shape (i2_s takes k*n/4 + 32, for instance), or an error that says why the
// shape does not fit.
TERN_API Result<std::size_t> stored_bytes(StoredType, std::span<const std::int64_t> shape);

struct StoredTensor {
  std::string name;  // as it is in the file: print it through escaped()
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;  // row-major, outermost first, in both containers
  std::size_t bytes = 0;
  int gguf_id = -1;  // the type's id in a GGUF file, read or to be written; -1: the usual one of the type
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

struct OpenOptions {
  // What GGUF's ids 39 and 42 mean. Programs disagree (MXFP4 or TL2; Q2_0, Q2_0_G128 or TL2). Sizes and metadata nearly
  // always decide; where they do not, open() fails and lists the types to choose from.
  std::vector<StoredType> gguf_types;
};

struct CheckpointFile {
  std::string path;
  std::size_t bytes = 0;
};

// A checkpoint of one or more files, mapped read-only. Copies share the mapping; every method may be called from any
// thread. Pages are read when they are touched, so the files must not be shortened while a Checkpoint is open.
class Checkpoint {
 public:
  // A .safetensors or .gguf file (known by its first bytes, not by its name), an index of shards such as
  // model.safetensors.index.json, the first part of a split GGUF model (model-00001-of-00003.gguf: the others must lie
  // beside it), or a folder that holds one of these.
  static TERN_API Result<Checkpoint> open(const std::string& path, const OpenOptions& options = {});

  [[nodiscard]] TERN_API Container container() const;
  [[nodiscard]] TERN_API const std::string& path() const;                // as given to open()
  [[nodiscard]] TERN_API std::span<const CheckpointFile> files() const;  // shards or parts in order
  [[nodiscard]] TERN_API std::span<const StoredTensor> tensors() const;  // in the order of their bytes, file by file
  [[nodiscard]] TERN_API std::optional<std::size_t> find(std::string_view name) const;  // an index into tensors()
  [[nodiscard]] TERN_API const Metadata& metadata() const;  // all values of safetensors are strings; shards are merged
  // What open() found odd but acceptable, such as an index whose total size is not that of the tensors.
  [[nodiscard]] TERN_API std::span<const std::string> notes() const;
  [[nodiscard]] TERN_API std::size_t total_bytes() const;  // of all tensors

  // The bytes of tensors()[index], at any alignment. Valid while any copy of the checkpoint exists.
  [[nodiscard]] TERN_API std::span<const std::uint8_t> data(std::size_t index) const;
  // A hint that part of a tensor is not needed soon, so that its pages may leave memory. Reading it again works, but
  // slowly.
  TERN_API void release(std::size_t index, std::size_t offset_bytes, std::size_t bytes) const;

 private:
  struct Impl;
  explicit Checkpoint(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Writes a checkpoint from its first byte to its last. create() fixes all sizes; then the bytes follow, in the order of
// the tensors. The file appears under its name only when finish() succeeds.
class CheckpointWriter {
 public:
  // Refuses what the container cannot hold: a type that it has no name for, duplicate names, byte counts that do not
  // match type and shape, metadata of safetensors that are not strings. A tensor's `bytes` may be 0: it is filled in. A
  // GGUF file is aligned by `general.alignment` where the metadata have it.
  static TERN_API Result<CheckpointWriter> create(const std::string& path, Container container,
                                                  const Metadata& metadata, std::vector<StoredTensor> tensors);
  TERN_API ~CheckpointWriter();
  TERN_API CheckpointWriter(CheckpointWriter&&) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;

  [[nodiscard]] TERN_API std::span<const StoredTensor> tensors() const;  // in the order in which bytes are expected
  [[nodiscard]] TERN_API std::size_t file_bytes() const;                 // that the whole file will have

  // Appends bytes, in pieces of any size; a piece must not extend past the end of a tensor.
  TERN_API Status write(std::span<const std::uint8_t> bytes);
  // Moves on to the next tensor. The bytes of the current one, of which none may be written yet, are left to fill().
  TERN_API Status skip();
  // Appends bytes to tensors()[index], which was skipped, in pieces of any size: for bytes that are known only later,
  // or that are copied beside the others. All of them must be there when finish() is called.
  TERN_API Status fill(std::size_t index, std::span<const std::uint8_t> bytes);
  // Replaces the metadata by others that take the same space in the file: the same keys, with strings of the same
  // lengths.
  TERN_API Status replace_metadata(const Metadata& metadata);
  // Completes the file. When bytes are missing it fails and leaves no file behind.
  TERN_API Status finish();

 private:
  struct Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern
