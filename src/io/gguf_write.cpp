// Builds the directory of a new GGUF file.
#include <algorithm>
#include <map>

#include "base/checked.h"
#include "io/file_error.h"
#include "io/gguf.h"
#include "io/little_endian.h"

namespace tern::gguf {
namespace {

constexpr std::string_view kWhere = "gguf";
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kMaxTensorName = 63;  // ggml stores names in 64 bytes, with a NUL

void append_text(std::string& out, std::string_view text) {
  append_le(out, std::uint64_t{text.size()});
  out += text;
}

Status append_array(std::string& out, const MetaArray& array, std::string_view key, std::size_t depth) {
  if (depth > kMaxNesting)
    return error(Code::invalid_argument, kWhere, "'{}' has arrays nested more than {} deep", printable(key),
                 kMaxNesting);
  append_le(out, static_cast<std::uint32_t>(array.element));
  append_le(out, std::uint64_t{array.size()});
  for (const std::string& text : array.texts) append_text(out, text);
  for (const MetaArray& inner : array.arrays) TERN_RETURN_IF_ERROR(append_array(out, inner, key, depth + 1));
  out += text_of(array.scalars);
  return {};
}

// Whether the members of a MetaArray, which is a plain struct, agree with each other.
bool is_sound(const MetaArray& array) {
  const std::size_t bytes = scalar_bytes(array.element);
  if (array.element > MetaKind::f64) return false;
  if (array.element != MetaKind::string && !array.texts.empty()) return false;
  if (array.element != MetaKind::array && !array.arrays.empty()) return false;
  if (bytes == 0 ? !array.scalars.empty() : array.scalars.size() % bytes != 0) return false;
  if (array.element == MetaKind::boolean && std::ranges::any_of(array.scalars, [](auto b) { return b > 1; }))
    return false;
  return std::ranges::all_of(array.arrays, is_sound);
}

Status append_entry(std::string& out, const MetaEntry& entry) {
  if (entry.key.size() > kMaxNameBytes)
    return error(Code::invalid_argument, kWhere, "key '{}' has {} bytes; GGUF allows {}", printable(entry.key),
                 entry.key.size(), kMaxNameBytes);
  append_text(out, entry.key);
  const MetaKind kind = entry.value.kind();
  append_le(out, static_cast<std::uint32_t>(kind));
  if (kind == MetaKind::string) {
    append_text(out, *entry.value.text());
  } else if (kind == MetaKind::array) {
    if (!is_sound(*entry.value.array()))
      return error(Code::invalid_argument, kWhere, "the array '{}' holds elements that do not match its kind",
                   printable(entry.key));
    return append_array(out, *entry.value.array(), entry.key, 1);
  } else {
    std::string bits;
    append_le(bits, entry.value.bits());
    out += bits.substr(0, scalar_bytes(kind));
  }
  return {};
}

Result<std::uint32_t> id_of(const StoredTensor& tensor) {
  const int id = tensor.gguf_id >= 0 ? tensor.gguf_id : info(tensor.type).gguf_id;
  if (id < 0)
    return error(Code::invalid_argument, kWhere, "tensor '{}' is {}, a type that GGUF does not have",
                 printable(tensor.name), name(tensor.type));
  const auto readings = gguf_readings(static_cast<std::uint32_t>(id));
  if (std::ranges::find(readings, tensor.type) == readings.end())
    return error(Code::invalid_argument, kWhere, "tensor '{}' is {}, which is not what type id {} means",
                 printable(tensor.name), name(tensor.type), id);
  return static_cast<std::uint32_t>(id);
}

Status append_tensor(std::string& out, StoredTensor& tensor, std::uint64_t offset) {
  const std::string shown = printable(tensor.name);
  if (tensor.name.size() > kMaxTensorName)
    return error(Code::invalid_argument, kWhere, "tensor '{}' has a name of {} bytes; llama.cpp reads at most {}",
                 shown, tensor.name.size(), kMaxTensorName);
  if (tensor.shape.size() > kMaxRank)
    return error(Code::invalid_argument, kWhere, "tensor '{}' has {} axes; GGUF has at most {}", shown,
                 tensor.shape.size(), kMaxRank);
  TERN_ASSIGN(id, id_of(tensor));
  tensor.gguf_id = static_cast<int>(id);
  append_text(out, tensor.name);
  append_le(out, static_cast<std::uint32_t>(tensor.shape.size()));
  for (std::size_t i = tensor.shape.size(); i-- > 0;) append_le(out, static_cast<std::uint64_t>(tensor.shape[i]));
  append_le(out, id);
  append_le(out, offset);
  return {};
}

}  // namespace

Result<PlannedContainer> plan(const Metadata& metadata, std::vector<StoredTensor>& tensors) {
  auto alignment = alignment_of(metadata);
  if (!alignment.ok()) return error(Code::invalid_argument, kWhere, "{}", alignment.error().message);
  PlannedContainer planned;
  std::string& out = planned.header;
  out = "GGUF";
  append_le(out, kVersion);
  append_le(out, std::uint64_t{tensors.size()});
  append_le(out, std::uint64_t{metadata.size()});
  for (const MetaEntry& entry : metadata) TERN_RETURN_IF_ERROR(append_entry(out, entry));
  std::int64_t offset = 0;
  std::map<int, const StoredTensor*> first_of_id;  // because readers give an id one meaning in a file
  for (StoredTensor& tensor : tensors) {
    if (auto settled = settle_bytes(tensor); !settled.ok())
      return error(settled.code(), kWhere, "tensor '{}': {}", printable(tensor.name), settled.error().message);
    TERN_RETURN_IF_ERROR(append_tensor(out, tensor, static_cast<std::uint64_t>(offset)));
    const StoredTensor& first = *first_of_id.emplace(tensor.gguf_id, &tensor).first->second;
    if (first.type != tensor.type)
      return error(Code::unsupported, kWhere,
                   "'{}' is {} and '{}' is {}, and both are type id {} of GGUF; with WriteOptions::tl2_id TL2 is 42, "
                   "and WriteOptions::drop leaves tensors out",
                   printable(first.name), name(first.type), printable(tensor.name), name(tensor.type), tensor.gguf_id);
    planned.offsets.push_back(static_cast<std::size_t>(offset));
    const auto end = checked_add(offset, static_cast<std::int64_t>(round_up(tensor.bytes, *alignment)));
    if (!end) return error(Code::invalid_argument, kWhere, "the tensors have more bytes than 2^63 - 1");
    offset = *end;
  }
  out.append(round_up(out.size(), *alignment) - out.size(), '\0');
  for (std::size_t& each : planned.offsets) each += out.size();
  planned.file_bytes = out.size() + static_cast<std::size_t>(offset);
  return planned;
}

}  // namespace tern::gguf
