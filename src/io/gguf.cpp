// Reads a GGUF file's directory. Every count and length is compared with the bytes that are left before it is used.
#include "io/gguf.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "io/file_error.h"
#include "io/little_endian.h"

namespace tern::gguf {
namespace {

constexpr std::string_view kWhere = "gguf";
constexpr std::string_view kMagic = "GGUF";
constexpr std::size_t kMinKeyBytes = 8 + 4 + 1;         // an empty name, a kind and a byte
constexpr std::size_t kMinTensorBytes = 8 + 4 + 4 + 8;  // an empty name, no axes, a type and an offset
constexpr std::size_t kMinArrayBytes = 4 + 8;           // of an array inside an array
constexpr std::size_t kMinTextBytes = 8;

// Reads the bytes in order. Every call says what it reads, so that an error can name it.
class Cursor {
 public:
  explicit Cursor(std::span<const std::uint8_t> file) : file_(file) {}
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] std::size_t left() const { return file_.size() - at_; }

  template <class T, class... About>
  Result<T> number(fmt::format_string<About...> about, About&&... values) {
    if (left() < sizeof(T)) return truncated(fmt::format(about, std::forward<About>(values)...));
    const T value = read_le<T>(file_, at_);
    at_ += sizeof(T);
    return value;
  }

  Result<std::span<const std::uint8_t>> bytes(std::uint64_t count, const std::string& about) {
    if (count > left())
      return error(Code::corrupt_file, kWhere,
                   "{} has {} bytes by its length, the file has {} left: it is truncated or damaged", about, count,
                   left());
    const auto taken = file_.subspan(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }

  Result<std::string_view> text(const std::string& about) {
    TERN_ASSIGN(length, number<std::uint64_t>("the length of {}", about));
    TERN_ASSIGN(taken, bytes(length, about));
    return text_of(taken);
  }

  Result<std::string> name(const std::string& about) {
    TERN_ASSIGN(taken, text(about));
    if (taken.size() > kMaxNameBytes)
      return error(Code::corrupt_file, kWhere, "{} has {} bytes; more than {} are refused", about, taken.size(),
                   kMaxNameBytes);
    return std::string(taken);
  }

 private:
  [[nodiscard]] Error truncated(const std::string& about) const {
    return error(Code::corrupt_file, kWhere, "it ends after {} bytes, inside {}: it is truncated", file_.size(), about);
  }
  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
};

Result<MetaKind> read_kind(Cursor& cursor, const std::string& about) {
  TERN_ASSIGN(kind, cursor.number<std::uint32_t>("the kind of {}", about));
  if (kind > static_cast<std::uint32_t>(MetaKind::f64))
    return error(Code::corrupt_file, kWhere, "the kind of {} is {}; kinds go from 0 to 12", about, kind);
  return static_cast<MetaKind>(kind);
}

Status check_booleans(std::span<const std::uint8_t> bytes, const std::string& about) {
  for (const std::uint8_t byte : bytes)
    if (byte > 1) return error(Code::corrupt_file, kWhere, "{} is a bool of {}, which is neither 0 nor 1", about, byte);
  return {};
}

Result<MetaArray> read_array(Cursor& cursor, const std::string& about, std::size_t depth) {
  if (depth > kMaxNesting)
    return error(Code::corrupt_file, kWhere, "{} has arrays nested more than {} deep", about, kMaxNesting);
  MetaArray array;
  TERN_ASSIGN(element, read_kind(cursor, about + " (an array)"));
  array.element = element;
  TERN_ASSIGN(count, cursor.number<std::uint64_t>("the length of {}", about));
  std::size_t least = scalar_bytes(element);
  if (element == MetaKind::string) least = kMinTextBytes;
  if (element == MetaKind::array) least = kMinArrayBytes;
  if (count > cursor.left() / least)
    return error(Code::corrupt_file, kWhere, "{} says it is an array of {} of {}, but the file has {} bytes left",
                 about, count, name(element), cursor.left());
  if (element == MetaKind::string) {
    array.texts.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      TERN_ASSIGN(text, cursor.text(about));
      array.texts.emplace_back(text);
    }
  } else if (element == MetaKind::array) {
    array.arrays.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      TERN_ASSIGN(inner, read_array(cursor, about, depth + 1));
      array.arrays.push_back(std::move(inner));
    }
  } else {
    TERN_ASSIGN(bytes, cursor.bytes(count * least, about));
    if (element == MetaKind::boolean) TERN_RETURN_IF_ERROR(check_booleans(bytes, about));
    array.scalars.assign(bytes.begin(), bytes.end());
  }
  return array;
}

Result<MetaValue> read_value(Cursor& cursor, const std::string& key) {
  const std::string about = fmt::format("'{}'", printable(key));
  TERN_ASSIGN(kind, read_kind(cursor, about));
  if (kind == MetaKind::string) {
    TERN_ASSIGN(text, cursor.text(about));
    return MetaValue(text);
  }
  if (kind == MetaKind::array) {
    TERN_ASSIGN(array, read_array(cursor, about, 1));
    return MetaValue(std::move(array));
  }
  TERN_ASSIGN(bytes, cursor.bytes(scalar_bytes(kind), about));
  if (kind == MetaKind::boolean) TERN_RETURN_IF_ERROR(check_booleans(bytes, about));
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) bits |= std::uint64_t{bytes[i]} << (8 * i);
  return MetaValue::from_bits(kind, bits);
}

Result<Metadata> read_metadata(Cursor& cursor, std::uint64_t count) {
  Metadata metadata;
  metadata.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    TERN_ASSIGN(key, cursor.name(fmt::format("the name of key {}", i)));
    TERN_ASSIGN(value, read_value(cursor, key));
    metadata.push_back({std::move(key), std::move(value)});
  }
  std::vector<std::string_view> keys;
  keys.reserve(metadata.size());
  for (const MetaEntry& entry : metadata) keys.push_back(entry.key);
  if (const std::size_t i = first_duplicate(keys); i < keys.size())
    return error(Code::corrupt_file, kWhere, "there are two keys '{}'", printable(keys[i]));
  return metadata;
}

Result<Claim> read_claim(Cursor& cursor, std::uint64_t index) {
  Claim claim;
  StoredTensor& tensor = claim.tensor;
  TERN_ASSIGN(tensor_name, cursor.name(fmt::format("the name of tensor {}", index)));
  tensor.name = std::move(tensor_name);
  const std::string shown = printable(tensor.name);
  TERN_ASSIGN(rank, cursor.number<std::uint32_t>("the axes of tensor '{}'", shown));
  if (rank > kMaxRank)
    return error(Code::corrupt_file, kWhere, "tensor '{}' has {} axes; GGUF has at most {}", shown, rank, kMaxRank);
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    TERN_ASSIGN(size, cursor.number<std::uint64_t>("the sizes of tensor '{}'", shown));
    if (size > static_cast<std::uint64_t>(INT64_MAX))
      return error(Code::corrupt_file, kWhere, "tensor '{}' has an axis of {} elements", shown, size);
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));  // the file has the innermost first
  }
  TERN_ASSIGN(id, cursor.number<std::uint32_t>("the type of tensor '{}'", shown));
  if (gguf_readings(id).empty())
    return error(Code::unsupported, kWhere,
                 "tensor '{}' has type id {}, whose size is not known to this version of tern", shown, id);
  tensor.gguf_id = static_cast<int>(id);
  TERN_ASSIGN(offset, cursor.number<std::uint64_t>("the offset of tensor '{}'", shown));
  claim.offset = offset;
  return claim;
}

Result<std::vector<Claim>> read_claims(Cursor& cursor, std::uint64_t count) {
  std::vector<Claim> claims;
  claims.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    TERN_ASSIGN(claim, read_claim(cursor, i));
    claims.push_back(std::move(claim));
  }
  std::vector<std::string_view> names;
  names.reserve(claims.size());
  for (const Claim& claim : claims) names.push_back(claim.tensor.name);
  if (const std::size_t i = first_duplicate(names); i < names.size())
    return error(Code::corrupt_file, kWhere, "there are two tensors '{}'", printable(names[i]));
  return claims;
}

// Checks that the file is not truncated, as far as can be known: an id that means several types counts as the smallest
// of them.
Status check_length(const std::vector<Claim>& claims, std::size_t data_offset, std::size_t file_bytes) {
  std::uint64_t needed = data_offset;
  for (const Claim& claim : claims) {
    std::uint64_t least = UINT64_MAX;
    for (const StoredType type : gguf_readings(static_cast<std::uint32_t>(claim.tensor.gguf_id)))
      if (const auto bytes = stored_bytes(type, claim.tensor.shape); bytes.ok() && *bytes > 0)
        least = std::min<std::uint64_t>(least, *bytes - trailer_bytes(type));
    if (least != UINT64_MAX && claim.offset < static_cast<std::uint64_t>(INT64_MAX))  // so the sum fits
      needed = std::max(needed, data_offset + claim.offset + least);
  }
  if (needed <= file_bytes) return {};
  return error(Code::corrupt_file, kWhere, "its tensors need {} bytes at least, the file has {}: it is truncated",
               needed, file_bytes);
}

// Sorts the claims by offset and computes how many bytes each may have. Tensors without elements take none.
Status place(std::vector<Claim>& claims, std::size_t data_bytes, std::size_t alignment) {
  std::ranges::stable_sort(claims, {}, &Claim::offset);
  const auto is_empty = [](const Claim& claim) { return std::ranges::count(claim.tensor.shape, 0) > 0; };
  std::uint64_t next = data_bytes;
  for (std::size_t i = claims.size(); i-- > 0;) {
    Claim& claim = claims[i];
    const std::string shown = printable(claim.tensor.name);
    if (claim.offset % alignment != 0)
      return error(Code::corrupt_file, kWhere, "tensor '{}' has offset {}, which is not a multiple of the alignment {}",
                   shown, claim.offset, alignment);
    if (claim.offset > data_bytes)
      return error(Code::corrupt_file, kWhere, "tensor '{}' has offset {}, but {} bytes follow the directory", shown,
                   claim.offset, data_bytes);
    if (is_empty(claim)) continue;
    claim.room_bytes = static_cast<std::size_t>(next - claim.offset);
    next = claim.offset;
  }
  const bool none = std::ranges::all_of(claims, is_empty);
  if (none ? data_bytes >= alignment : next != 0)
    return error(Code::corrupt_file, kWhere, "{} bytes behind the directory belong to no tensor", next);
  return {};
}

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t keys = 0;
};

Result<Counts> read_counts(Cursor& cursor, std::span<const std::uint8_t> file) {
  if (file.empty()) return error(Code::corrupt_file, kWhere, "the file is empty; a GGUF file begins with GGUF");
  const std::string_view start = text_of(file.first(std::min(file.size(), kMagic.size())));
  if (start != kMagic && kMagic.starts_with(start))
    return error(Code::corrupt_file, kWhere, "it ends after {} bytes, inside the magic 'GGUF': it is truncated",
                 file.size());
  if (start != kMagic)
    return error(Code::corrupt_file, kWhere,
                 "it begins with '{}', where a GGUF file has 'GGUF': it is damaged, or in another format",
                 printable(start));
  TERN_RETURN_IF_ERROR(cursor.bytes(kMagic.size(), "the magic"));
  TERN_ASSIGN(version, cursor.number<std::uint32_t>("the version"));
  if ((version & 0xFFFF) == 0 && version != 0)
    return error(Code::unsupported, kWhere,
                 "it is big-endian (its version reads {:#x}); convert it on the machine it is for", version);
  if (version != 2 && version != 3)
    return error(Code::unsupported, kWhere, "its version is {}; versions 2 and 3 are read", version);
  TERN_ASSIGN(tensors, cursor.number<std::uint64_t>("the number of tensors"));
  TERN_ASSIGN(keys, cursor.number<std::uint64_t>("the number of keys"));
  if (tensors > std::min(kMaxTensors, cursor.left() / kMinTensorBytes))
    return error(Code::corrupt_file, kWhere,
                 "it says it has {} tensors; the {} bytes that follow cannot hold them: it is truncated or damaged",
                 tensors, cursor.left());
  if (keys > std::min(kMaxKeys, cursor.left() / kMinKeyBytes))
    return error(Code::corrupt_file, kWhere,
                 "it says it has {} keys; the {} bytes that follow cannot hold them: it is truncated or damaged", keys,
                 cursor.left());
  return Counts{tensors, keys};
}

}  // namespace

bool has_magic(std::span<const std::uint8_t> file) {
  return file.size() >= kMagic.size() && text_of(file.first(kMagic.size())) == kMagic;
}

Result<std::size_t> alignment_of(const Metadata& metadata) {
  const MetaValue* value = find_key(metadata, kAlignmentKey);
  if (value == nullptr) return kDefaultAlignment;
  if (value->kind() != MetaKind::u32 || !std::has_single_bit(value->bits()) || value->bits() > kMaxAlignment)
    return error(Code::corrupt_file, kWhere, "{} is {} {}; it must be a u32 and a power of two, at most {}",
                 kAlignmentKey, name(value->kind()), printable(value->to_json(4)), kMaxAlignment);
  return static_cast<std::size_t>(value->bits());
}

Result<ParsedContainer> parse(std::span<const std::uint8_t> file, const OpenOptions& options,
                              const Metadata* of_model) {
  Cursor cursor(file);
  TERN_ASSIGN(counts, read_counts(cursor, file));
  TERN_ASSIGN(metadata, read_metadata(cursor, counts.keys));
  TERN_ASSIGN(alignment, alignment_of(metadata));
  TERN_ASSIGN(claims, read_claims(cursor, counts.tensors));
  // A file without tensors may end with its directory.
  const std::size_t data_offset = std::min(round_up(cursor.at(), alignment), std::max(file.size(), cursor.at()));
  const std::size_t data_bytes = file.size() - data_offset;
  TERN_RETURN_IF_ERROR(check_length(claims, data_offset, file.size()));
  TERN_RETURN_IF_ERROR(place(claims, data_bytes, alignment));
  TERN_RETURN_IF_ERROR(settle_types(claims, alignment, of_model != nullptr ? *of_model : metadata, options));
  ParsedContainer parsed{.metadata = std::move(metadata)};
  parsed.tensors.reserve(claims.size());
  parsed.offsets.reserve(claims.size());
  for (Claim& claim : claims) {
    parsed.offsets.push_back(data_offset + static_cast<std::size_t>(claim.offset));
    parsed.tensors.push_back(std::move(claim.tensor));
  }
  return parsed;
}

}  // namespace tern::gguf
