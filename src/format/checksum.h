// The checksum of a quantized tensor, the same wherever it is computed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace tern {

// XXH64, seed 0, of the canonical bytes of the codes, then of the scales.
std::uint64_t checksum(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales);

// The same, for rows that are `stride_bytes` apart.
struct StridedBytes {
  const std::uint8_t* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t stride_bytes = 0;
};
std::uint64_t checksum_rows(const StridedBytes& codes, std::span<const std::uint8_t> scales);

// The same, for bytes that are added piece by piece.
class RunningChecksum {
 public:
  RunningChecksum();
  ~RunningChecksum();
  RunningChecksum(const RunningChecksum&) = delete;
  RunningChecksum& operator=(const RunningChecksum&) = delete;
  void add(std::span<const std::uint8_t> bytes);
  [[nodiscard]] std::uint64_t value() const;
  // The value after these bytes, without adding them.
  [[nodiscard]] std::uint64_t value_with(std::span<const std::uint8_t> bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
