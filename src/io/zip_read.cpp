// Reads the directory of an archive from its end: the end record, the central headers, then each local header.
#include <algorithm>
#include <optional>

#include "io/crc32.h"
#include "io/file_error.h"
#include "io/little_endian.h"
#include "io/zip_fields.h"
#include "io/zip_store.h"

namespace tern {
namespace {

using Bytes = std::span<const std::uint8_t>;

template <class... Args>
Error corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::corrupt_file, "zip", format, std::forward<Args>(args)...);
}

// Whether [offset, offset + count) lies inside the first `limit` bytes; nothing here can overflow.
bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t limit) {
  return offset <= limit && count <= limit - offset;
}

bool has_signature(Bytes archive, std::uint64_t offset, std::uint32_t signature) {
  return fits(offset, 4, archive.size()) && read_le<std::uint32_t>(archive, offset) == signature;
}

struct Directory {
  std::uint64_t count = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t end = 0;  // where the next record begins
};

Result<Directory> read_end64(Bytes archive, std::uint64_t locator) {
  if (read_le<std::uint32_t>(archive, locator + 4) != 0 || read_le<std::uint32_t>(archive, locator + 16) != 1)
    return error(Code::unsupported, "zip", "the archive is split over several disks");
  const auto at = read_le<std::uint64_t>(archive, locator + 8);
  if (!fits(at, zip::kEnd64Bytes, locator) || !has_signature(archive, at, zip::kEnd64Signature))
    return corrupt("there is no zip64 end record at byte {}", at);
  if (read_le<std::uint64_t>(archive, at + 4) != locator - at - 12)
    return corrupt("the zip64 end record at byte {} says it is {} bytes long", at,
                   read_le<std::uint64_t>(archive, at + 4));
  if (read_le<std::uint32_t>(archive, at + 16) != 0 || read_le<std::uint32_t>(archive, at + 20) != 0)
    return error(Code::unsupported, "zip", "the archive is split over several disks");
  const auto count = read_le<std::uint64_t>(archive, at + 24);
  if (read_le<std::uint64_t>(archive, at + 32) != count)
    return corrupt("the zip64 end record counts {} and {} entries", count, read_le<std::uint64_t>(archive, at + 32));
  return Directory{.count = count,
                   .offset = read_le<std::uint64_t>(archive, at + 48),
                   .size = read_le<std::uint64_t>(archive, at + 40),
                   .end = at};
}

Result<Directory> find_directory(Bytes archive) {
  if (archive.empty()) return corrupt("the file is empty");
  if (!has_signature(archive, 0, zip::kLocalSignature) && !has_signature(archive, 0, zip::kEndSignature))
    return corrupt("it begins with '{}', not with PK; is it an .npz file, as tern quantize writes?",
                   printable(text_of(archive.first(std::min<std::size_t>(archive.size(), 4)))));
  // The end record comes last, followed only by a comment whose length it states.
  constexpr std::size_t kMaxComment = 0xFFFF;
  const std::size_t last = archive.size() < zip::kEndBytes ? 0 : archive.size() - zip::kEndBytes;
  const std::size_t first = last > kMaxComment ? last - kMaxComment : 0;
  std::optional<std::size_t> end;
  for (std::size_t at = last + 1; at-- > first && !end;)
    if (fits(at, zip::kEndBytes, archive.size()) && has_signature(archive, at, zip::kEndSignature) &&
        read_le<std::uint16_t>(archive, at + 20) == last - at)
      end = at;
  if (!end) return corrupt("its {} bytes do not end with a directory: it is truncated or not a zip", archive.size());
  if (*end >= zip::kLocator64Bytes && has_signature(archive, *end - zip::kLocator64Bytes, zip::kLocator64Signature))
    return read_end64(archive, *end - zip::kLocator64Bytes);
  if (read_le<std::uint32_t>(archive, *end + 4) != 0)
    return error(Code::unsupported, "zip", "the archive is split over several disks");
  const auto count = read_le<std::uint16_t>(archive, *end + 8);
  if (read_le<std::uint16_t>(archive, *end + 10) != count)
    return corrupt("the end record counts {} and {} entries", count, read_le<std::uint16_t>(archive, *end + 10));
  return Directory{.count = count,
                   .offset = read_le<std::uint32_t>(archive, *end + 16),
                   .size = read_le<std::uint32_t>(archive, *end + 12),
                   .end = *end};
}

// What a local or central header says about its entry, with the zip64 field applied.
struct Fields {
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t stored = 0;
  std::uint64_t extracted = 0;
  std::uint64_t offset = 0;  // central headers only
  std::string_view name = {};
};

// Replaces the `values` that are all ones by those of the zip64 field, in the order of the field.
Status resolve_zip64(Bytes extra, std::string_view name, std::initializer_list<std::uint64_t*> values) {
  std::size_t at = 0;
  Bytes zip64;
  while (at < extra.size()) {
    if (!fits(at, 4, extra.size()) || !fits(at + 4, read_le<std::uint16_t>(extra, at + 2), extra.size()))
      return corrupt("an extra field of '{}' is longer than all of them", printable(name));
    const std::size_t length = read_le<std::uint16_t>(extra, at + 2);
    if (read_le<std::uint16_t>(extra, at) == zip::kZip64ExtraId) zip64 = extra.subspan(at + 4, length);
    at += 4 + length;
  }
  for (std::uint64_t* value : values) {
    if (*value != zip::kIn64) continue;
    if (zip64.size() < 8) return corrupt("'{}' has no zip64 field for a size of all ones", printable(name));
    *value = read_le<std::uint64_t>(zip64, 0);
    zip64 = zip64.subspan(8);
  }
  return {};
}

// Both headers have the same fields from the flags on; in the central one they begin 2 bytes later.
Fields read_common(Bytes archive, std::uint64_t at) {
  return {.flags = read_le<std::uint16_t>(archive, at),
          .method = read_le<std::uint16_t>(archive, at + 2),
          .crc = read_le<std::uint32_t>(archive, at + 8),
          .stored = read_le<std::uint32_t>(archive, at + 12),
          .extracted = read_le<std::uint32_t>(archive, at + 16)};
}

Status check_readable(const Fields& fields) {
  constexpr unsigned kEncrypted = 1U << 0 | 1U << 6 | 1U << 13;
  constexpr unsigned kPatch = 1U << 5;
  if ((fields.flags & kEncrypted) != 0)
    return error(Code::unsupported, "zip", "'{}' is encrypted; save it without a password", printable(fields.name));
  if (fields.method == zip::kDeflated)
    return error(Code::unsupported, "zip", "'{}' is compressed; save it with numpy.savez, not savez_compressed",
                 printable(fields.name));
  if (fields.method != zip::kStored || (fields.flags & kPatch) != 0)
    return error(Code::unsupported, "zip", "'{}' is stored by method {}; only method 0 (uncompressed) can be read",
                 printable(fields.name), fields.method);
  if (fields.stored != fields.extracted)
    return corrupt("'{}' is stored as it is, but in {} bytes instead of {}", printable(fields.name), fields.stored,
                   fields.extracted);
  return {};
}

// The local header that `central` points to must say the same, and its bytes must end before the directory.
Result<ZipEntry> read_local(Bytes archive, const Fields& central, std::uint64_t limit) {
  const std::string shown = printable(central.name);
  const std::uint64_t at = central.offset;
  if (!fits(at, zip::kLocalBytes, limit) || !has_signature(archive, at, zip::kLocalSignature))
    return corrupt("the directory places '{}' at byte {}, where no entry begins", shown, at);
  Fields local = read_common(archive, at + 6);
  const std::uint64_t name_bytes = read_le<std::uint16_t>(archive, at + 26);
  const std::uint64_t extra_bytes = read_le<std::uint16_t>(archive, at + 28);
  const std::uint64_t name_at = at + zip::kLocalBytes;
  if (!fits(name_at, name_bytes + extra_bytes, limit))
    return corrupt("the header of '{}' runs into the directory", shown);
  local.name = text_of(archive.subspan(name_at, name_bytes));
  if (local.name != central.name)
    return corrupt("the directory says '{}' where the entry says '{}'", shown, printable(local.name));
  TERN_RETURN_IF_ERROR(
      resolve_zip64(archive.subspan(name_at + name_bytes, extra_bytes), local.name, {&local.extracted, &local.stored}));
  if (local.flags != central.flags || local.method != central.method)
    return corrupt("the directory and the header of '{}' differ in flags or method", shown);
  // A writer that could not seek back left zeros here and put the numbers after the bytes.
  constexpr unsigned kNumbersFollow = 1U << 3;
  const bool left_out =
      (local.flags & kNumbersFollow) != 0 && local.crc == 0 && local.stored == 0 && local.extracted == 0;
  if (!left_out && (local.crc != central.crc || local.stored != central.stored || local.extracted != central.extracted))
    return corrupt("the directory and the header of '{}' differ in size or CRC", shown);
  const std::uint64_t data_at = name_at + name_bytes + extra_bytes;
  if (!fits(data_at, central.stored, limit))
    return corrupt("the directory gives '{}' {} bytes, but {} are left before the directory", shown, central.stored,
                   limit - data_at);
  return ZipEntry{.name = central.name,
                  .bytes = archive.subspan(data_at, central.stored),
                  .crc = central.crc,
                  .begin = at,
                  .end = data_at + central.stored};
}

// Two entries may share neither bytes nor a name: readers would disagree on which one counts.
Status check_apart(std::vector<ZipEntry>& entries) {
  std::ranges::sort(entries, {}, &ZipEntry::name);
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i - 1].name == entries[i].name) return corrupt("'{}' is in it twice", printable(entries[i].name));
  std::ranges::sort(entries, {}, &ZipEntry::begin);
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i - 1].end > entries[i].begin)
      return corrupt("'{}' and '{}' overlap", printable(entries[i - 1].name), printable(entries[i].name));
  return {};
}

}  // namespace

Result<std::vector<ZipEntry>> read_zip(Bytes archive) {
  TERN_ASSIGN(directory, find_directory(archive));
  if (!fits(directory.offset, directory.size, directory.end) || directory.offset + directory.size != directory.end)
    return corrupt("the archive's end record gives the directory {} bytes at byte {}, but it must end at byte {}",
                   directory.size, directory.offset, directory.end);
  if (directory.count > directory.size / zip::kCentralBytes)
    return corrupt("a directory of {} bytes cannot have {} entries", directory.size, directory.count);
  std::vector<ZipEntry> entries;
  entries.reserve(directory.count);
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    if (!fits(at, zip::kCentralBytes, directory.end) || !has_signature(archive, at, zip::kCentralSignature))
      return corrupt("entry {} of the directory does not begin at byte {}", i, at);
    Fields central = read_common(archive, at + 8);
    const std::uint64_t name_bytes = read_le<std::uint16_t>(archive, at + 28);
    const std::uint64_t extra_bytes = read_le<std::uint16_t>(archive, at + 30);
    const std::uint64_t comment_bytes = read_le<std::uint16_t>(archive, at + 32);
    central.offset = read_le<std::uint32_t>(archive, at + 42);
    at += zip::kCentralBytes;
    if (!fits(at, name_bytes + extra_bytes + comment_bytes, directory.end))
      return corrupt("entry {} of the directory is longer than the directory", i);
    central.name = text_of(archive.subspan(at, name_bytes));
    TERN_RETURN_IF_ERROR(resolve_zip64(archive.subspan(at + name_bytes, extra_bytes), central.name,
                                       {&central.extracted, &central.stored, &central.offset}));
    at += name_bytes + extra_bytes + comment_bytes;
    TERN_RETURN_IF_ERROR(check_readable(central));
    TERN_ASSIGN(entry, read_local(archive, central, directory.offset));
    entries.push_back(entry);
  }
  if (at != directory.end) return corrupt("{} bytes follow the last entry of the directory", directory.end - at);
  TERN_RETURN_IF_ERROR(check_apart(entries));
  return entries;
}

Status verify_crc(const ZipEntry& entry) {
  const std::uint32_t crc = crc32(0, entry.bytes);
  if (crc == entry.crc) return {};
  return corrupt("'{}' is damaged: its CRC-32 is {:08x}, not {:08x}", printable(entry.name), crc, entry.crc);
}

}  // namespace tern
