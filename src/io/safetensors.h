// The safetensors format: its header, read strictly from untrusted bytes and written as its library reads it.
//
//   byte 0        8                                                                      8 + n
//   [n: u64][{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}   ][tensors ...]
//
// Offsets count from byte 8 + n. The tensors cover everything after the header: no holes, no overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/container.h"
#include "tern/status.h"

namespace tern::safetensors {

inline constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the format's limit

// Whether a file begins like a safetensors file: a length word and a brace.
bool has_magic(std::span<const std::uint8_t> file);

// Parses the header of a whole file, and checks that exactly the tensors follow.
Result<ParsedContainer> parse(std::span<const std::uint8_t> file);

// Sorts the tensors by the size of their elements, largest first, and otherwise keeps their order: as the format allows
// no holes, this is the only way to align each tensor. Fills in their bytes.
Result<PlannedContainer> plan(const Metadata& metadata, std::vector<StoredTensor>& tensors);

// model.safetensors.index.json: which tensor is in which file.
struct ShardIndex {
  struct Entry {
    std::string tensor;
    std::string file;  // relative to the index, and below its folder
  };
  std::vector<Entry> weight_map;
  std::int64_t total_bytes = -1;  // -1 if absent
};
Result<ShardIndex> parse_index(std::string_view text);

}  // namespace tern::safetensors
