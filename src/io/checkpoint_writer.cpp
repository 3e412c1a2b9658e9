// CheckpointWriter: writes the header, then the tensors in order with zeros between them, and renames the file at the
// end.
#include <algorithm>
#include <array>
#include <map>

#include "io/file_error.h"
#include "io/gguf.h"
#include "io/little_endian.h"
#include "io/output_file.h"
#include "io/safetensors.h"

namespace tern {
namespace {

constexpr std::string_view kCreate = "CheckpointWriter::create";
constexpr std::string_view kWrite = "CheckpointWriter";

Status check_names(const Metadata& metadata, const std::vector<StoredTensor>& tensors) {
  if (tensors.size() > kMaxTensors || metadata.size() > kMaxKeys)
    return error(Code::invalid_argument, kCreate, "{} tensors and {} keys are more than the {} and {} that are read",
                 tensors.size(), metadata.size(), kMaxTensors, kMaxKeys);
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors) names.push_back(tensor.name);
  if (const std::size_t i = first_duplicate(names); i < names.size())
    return error(Code::invalid_argument, kCreate, "there are two tensors '{}'", printable(names[i]));
  names.clear();
  for (const MetaEntry& entry : metadata) names.push_back(entry.key);
  if (const std::size_t i = first_duplicate(names); i < names.size())
    return error(Code::invalid_argument, kCreate, "there are two keys '{}'", printable(names[i]));
  return {};
}

}  // namespace

struct CheckpointWriter::Impl {
  std::optional<OutputFile> file;  // reset after the first failure, which deletes what was written
  Container container = Container::safetensors;
  std::vector<StoredTensor> tensors;
  PlannedContainer planned;
  std::size_t header_bytes = 0;
  std::size_t current = 0;                     // the tensor that the next bytes belong to
  std::size_t current_done = 0;                // how many of its bytes were given
  std::size_t position = 0;                    // in the file, including the bytes in `waiting`
  std::map<std::size_t, std::size_t> skipped;  // skipped tensors, and how many of their bytes were filled in
  std::string waiting;                         // small pieces, collected for one large write

  Status give_up(Status why) {
    file.reset();
    return why;
  }

  Status flush() {
    if (waiting.empty()) return {};
    Status written = file->write(bytes_of(waiting));
    waiting.clear();
    return written.ok() ? Status() : give_up(std::move(written));
  }

  Status put(std::span<const std::uint8_t> bytes) {
    position += bytes.size();
    // Large pieces are written at once, while they are in a cache; small ones are collected.
    constexpr std::size_t kAlone = kWriteChunkBytes / 2;
    if (waiting.size() + bytes.size() >= kWriteChunkBytes || bytes.size() >= kAlone) TERN_RETURN_IF_ERROR(flush());
    if (bytes.size() < kAlone) {
      waiting += text_of(bytes);
      return {};
    }
    Status written = file->write(bytes);
    return written.ok() ? Status() : give_up(std::move(written));
  }

  Status pad_to(std::size_t offset) {
    static constexpr std::array<std::uint8_t, 4096> kZeros{};
    while (position < offset)
      TERN_RETURN_IF_ERROR(put(std::span(kZeros).first(std::min(kZeros.size(), offset - position))));
    return {};
  }

  // Steps over complete tensors, empty ones included, and pads up to where the next tensor begins.
  Status advance() {
    while (current < tensors.size() && current_done == tensors[current].bytes) {
      ++current;
      current_done = 0;
      TERN_RETURN_IF_ERROR(pad_to(current < tensors.size() ? planned.offsets[current] : planned.file_bytes));
    }
    return {};
  }
};

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointWriter::~CheckpointWriter() = default;
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;

Result<CheckpointWriter> CheckpointWriter::create(const std::string& path, Container container,
                                                  const Metadata& metadata, std::vector<StoredTensor> tensors) {
  TERN_RETURN_IF_ERROR(check_names(metadata, tensors));
  auto planned = container == Container::gguf ? gguf::plan(metadata, tensors) : safetensors::plan(metadata, tensors);
  if (!planned.ok()) return in_file(std::move(planned).error(), kCreate, path);
  TERN_ASSIGN(file, OutputFile::create(path, kWrite));
  auto impl = std::make_unique<Impl>();
  impl->file.emplace(std::move(file));
  impl->container = container;
  impl->tensors = std::move(tensors);
  impl->planned = *std::move(planned);
  TERN_RETURN_IF_ERROR(impl->put(bytes_of(impl->planned.header)));
  impl->header_bytes = impl->planned.header.size();
  impl->planned.header = {};
  TERN_RETURN_IF_ERROR(impl->advance());
  return CheckpointWriter(std::move(impl));
}

std::span<const StoredTensor> CheckpointWriter::tensors() const { return impl_->tensors; }
std::size_t CheckpointWriter::file_bytes() const { return impl_->planned.file_bytes; }

Status CheckpointWriter::write(std::span<const std::uint8_t> bytes) {
  if (!impl_->file) return error(Code::invalid_argument, kWrite, "the file is finished, or an earlier write failed");
  if (bytes.empty()) return {};
  if (impl_->current == impl_->tensors.size())
    return error(Code::invalid_argument, kWrite, "{} bytes more than the tensors have", bytes.size());
  const StoredTensor& tensor = impl_->tensors[impl_->current];
  if (bytes.size() > tensor.bytes - impl_->current_done)
    return error(Code::invalid_argument, kWrite, "{} bytes for tensor '{}', which lacks {} of {}", bytes.size(),
                 printable(tensor.name), tensor.bytes - impl_->current_done, tensor.bytes);
  TERN_RETURN_IF_ERROR(impl_->put(bytes));
  impl_->current_done += bytes.size();
  return impl_->advance();
}

Status CheckpointWriter::skip() {
  if (!impl_->file) return error(Code::invalid_argument, kWrite, "the file is finished, or an earlier write failed");
  if (impl_->current == impl_->tensors.size())
    return error(Code::invalid_argument, kWrite, "there is no tensor left to skip");
  const StoredTensor& tensor = impl_->tensors[impl_->current];
  if (impl_->current_done > 0)
    return error(Code::invalid_argument, kWrite, "tensor '{}' has {} of its bytes already", printable(tensor.name),
                 impl_->current_done);
  TERN_RETURN_IF_ERROR(impl_->flush());
  if (Status skipped = impl_->file->skip(tensor.bytes); !skipped.ok()) return impl_->give_up(std::move(skipped));
  impl_->skipped.emplace(impl_->current, 0);
  impl_->position += tensor.bytes;
  impl_->current_done = tensor.bytes;
  return impl_->advance();
}

Status CheckpointWriter::fill(std::size_t index, std::span<const std::uint8_t> bytes) {
  if (!impl_->file) return error(Code::invalid_argument, kWrite, "the file is finished, or an earlier write failed");
  const auto skipped = impl_->skipped.find(index);
  if (skipped == impl_->skipped.end()) return error(Code::invalid_argument, kWrite, "tensor {} was not skipped", index);
  const StoredTensor& tensor = impl_->tensors[index];
  if (bytes.size() > tensor.bytes - skipped->second)
    return error(Code::invalid_argument, kWrite, "{} bytes for tensor '{}', which lacks {} of {}", bytes.size(),
                 printable(tensor.name), tensor.bytes - skipped->second, tensor.bytes);
  Status written = impl_->file->overwrite(impl_->planned.offsets[index] + skipped->second, bytes);
  if (!written.ok()) return impl_->give_up(std::move(written));
  skipped->second += bytes.size();
  return {};
}

Status CheckpointWriter::replace_metadata(const Metadata& metadata) {
  if (!impl_->file) return error(Code::invalid_argument, kWrite, "the file is finished, or an earlier write failed");
  std::vector<StoredTensor> tensors = impl_->tensors;
  TERN_RETURN_IF_ERROR(check_names(metadata, tensors));
  TERN_ASSIGN(planned, impl_->container == Container::gguf ? gguf::plan(metadata, tensors)
                                                           : safetensors::plan(metadata, tensors));
  if (planned.header.size() != impl_->header_bytes || planned.offsets != impl_->planned.offsets)
    return error(Code::invalid_argument, kWrite,
                 "the new metadata needs a header of {} bytes, but the file has one of {}", planned.header.size(),
                 impl_->header_bytes);
  TERN_RETURN_IF_ERROR(impl_->flush());
  Status written = impl_->file->overwrite(0, bytes_of(planned.header));
  return written.ok() ? Status() : impl_->give_up(std::move(written));
}

Status CheckpointWriter::finish() {
  if (!impl_->file) return error(Code::invalid_argument, kWrite, "the file is finished, or an earlier write failed");
  if (impl_->current < impl_->tensors.size()) {
    const StoredTensor& tensor = impl_->tensors[impl_->current];
    return impl_->give_up(error(Code::invalid_argument, kWrite, "tensor '{}' lacks {} of {} bytes",
                                printable(tensor.name), tensor.bytes - impl_->current_done, tensor.bytes));
  }
  for (const auto& [index, done] : impl_->skipped)
    if (const StoredTensor& tensor = impl_->tensors[index]; done < tensor.bytes)
      return impl_->give_up(error(Code::invalid_argument, kWrite, "tensor '{}' lacks {} of {} bytes",
                                  printable(tensor.name), tensor.bytes - done, tensor.bytes));
  TERN_RETURN_IF_ERROR(impl_->flush());
  Status committed = impl_->file->commit();
  impl_->file.reset();
  return committed;
}

}  // namespace tern
