// Writes local headers with their bytes, then the directory.
#include <algorithm>

#include "base/errors.h"
#include "io/crc32.h"
#include "io/little_endian.h"
#include "io/zip_fields.h"
#include "io/zip_store.h"

namespace tern {
namespace {

constexpr std::uint16_t kVersionStored = 20;
constexpr std::uint16_t kVersionZip64 = 45;
constexpr std::uint16_t kMadeByUnix = 3 << 8 | kVersionZip64;
constexpr std::uint16_t kNoTime = 0;
constexpr std::uint16_t kDate1980 = 1 << 5 | 1;             // year 0 since 1980, month 1, day 1
constexpr std::uint32_t kRegularFileMode = 0100644U << 16;  // what unzip gives the extracted file

std::uint32_t low_or_in64(std::uint64_t value, bool in64) {
  return in64 ? zip::kIn64 : static_cast<std::uint32_t>(value);
}

struct Record {
  const std::string& name;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool far = false;  // the offset needs zip64
  bool big = false;  // the size does
  std::uint32_t crc = 0;

  [[nodiscard]] std::uint16_t version() const { return big || far ? kVersionZip64 : kVersionStored; }
};

// The part that both headers have, from the flags to the length of the name.
void append_common(std::string& out, const Record& record) {
  append_le(out, std::uint16_t{0});  // flags
  append_le(out, zip::kStored);
  append_le(out, kNoTime);
  append_le(out, kDate1980);
  append_le(out, record.crc);
  append_le(out, low_or_in64(record.size, record.big));  // stored
  append_le(out, low_or_in64(record.size, record.big));  // extracted
  append_le(out, static_cast<std::uint16_t>(record.name.size()));
}

std::string zip64_extra(const std::string& values) {
  if (values.empty()) return {};
  std::string extra;
  append_le(extra, zip::kZip64ExtraId);
  append_le(extra, static_cast<std::uint16_t>(values.size()));
  return extra + values;
}

std::string sizes_in64(const Record& record) {
  std::string values;
  if (record.big) append_le(values, record.size);
  if (record.big) append_le(values, record.size);
  return values;
}

std::string local_header(const Record& record) {
  const std::string extra = zip64_extra(sizes_in64(record));
  std::string out;
  append_le(out, zip::kLocalSignature);
  append_le(out, record.version());
  append_common(out, record);
  append_le(out, static_cast<std::uint16_t>(extra.size()));
  return out + record.name + extra;
}

std::string central_header(const Record& record) {
  std::string values = sizes_in64(record);
  if (record.far) append_le(values, record.offset);
  const std::string extra = zip64_extra(values);
  std::string out;
  append_le(out, zip::kCentralSignature);
  append_le(out, kMadeByUnix);
  append_le(out, record.version());
  append_common(out, record);
  append_le(out, static_cast<std::uint16_t>(extra.size()));
  append_le(out, std::uint16_t{0});  // comment
  append_le(out, std::uint16_t{0});  // disk
  append_le(out, std::uint16_t{0});  // internal attributes
  append_le(out, kRegularFileMode);
  append_le(out, low_or_in64(record.offset, record.far));
  return out + record.name + extra;
}

}  // namespace

Status ZipWriter::add(const std::string& name, std::span<const std::uint8_t> head, std::span<const std::uint8_t> body,
                      ProgressMeter& meter) {
  Record record{.name = name, .offset = out_.written_bytes(), .size = head.size() + body.size()};
  record.far = record.offset >= zip64_from_;
  record.big = record.size >= zip64_from_;
  // The CRC precedes the bytes. In a file it is filled in afterwards, so that the bytes are read only once.
  if (file_ == nullptr) record.crc = crc32(crc32(0, head), body);
  TERN_RETURN_IF_ERROR(out_.write(bytes_of(local_header(record))));
  std::uint32_t crc = 0;
  for (auto part : {head, body})
    while (!part.empty()) {
      const auto chunk = part.first(std::min(part.size(), kWriteChunkBytes));
      if (file_ != nullptr) crc = crc32(crc, chunk);
      TERN_RETURN_IF_ERROR(out_.write(chunk));
      meter.advance(chunk.size());
      part = part.subspan(chunk.size());
    }
  if (file_ != nullptr) {
    record.crc = crc;
    TERN_RETURN_IF_ERROR(file_->overwrite(record.offset, bytes_of(local_header(record))));
  }
  directory_ += central_header(record);
  ++count_;
  return {};
}

Status ZipWriter::finish() {
  const std::uint64_t offset = out_.written_bytes();
  const std::uint64_t size = directory_.size();
  const bool in64 = offset >= zip64_from_ || size >= zip64_from_ || count_ >= zip::kCountIn64;
  if (in64) {
    append_le(directory_, zip::kEnd64Signature);
    append_le(directory_, std::uint64_t{zip::kEnd64Bytes - 12});  // what follows this field
    append_le(directory_, kMadeByUnix);
    append_le(directory_, kVersionZip64);
    append_le(directory_, std::uint32_t{0});  // this disk
    append_le(directory_, std::uint32_t{0});  // disk of the directory
    append_le(directory_, count_);
    append_le(directory_, count_);
    append_le(directory_, size);
    append_le(directory_, offset);
    append_le(directory_, zip::kLocator64Signature);
    append_le(directory_, std::uint32_t{0});  // disk of the zip64 end
    append_le(directory_, offset + size);
    append_le(directory_, std::uint32_t{1});  // disks
  }
  const auto count = in64 ? zip::kCountIn64 : static_cast<std::uint16_t>(count_);
  append_le(directory_, zip::kEndSignature);
  append_le(directory_, std::uint16_t{0});  // this disk
  append_le(directory_, std::uint16_t{0});  // disk of the directory
  append_le(directory_, count);
  append_le(directory_, count);
  append_le(directory_, low_or_in64(size, in64));
  append_le(directory_, low_or_in64(offset, in64));
  append_le(directory_, std::uint16_t{0});  // comment
  return out_.write(bytes_of(directory_));
}

}  // namespace tern
