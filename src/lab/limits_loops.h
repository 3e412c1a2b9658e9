// The candidate loops for the bandwidth limits of this processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tern/device.h"

namespace tern::lab {

// The bytes of one step of one stream. With four streams each stretch must still be whole steps.
inline constexpr std::size_t kLoopStepBytes = 256;
inline constexpr std::size_t kLoopMultipleBytes = 4 * kLoopStepBytes;

// The loops take 64-byte aligned pointers and a multiple of kLoopMultipleBytes.
struct ReadLoop {
  std::string_view name;
  std::uint64_t (*run)(const std::byte* data, std::size_t bytes);  // the bitwise or of all 64-bit words
};
struct WriteLoop {
  std::string_view name;
  void (*run)(std::byte* data, std::size_t bytes, std::uint64_t word);  // every 64-bit word becomes `word`
};
struct CopyLoop {
  std::string_view name;
  void (*run)(const std::byte* from, std::size_t bytes, std::byte* to);  // they do not overlap
};

// Those that a processor with these capabilities can run, narrow vectors first.
std::vector<ReadLoop> read_loops(Capabilities capabilities);
std::vector<WriteLoop> write_loops(Capabilities capabilities);
std::vector<CopyLoop> copy_loops(Capabilities capabilities);

}  // namespace tern::lab
