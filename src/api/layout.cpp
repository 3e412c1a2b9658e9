// Other projects' layouts, to canonical codes and back.
#include "tern/layout.h"

#include <cstring>

#include "base/errors.h"
#include "base/words.h"
#include "format/format.h"
#include "format/ms_gpu.h"
#include "ops/ranges.h"
#include "ops/views.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "layout";
constexpr WordTable<Layout, 1> kLayouts = {{{Layout::ms_gpu, "ms_gpu"}}};

std::uint32_t read_word(const std::uint8_t* at) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}
void write_word(std::uint8_t* at, std::uint32_t word) { std::memcpy(at, &word, sizeof word); }

// The error of the first code among sixteen that is no trit.
Error no_trit(Layout layout, std::int64_t k, std::int64_t row, std::int64_t column, std::uint32_t codes, unsigned bad) {
  int i = 0;
  while ((codes >> (2 * i) & 3U) != bad) ++i;
  const std::int64_t element = row * k + column + i;
  return error_at(element, Code::invalid_quantized_value, kWhere, "{} codes[{}, {}] (element {}) is no trit",
                  name(layout), row, column + i, element);
}

// Checks both sides; the view of the codes as rows.
Result<RowView> check(Layout layout, std::int64_t n, std::int64_t k, const ConstTensorView& codes, const void* bytes,
                      std::size_t size) {
  TERN_ASSIGN(needed, layout_bytes(layout, n, k));
  if (size != needed)
    return error(Code::invalid_argument, kWhere, "{} x {} in {} are {} bytes, {} were given", n, k, name(layout),
                 needed, size);
  if (bytes == nullptr && needed > 0) return error(Code::invalid_argument, kWhere, "the bytes are null");
  TERN_ASSIGN(rows, as_rows(kWhere, "codes", codes, DType::u8, n, row_bytes(Format::i2, k)));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes);
  TERN_RETURN_IF_ERROR(check_apart(kWhere, "codes", bytes_of(codes), "the bytes", {begin, begin + size}));
  return rows;
}

}  // namespace

std::string_view name(Layout layout) { return word_of(kLayouts, layout); }
Result<Layout> parse_layout(std::string_view word) { return parse_word(kLayouts, "layout", word); }

Result<std::size_t> layout_bytes(Layout layout, std::int64_t n, std::int64_t k) {
  TERN_RETURN_IF_ERROR(check_extent(kWhere, n, k, DType::u8, Granularity::row()));
  if (n % MsGpu::kRows != 0 || k % MsGpu::kColumns != 0)
    return error(Code::unsupported, kWhere, "{} holds multiples of {} x {}, not {} x {}; pad with zeros", name(layout),
                 MsGpu::kRows, MsGpu::kColumns, n, k);
  return static_cast<std::size_t>(n * (k / 4));
}

Status import_codes(Layout layout, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                    const TensorView& codes) {
  TERN_ASSIGN(rows, check(layout, n, k, codes, bytes.data(), bytes.size()));
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t column = 0; column < k; column += MsGpu::kWord) {
      const std::uint32_t word = read_word(bytes.data() + MsGpu::word_at(k, row, column));
      if (!MsGpu::trits(word)) return no_trit(layout, k, row, column, MsGpu::in_order(word), 0);
      write_word(static_cast<std::uint8_t*>(codes.data) + row * rows.stride + column / 4, MsGpu::to_i2(word));
    }
  return {};
}

Status export_codes(Layout layout, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                    std::span<std::uint8_t> bytes) {
  TERN_ASSIGN(rows, check(layout, n, k, codes, bytes.data(), bytes.size()));
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t column = 0; column < k; column += MsGpu::kWord) {
      const std::uint32_t i2 = read_word(static_cast<const std::uint8_t*>(codes.data) + row * rows.stride + column / 4);
      if (!MsGpu::trits_i2(i2)) return no_trit(layout, k, row, column, i2, 3);
      write_word(bytes.data() + MsGpu::word_at(k, row, column), MsGpu::from_i2(i2));
    }
  return {};
}

}  // namespace tern
