// What the parsers of both containers answer, and what their writers plan.
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

// The bytes before the tensors, and where each of them goes; zeros fill what lies between.
struct PlannedContainer {
  std::string header;
  std::vector<std::size_t> offsets;
  std::size_t file_bytes = 0;
};

// Limits far above every honest file: they bound what a hostile header of 100 MB can make us allocate to a few hundred.
inline constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
inline constexpr std::size_t kMaxKeys = std::size_t{1} << 20;
inline constexpr std::size_t kMaxNameBytes = 65535;  // GGUF's limit for keys; ours for every name
inline constexpr std::size_t kMaxAxes = 32;          // what PyTorch and numpy allow at most

// Fills in `bytes` where it is 0, and refuses a size that type and shape do not have. bitnet.cpp's types may lack their
// trailer: its converter writes the scale as a tensor behind them.
Status settle_bytes(StoredTensor& tensor);

// The first text that appears twice, as an index into the list; the list's size where there is none.
std::size_t first_duplicate(const std::vector<std::string_view>& texts);

// Bytes behind the codes of i2_s, tl1 and tl2: a float, then zeros. 0 for the others.
std::size_t trailer_bytes(StoredType type);

// Every type that some program means by this id of GGUF; none: the id is unknown.
std::vector<StoredType> gguf_readings(std::uint32_t id);

}  // namespace tern
