// Parses quantized tensors from an archive in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tern/memory.h"
#include "tern/quantize.h"
#include "tern/status.h"

namespace tern {

// `ignore` is for the fuzzer, which cannot guess checksums but must test the code after them.
enum class Sums : std::uint8_t { verify, ignore };

// load_quantized() without opening the file. Allocates the two tensors and nothing else of their size.
Result<QuantizedTensor> parse_quantized(std::span<const std::uint8_t> archive,
                                        const std::shared_ptr<MemoryResource>& memory, Sums sums = Sums::verify);

}  // namespace tern
