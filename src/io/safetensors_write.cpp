// Builds the header of a new safetensors file.
#include <algorithm>

#include "base/checked.h"
#include "io/json_events.h"
#include "io/little_endian.h"
#include "io/safetensors.h"

namespace tern::safetensors {
namespace {

constexpr std::string_view kWhere = "safetensors";
constexpr std::size_t kAlignment = 64;  // of the first tensor; the format asks for 8

Result<std::string> quoted(const std::string& text, std::string_view what) {
  auto json = json_text(text);
  if (!json)
    return error(Code::invalid_argument, kWhere, "{} '{}' is not UTF-8, which a safetensors header cannot hold", what,
                 printable(text));
  return *std::move(json);
}

Status add_metadata(std::string& header, const Metadata& metadata) {
  if (metadata.empty()) return {};
  header += R"("__metadata__":{)";
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto& [key, value] = metadata[i];
    if (value.text() == nullptr)
      return error(Code::invalid_argument, kWhere, "metadata '{}' is {}; safetensors holds only texts", printable(key),
                   name(value.kind()));
    TERN_ASSIGN(key_text, quoted(key, "the key"));
    TERN_ASSIGN(value_text, quoted(*value.text(), fmt::format("the value of '{}',", printable(key))));
    header += fmt::format("{}{}:{}", i == 0 ? "" : ",", key_text, value_text);
  }
  header += '}';
  return {};
}

}  // namespace

Result<PlannedContainer> plan(const Metadata& metadata, std::vector<StoredTensor>& tensors) {
  // Types in blocks, such as 4 elements in 3 bytes, need no alignment.
  std::ranges::stable_sort(tensors, std::ranges::greater{}, [](const StoredTensor& tensor) {
    const StoredTypeInfo& row = info(tensor.type);
    return row.block_elements == 1 ? row.block_bytes : 0;
  });
  PlannedContainer planned;
  std::string& header = planned.header;
  header.assign(8, '\0');
  header += '{';
  TERN_RETURN_IF_ERROR(add_metadata(header, metadata));
  std::int64_t begin = 0;
  for (StoredTensor& tensor : tensors) {
    if (!info(tensor.type).in_safetensors)
      return error(Code::invalid_argument, kWhere, "tensor '{}' is {}, a type that safetensors does not have",
                   printable(tensor.name), name(tensor.type));
    if (tensor.name == "__metadata__")
      return error(Code::invalid_argument, kWhere, "a tensor cannot be called '__metadata__'");
    if (auto settled = settle_bytes(tensor); !settled.ok())
      return error(settled.code(), kWhere, "tensor '{}': {}", printable(tensor.name), settled.error().message);
    tensor.gguf_id = -1;
    const auto end = checked_add(begin, static_cast<std::int64_t>(tensor.bytes));
    if (!end) return error(Code::invalid_argument, kWhere, "the tensors have more bytes than 2^63 - 1");
    TERN_ASSIGN(name_text, quoted(tensor.name, "the name"));
    header +=
        fmt::format(R"({}{}:{{"dtype":"{}","shape":[)", header.size() == 9 ? "" : ",", name_text, name(tensor.type));
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      header += fmt::format("{}{}", i == 0 ? "" : ",", tensor.shape[i]);
    header += fmt::format(R"(],"data_offsets":[{},{}]}})", begin, *end);
    planned.offsets.push_back(static_cast<std::size_t>(begin));
    begin = *end;
  }
  header += '}';
  header.append(round_up(header.size(), kAlignment) - header.size(), ' ');
  const std::size_t text_bytes = header.size() - 8;
  if (text_bytes > kMaxHeaderBytes)
    return error(Code::invalid_argument, kWhere, "the header would have {} bytes; the format allows {}", text_bytes,
                 kMaxHeaderBytes);
  std::string length;
  append_le(length, std::uint64_t{text_bytes});
  header.replace(0, 8, length);
  for (std::size_t& offset : planned.offsets) offset += header.size();
  planned.file_bytes = header.size() + static_cast<std::size_t>(begin);
  return planned;
}

}  // namespace tern::safetensors
