// The types of elements that the containers know, with their sizes.
#include <algorithm>
#include <array>
#include <cctype>

#include "base/checked.h"
#include "base/words.h"
#include "format/layout.h"
#include "io/container.h"
#include "io/file_error.h"

namespace tern {
namespace {

using enum StoredType;

constexpr bool kSafetensors = true;

constexpr auto kTypes = std::to_array<StoredTypeInfo>({
    // type, name, elements and bytes of a block, GGUF's id, safetensors, DType
    {f64, "F64", 1, 8, 28, kSafetensors, DType::f64},
    {f32, "F32", 1, 4, 0, kSafetensors, DType::f32},
    {f16, "F16", 1, 2, 1, kSafetensors, DType::f16},
    {bf16, "BF16", 1, 2, 30, kSafetensors, DType::bf16},
    {i64, "I64", 1, 8, 27, kSafetensors, {}},
    {i32, "I32", 1, 4, 26, kSafetensors, DType::i32},
    {i16, "I16", 1, 2, 25, kSafetensors, {}},
    {i8, "I8", 1, 1, 24, kSafetensors, DType::i8},
    {u64, "U64", 1, 8, -1, kSafetensors, {}},
    {u32, "U32", 1, 4, -1, kSafetensors, {}},
    {u16, "U16", 1, 2, -1, kSafetensors, {}},
    {u8, "U8", 1, 1, -1, kSafetensors, DType::u8},
    {boolean, "BOOL", 1, 1, -1, kSafetensors, {}},
    {c64, "C64", 1, 8, -1, kSafetensors, {}},
    {f8_e4m3, "F8_E4M3", 1, 1, -1, kSafetensors, {}},
    {f8_e5m2, "F8_E5M2", 1, 1, -1, kSafetensors, {}},
    {f8_e8m0, "F8_E8M0", 1, 1, -1, kSafetensors, {}},
    {f8_e4m3fnuz, "F8_E4M3FNUZ", 1, 1, -1, kSafetensors, {}},
    {f8_e5m2fnuz, "F8_E5M2FNUZ", 1, 1, -1, kSafetensors, {}},
    {f6_e2m3, "F6_E2M3", 4, 3, -1, kSafetensors, {}},
    {f6_e3m2, "F6_E3M2", 4, 3, -1, kSafetensors, {}},
    {f4, "F4", 2, 1, -1, kSafetensors, {}},
    {q4_0, "Q4_0", 32, 18, 2, false, {}},
    {q4_1, "Q4_1", 32, 20, 3, false, {}},
    {q5_0, "Q5_0", 32, 22, 6, false, {}},
    {q5_1, "Q5_1", 32, 24, 7, false, {}},
    {q8_0, "Q8_0", 32, 34, 8, false, {}},
    {q8_1, "Q8_1", 32, 36, 9, false, {}},
    {q2_k, "Q2_K", 256, 84, 10, false, {}},
    {q3_k, "Q3_K", 256, 110, 11, false, {}},
    {q4_k, "Q4_K", 256, 144, 12, false, {}},
    {q5_k, "Q5_K", 256, 176, 13, false, {}},
    {q6_k, "Q6_K", 256, 210, 14, false, {}},
    {q8_k, "Q8_K", 256, 292, 15, false, {}},
    {iq1_s, "IQ1_S", 256, 50, 19, false, {}},
    {iq1_m, "IQ1_M", 256, 56, 29, false, {}},
    {iq2_xxs, "IQ2_XXS", 256, 66, 16, false, {}},
    {iq2_xs, "IQ2_XS", 256, 74, 17, false, {}},
    {iq2_s, "IQ2_S", 256, 82, 22, false, {}},
    {iq3_xxs, "IQ3_XXS", 256, 98, 18, false, {}},
    {iq3_s, "IQ3_S", 256, 110, 21, false, {}},
    {iq4_nl, "IQ4_NL", 32, 18, 20, false, {}},
    {iq4_xs, "IQ4_XS", 256, 136, 23, false, {}},
    {q4_0_4_4, "Q4_0_4_4", 32, 18, 31, false, {}},  // these three: written in 2024, no longer read by llama.cpp
    {q4_0_4_8, "Q4_0_4_8", 32, 18, 32, false, {}},
    {q4_0_8_8, "Q4_0_8_8", 32, 18, 33, false, {}},
    {tq1_0, "TQ1_0", 256, 54, 34, false, {}},
    {tq2_0, "TQ2_0", 256, 66, 35, false, {}},
    {mxfp4, "MXFP4", 32, 17, 39, false, {}},
    {nvfp4, "NVFP4", 64, 36, 40, false, {}},
    {q1_0, "Q1_0", 128, 18, 41, false, {}},
    {q2_0, "Q2_0", 64, 18, 42, false, {}},
    {q2_0_g128, "Q2_0_G128", 128, 34, 42, false, {}},  // PrismML's fork of llama.cpp, which calls it Q2_0
    {i2_s, "I2_S", 4, 1, 36, false, {}},
    {i8_s, "I8_S", 1, 1, 37, false, {}},
    {tl1, "TL1", 4, 1, 38, false, {}},
    {tl2, "TL2", 1, 1, 42, false, {}},  // 39 in bitnet.cpp's first fork; see tl2_bytes() for its size
});

constexpr bool in_order_of_the_enum() {
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (static_cast<std::size_t>(kTypes[i].type) != i) return false;
  return kTypes.size() == static_cast<std::size_t>(tl2) + 1;
}
static_assert(in_order_of_the_enum());

constexpr std::uint32_t kOldTl2Id = 39;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 53;  // so that no product with a block's bytes overflows
constexpr std::string_view kWhere = "stored_bytes";

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i < kMaxAxes; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

// Whatever the shape needs, bitnet.cpp reserves five bits per three weights for all but 256 columns, and four bits per
// two weights for those 256. The divisions round down, so their order is bitnet.cpp's. `count` is n*k.
std::size_t tl2_bytes(std::int64_t n, std::int64_t count) {
  const std::int64_t codes = (count - 256 * n) / 3 * 5 / 8 + 256 * n / 2 * 4 / 8;
  return round_up(static_cast<std::size_t>(codes), 32) + trailer_bytes(tl2);
}

}  // namespace

const StoredTypeInfo& info(StoredType type) {
  const auto i = static_cast<std::size_t>(type);
  return kTypes[i < kTypes.size() ? i : 0];
}

std::span<const StoredTypeInfo> stored_types() { return kTypes; }

std::string_view name(StoredType type) {
  return static_cast<std::size_t>(type) < kTypes.size() ? info(type).name : "unknown";
}

std::string_view name(Container container) { return container == Container::gguf ? "gguf" : "safetensors"; }

Result<StoredType> parse_stored_type(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::vector<std::string_view> known;
  for (const StoredTypeInfo& row : kTypes) {
    if (row.name == upper) return row.type;
    known.push_back(row.name);
  }
  return error(Code::invalid_argument, "stored type", "'{}' is not one of {}", printable(text), listed(known));
}

Result<Container> parse_container(std::string_view text) {
  static constexpr WordTable<Container, 2> kContainers = {
      {{Container::safetensors, "safetensors"}, {Container::gguf, "gguf"}}};
  return parse_word(kContainers, "container", text);
}

StoredType stored_type(DType dtype) {
  for (const StoredTypeInfo& row : kTypes)
    if (row.dtype == dtype) return row.type;
  return f32;
}

std::size_t trailer_bytes(StoredType type) {
  const auto found = layouts_of(type);
  return !found.empty() && found.front().scales == ScalesIn::trailer ? kTrailerBytes : 0;
}

std::vector<StoredType> gguf_readings(std::uint32_t id) {
  std::vector<StoredType> found;
  for (const StoredTypeInfo& row : kTypes)
    if (row.gguf_id >= 0 && static_cast<std::uint32_t>(row.gguf_id) == id) found.push_back(row.type);
  if (id == kOldTl2Id) found.push_back(tl2);
  return found;
}

Result<std::size_t> stored_bytes(StoredType type, std::span<const std::int64_t> shape) {
  const StoredTypeInfo& row = info(type);
  std::int64_t count = 1;
  bool overflow = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return error(Code::invalid_argument, kWhere, "shape {} has a size of {}", shape_text(shape), size);
    if (size == 0) return std::size_t{0};  // even if other sizes would overflow
    const auto product = checked_mul(count, size);
    overflow = overflow || !product;
    if (product) count = *product;
  }
  if (overflow || count > kMaxElements)
    return error(Code::invalid_argument, kWhere, "shape {} has more elements than 2^53", shape_text(shape));
  if (type == tl2) {
    if (shape.size() != 2)
      return error(Code::invalid_argument, kWhere, "TL2 holds matrices; shape {} is none", shape_text(shape));
    return tl2_bytes(shape[0], count);
  }
  // llama.cpp's blocks do not cross the end of a row; the other types only need a whole number of bytes in all.
  const bool rows = !row.in_safetensors && trailer_bytes(type) == 0;
  const std::int64_t run = rows ? (shape.empty() ? 1 : shape.back()) : count;
  if (run % row.block_elements != 0)
    return error(Code::invalid_argument, kWhere, "shape {} of {}: {} {} is not a multiple of {}", shape_text(shape),
                 row.name, rows ? "the last size" : "the number of elements", run, row.block_elements);
  return static_cast<std::size_t>(count / row.block_elements * row.block_bytes) + trailer_bytes(type);
}

Status settle_bytes(StoredTensor& tensor) {
  TERN_ASSIGN(bytes, stored_bytes(tensor.type, tensor.shape));
  if (tensor.bytes == 0) tensor.bytes = bytes;
  if (tensor.bytes == bytes || (bytes > 0 && tensor.bytes + trailer_bytes(tensor.type) == bytes)) return {};
  return error(Code::invalid_argument, kWhere, "{} bytes are not the {} of shape {} of {}", tensor.bytes, bytes,
               shape_text(tensor.shape), name(tensor.type));
}

std::size_t first_duplicate(const std::vector<std::string_view>& texts) {
  std::vector<std::uint32_t> order(texts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(texts[i], i); });
  std::size_t first = texts.size();
  for (std::size_t i = 1; i < order.size(); ++i)
    if (texts[order[i]] == texts[order[i - 1]]) first = std::min<std::size_t>(first, order[i]);
  return first;
}

}  // namespace tern
