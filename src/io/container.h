// What the parsers of both containers return, and what their writers plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tern/checkpoint.h"

namespace tern {

// Tensors in the order of their bytes; offsets count from the file's first byte. Every range lies inside the file.
struct ParsedContainer {
  Metadata metadata;
  std::vector<StoredTensor> tensors;
  std::vector<std::size_t> offsets;
};

// The bytes before the tensors, and the offset of each tensor. Zeros fill the gaps.
struct PlannedContainer {
  std::string header;
  std::vector<std::size_t> offsets;
  std::size_t file_bytes = 0;
};

// Limits far above those of any honest file. They keep what a hostile header of 100 MB makes us allocate to a few
// hundred MB.
inline constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
inline constexpr std::size_t kMaxKeys = std::size_t{1} << 20;
inline constexpr std::size_t kMaxNameBytes = 65535;  // GGUF's limit for keys, and ours for all names
inline constexpr std::size_t kMaxAxes = 32;          // the most that PyTorch and numpy allow

// Fills in `bytes` if it is 0, and refuses a size that does not follow from type and shape. bitnet.cpp's types may lack
// their trailer, because its converter writes the scale as the next tensor.
Status settle_bytes(StoredTensor& tensor);

// The index of the first text that repeats an earlier one; the list's size if there is none.
std::size_t first_duplicate(const std::vector<std::string_view>& texts);

// The size of what follows the codes of i2_s, tl1 and tl2: a float, then zeros. 0 for other types.
std::size_t trailer_bytes(StoredType type);

// All types that some program means by this id of GGUF; empty if the id is unknown.
std::vector<StoredType> gguf_readings(std::uint32_t id);

}  // namespace tern
