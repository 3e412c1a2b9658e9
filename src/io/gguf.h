// The GGUF format, versions 2 and 3, little-endian: read strictly from untrusted bytes, written as llama.cpp reads it.
//
//   ["GGUF"][version: u32][tensors: u64][keys: u64]
//   keys:     [name][kind: u32][value]                                   a name or text is [n: u64][n bytes]
//   tensors:  [name][axes: u32][size: u64, innermost first]...[type id: u32][offset: u64]
//   zeros up to a multiple of general.alignment (32 if that key is absent), then the tensors, each on such a multiple
//
// Offsets count from the first tensor. A tensor's size is not in the file: it follows from type id and shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/container.h"
#include "tern/status.h"

namespace tern::gguf {

inline constexpr std::size_t kDefaultAlignment = 32;
inline constexpr std::size_t kMaxAlignment = std::size_t{1} << 20;  // padding must stay small compared with the tensors
inline constexpr std::size_t kMaxRank = 4;                          // ggml's
inline constexpr std::size_t kMaxNesting = 16;                      // of arrays in arrays
inline constexpr std::string_view kAlignmentKey = "general.alignment";

bool has_magic(std::span<const std::uint8_t> file);

// Parses the directory of a whole file, and checks that exactly the tensors follow it. If the file is a later part of a
// model, `of_model` is the metadata of the first part: later parts do not say which program wrote them.
Result<ParsedContainer> parse(std::span<const std::uint8_t> file, const OpenOptions& options = {},
                              const Metadata* of_model = nullptr);

// Plans a file with the tensors in the given order, and fills in their bytes.
Result<PlannedContainer> plan(const Metadata& metadata, std::vector<StoredTensor>& tensors);

// The alignment that the metadata asks for.
Result<std::size_t> alignment_of(const Metadata& metadata);

// One tensor of the directory before its type is settled.
struct Claim {
  StoredTensor tensor;  // name, shape and gguf_id; settle_types() sets type and bytes
  std::uint64_t offset = 0;
  std::size_t room_bytes = 0;  // from the offset to the next tensor or the end of the file
};

// Gives every claim its type and bytes. An id that means several types gets one meaning for the whole file: the type
// that fits the room of all its tensors; if several fit, the type that the metadata suggests; otherwise it is an error.
Status settle_types(std::vector<Claim>& claims, std::size_t alignment, const Metadata& metadata,
                    const OpenOptions& options);

}  // namespace tern::gguf
