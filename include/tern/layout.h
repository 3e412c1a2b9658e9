// Other projects' orders of packed ternary weights, exact both ways. The codes alone: scales are tensors of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tern/export.h"
#include "tern/status.h"
#include "tern/tensor.h"

namespace tern {

// docs/formats.md has the bit pictures.
enum class Layout : std::uint8_t {
  ms_gpu,  // Microsoft's BitNet GPU kernels: tiles of 16 rows by 32 columns, n a multiple of 16, k of 32
};

TERN_API std::string_view name(Layout);
TERN_API Result<Layout> parse_layout(std::string_view);

// The bytes of [n, k] weights. A shape that the layout cannot hold is an unsupported that says why.
TERN_API Result<std::size_t> layout_bytes(Layout, std::int64_t n, std::int64_t k);

// To canonical i2 codes, u8 [n, ceil(k/4)], whose rows may be strided. A code that is no trit is an
// invalid_quantized_value with its element; the codes are then unspecified.
TERN_API Status import_codes(Layout, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                             const TensorView& codes);
// From canonical i2 codes, with the same checks.
TERN_API Status export_codes(Layout, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                             std::span<std::uint8_t> bytes);

}  // namespace tern
