// Builds GGUF files by hand, valid and invalid, for tests and corpora.
#pragma once

#include <string>
#include <vector>

#include "io/little_endian.h"

namespace tern::gguf {

inline std::string u32(std::uint32_t v) {
  std::string out;
  append_le(out, v);
  return out;
}
inline std::string u64(std::uint64_t v) {
  std::string out;
  append_le(out, v);
  return out;
}
inline std::string text(std::string_view v) { return u64(v.size()) + std::string(v); }

// A key: its name, the number of its kind and the bytes of its value.
inline std::string key(std::string_view name, std::uint32_t kind, const std::string& value) {
  return text(name) + u32(kind) + value;
}

// A tensor of the directory; sizes innermost first, as in the file.
inline std::string tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t id,
                          std::uint64_t offset) {
  std::string out = text(name) + u32(static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint64_t size : sizes) out += u64(size);
  return out + u32(id) + u64(offset);
}

// A whole file of version 3.
inline std::string file(const std::vector<std::string>& keys, const std::vector<std::string>& tensors,
                        std::size_t data_bytes, std::size_t alignment = 32) {
  std::string out = "GGUF" + u32(3) + u64(tensors.size()) + u64(keys.size());
  for (const std::string& each : keys) out += each;
  for (const std::string& each : tensors) out += each;
  out.append((alignment - out.size() % alignment) % alignment, '\0');
  return out + std::string(data_bytes, 'd');
}

}  // namespace tern::gguf
