// Decides which type an id of GGUF means in this file, if different programs gave it to different types.
#include <algorithm>

#include "io/file_error.h"
#include "io/gguf.h"

namespace tern::gguf {
namespace {

constexpr std::string_view kWhere = "gguf";

// The bytes of a claim if it has this type, with or without the trailer. They fit if less than an alignment of the room
// is left over; nullopt if neither fits, or if the type does not allow the shape.
std::optional<std::size_t> fitting_bytes(const Claim& claim, StoredType type, std::size_t alignment) {
  const auto whole = stored_bytes(type, claim.tensor.shape);
  if (!whole.ok()) return std::nullopt;
  if (*whole == 0) return 0;  // an empty tensor fits at any offset
  const auto fits = [&](std::size_t bytes) {
    return bytes <= claim.room_bytes && claim.room_bytes - bytes < alignment;
  };
  if (fits(*whole)) return *whole;
  const std::size_t bare = *whole - trailer_bytes(type);
  return fits(bare) ? std::optional(bare) : std::nullopt;
}

// "MXFP4 (17 bytes)", or why it cannot be that.
std::string reading_text(const Claim& claim, StoredType type) {
  const auto bytes = stored_bytes(type, claim.tensor.shape);
  return bytes.ok() ? fmt::format("{} ({} bytes)", name(type), *bytes)
                    : fmt::format("{} ({})", name(type), bytes.error().message);
}

std::string readings_text(const Claim& claim, const std::vector<StoredType>& readings) {
  std::string text;
  for (const StoredType type : readings) text += (text.empty() ? "" : " or ") + reading_text(claim, type);
  return text;
}

// What general.file_type and general.architecture say. bitnet.cpp's first fork has file type 39 for TL2, which is NVFP4
// (id 40, not 39) for llama.cpp; 38 is MXFP4 for llama.cpp and TL1 (id 38) for the fork; 41 is Q2_0 for llama.cpp.
std::optional<StoredType> reading_by_metadata(const std::vector<StoredType>& readings, const Metadata& metadata) {
  const auto has = [&](StoredType type) { return std::ranges::find(readings, type) != readings.end(); };
  const MetaValue* file_type = find_key(metadata, "general.file_type");
  const std::int64_t number = file_type == nullptr ? -1 : file_type->integer().value_or(-1);
  if (number == 38 && has(StoredType::mxfp4)) return StoredType::mxfp4;
  if (number == 39 && has(StoredType::mxfp4) && has(StoredType::tl2)) return StoredType::tl2;
  if (number == 41 && has(StoredType::q2_0) && !has(StoredType::q2_0_g128)) return StoredType::q2_0;
  const MetaValue* architecture = find_key(metadata, "general.architecture");
  const std::string* word = architecture == nullptr ? nullptr : architecture->text();
  if (word != nullptr && word->starts_with("bitnet") && has(StoredType::tl2)) return StoredType::tl2;
  return std::nullopt;
}

// The first tensor with this id whose room does not fit the type; null if all fit.
const Claim* misfit(const std::vector<Claim>& claims, int id, StoredType type, std::size_t alignment) {
  for (const Claim& claim : claims)
    if (claim.tensor.gguf_id == id && !fitting_bytes(claim, type, alignment)) return &claim;
  return nullptr;
}

// Chooses the type of an id that has several meanings. If the caller names exactly one of them, that is it; if several
// (some perhaps meant for other ids), room and metadata decide among these.
Result<StoredType> choose(const std::vector<Claim>& claims, const Claim& first, std::size_t alignment,
                          std::vector<StoredType> readings, const Metadata& metadata, const OpenOptions& options) {
  const int id = first.tensor.gguf_id;
  std::vector<StoredType> named;
  for (const StoredType type : readings)
    if (std::ranges::find(options.gguf_types, type) != options.gguf_types.end()) named.push_back(type);
  if (named.size() == 1) return named.front();  // settle_types() checks whether it fits
  if (!named.empty()) readings = named;
  std::vector<StoredType> fitting;
  for (const StoredType type : readings)
    if (misfit(claims, id, type, alignment) == nullptr) fitting.push_back(type);
  if (fitting.size() == 1) return fitting.front();
  if (fitting.empty()) {
    // Each reading may fail at a different tensor; reporting that of the first reading is enough.
    const Claim* claim = misfit(claims, id, readings.front(), alignment);
    return error(Code::corrupt_file, kWhere, "tensor '{}' has type id {}, which is {}; none fits its {} bytes of room",
                 printable(claim->tensor.name), id, readings_text(*claim, readings), claim->room_bytes);
  }
  if (const auto suggested = reading_by_metadata(fitting, metadata)) return *suggested;
  std::string names;
  for (const StoredType type : fitting) names += fmt::format("{}{}", names.empty() ? "" : " or ", name(type));
  return error(Code::invalid_argument, kWhere,
               "tensor '{}' has type id {}, which is {}; {} bytes of room fit each of them, and the metadata do not "
               "say; give OpenOptions::gguf_types {}",
               printable(first.tensor.name), id, readings_text(first, fitting), first.room_bytes, names);
}

Status settle(Claim& claim, StoredType type, std::size_t alignment) {
  claim.tensor.type = type;
  if (const auto bytes = fitting_bytes(claim, type, alignment)) {
    claim.tensor.bytes = *bytes;
    return {};
  }
  const std::string shown = printable(claim.tensor.name);
  const auto bytes = stored_bytes(type, claim.tensor.shape);
  if (!bytes.ok()) return error(Code::corrupt_file, kWhere, "tensor '{}': {}", shown, bytes.error().message);
  if (*bytes > claim.room_bytes)
    return error(Code::corrupt_file, kWhere,
                 "tensor '{}' of {} has {} bytes, but only {} from its offset {} to the next tensor or the end", shown,
                 name(type), *bytes, claim.room_bytes, claim.offset);
  return error(Code::corrupt_file, kWhere, "tensor '{}' of {} has {} bytes; the {} behind it belong to no tensor",
               shown, name(type), *bytes, claim.room_bytes - *bytes);
}

}  // namespace

Status settle_types(std::vector<Claim>& claims, std::size_t alignment, const Metadata& metadata,
                    const OpenOptions& options) {
  std::vector<std::pair<int, StoredType>> known;
  for (Claim& claim : claims) {
    const int id = claim.tensor.gguf_id;
    auto found = std::ranges::find(known, id, &std::pair<int, StoredType>::first);
    if (found == known.end()) {
      const std::vector<StoredType> readings = gguf_readings(static_cast<std::uint32_t>(id));
      StoredType type = readings.front();
      if (readings.size() > 1) {
        TERN_ASSIGN(chosen, choose(claims, claim, alignment, readings, metadata, options));
        type = chosen;
      }
      found = known.insert(known.end(), {id, type});
    }
    TERN_RETURN_IF_ERROR(settle(claim, found->second, alignment));
  }
  return {};
}

}  // namespace tern::gguf
