// NpyFile, save_npy, save_raw and their streams.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "io/file_error.h"
#include "io/little_endian.h"
#include "io/mapped_file.h"
#include "io/npy.h"
#include "io/output_file.h"
#include "tern/io.h"

namespace tern {
namespace {

constexpr std::string_view kOpen = "NpyFile::open";
constexpr std::string_view kOpenRaw = "NpyFile::open_raw";
constexpr std::string_view kSave = "save_npy";
constexpr std::string_view kSaveRaw = "save_raw";
constexpr std::string_view kWriteNpy = "write_npy";
constexpr std::string_view kWriteRaw = "write_raw";

// Checks a view before a file is created for it, and returns its number of elements.
Result<std::int64_t> check_view(std::string_view where, const ConstTensorView& tensor) {
  TERN_ASSIGN(count, element_count(tensor.shape));
  if (!checked_mul(count, static_cast<std::int64_t>(size_of(tensor.dtype))))
    return error(Code::invalid_argument, where, "shape {} of {} has more bytes than 2^63 - 1", name(tensor.shape),
                 name(tensor.dtype));
  if (tensor.strides.rank() != tensor.shape.rank())
    return error(Code::invalid_argument, where, "shape {} has {} strides, not {}", name(tensor.shape),
                 tensor.strides.rank(), tensor.shape.rank());
  if (tensor.device.kind != DeviceKind::cpu)
    return error(Code::invalid_argument, where, "the tensor is on {}; copy it to the host first", name(tensor.device));
  if (count > 0 && tensor.data == nullptr)
    return error(Code::invalid_argument, where, "the data of a tensor of shape {} is null", name(tensor.shape));
  return count;
}

// Writes the elements in row-major order: long dense runs directly, short ones through a buffer.
class ElementWriter {
 public:
  ElementWriter(OutputBytes& out, ProgressMeter& meter) : out_(out), meter_(meter) {}

  Status write(const ConstTensorView& tensor, std::int64_t count) {
    if (count == 0) return {};
    const auto item_bytes = static_cast<std::int64_t>(size_of(tensor.dtype));
    int outer = tensor.shape.rank();  // axes [outer, rank) are dense
    std::int64_t run_elems = 1;
    for (; outer > 0 && (tensor.strides[outer - 1] == run_elems || tensor.shape[outer - 1] == 1); --outer)
      run_elems *= tensor.shape[outer - 1];
    const auto* base = static_cast<const std::uint8_t*>(tensor.data);
    const auto run_bytes = static_cast<std::size_t>(run_elems * item_bytes);
    std::array<std::int64_t, Shape::kMaxRank> at{};
    std::int64_t offset_elems = 0;
    for (std::int64_t run = 0; run < count / run_elems; ++run) {
      TERN_RETURN_IF_ERROR(append({base + offset_elems * item_bytes, run_bytes}));
      for (int axis = outer - 1; axis >= 0; --axis) {
        auto& index = at[static_cast<std::size_t>(axis)];
        offset_elems += tensor.strides[axis];
        if (++index < tensor.shape[axis]) break;
        offset_elems -= index * tensor.strides[axis];
        index = 0;
      }
    }
    return flush();
  }

 private:
  Status append(std::span<const std::uint8_t> run) {
    if (run.size() >= kWriteChunkBytes) {
      TERN_RETURN_IF_ERROR(flush());
      return put(run);
    }
    if (buffer_.size() + run.size() > kWriteChunkBytes) TERN_RETURN_IF_ERROR(flush());
    buffer_.insert(buffer_.end(), run.begin(), run.end());
    return {};
  }

  Status flush() {
    TERN_RETURN_IF_ERROR(put(buffer_));
    buffer_.clear();
    return {};
  }

  Status put(std::span<const std::uint8_t> bytes) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kWriteChunkBytes))) {
      const auto chunk = bytes.first(std::min(bytes.size(), kWriteChunkBytes));
      TERN_RETURN_IF_ERROR(out_.write(chunk));
      meter_.advance(chunk.size());
    }
    return {};
  }

  OutputBytes& out_;
  ProgressMeter& meter_;
  std::vector<std::uint8_t> buffer_;
};

// A header (empty for raw files), and the elements of a view that was checked.
struct Content {
  const std::string& header;
  const ConstTensorView& tensor;
  std::int64_t count;

  [[nodiscard]] std::size_t bytes() const {
    return header.size() + static_cast<std::size_t>(count) * size_of(tensor.dtype);
  }
  [[nodiscard]] Status write(OutputBytes& out, ProgressMeter& meter) const {
    TERN_RETURN_IF_ERROR(out.write(bytes_of(header)));
    meter.advance(header.size());
    return ElementWriter(out, meter).write(tensor, count);
  }
};

Status save(std::string_view where, const std::string& path, const std::string& header, const ConstTensorView& tensor,
            const Progress& progress) {
  TERN_ASSIGN(count, check_view(where, tensor));
  const Content content{header, tensor, count};
  TERN_ASSIGN(file, OutputFile::create(path, where));
  ProgressMeter meter(progress, content.bytes());
  TERN_RETURN_IF_ERROR(content.write(file, meter));
  TERN_RETURN_IF_ERROR(file.commit());
  meter.finish();
  return {};
}

Status stream(std::string_view where, const ByteWriter& writer, const std::string& header,
              const ConstTensorView& tensor, const Progress& progress) {
  TERN_ASSIGN(count, check_view(where, tensor));
  const Content content{header, tensor, count};
  TERN_ASSIGN(out, OutputStream::create(writer, where));
  ProgressMeter meter(progress, content.bytes());
  TERN_RETURN_IF_ERROR(content.write(out, meter));
  meter.finish();
  return {};
}

}  // namespace

struct NpyFile::Impl {
  std::string path;
  std::shared_ptr<const MappedFile> file;  // keeps the bytes of the view alive for every copy of the NpyFile
  ConstTensorView view;
};

Result<NpyFile> NpyFile::open(const std::string& path) {
  TERN_ASSIGN(file, MappedFile::open(path, kOpen));
  auto header = npy::parse(file->bytes());
  if (!header.ok()) return in_file(std::move(header).error(), kOpen, path);
  if (header->text_bytes)
    return file_error(Code::unsupported, kOpen, "'{}': dtype '|S{}' is text; save an array of numbers", path,
                      *header->text_bytes);
  // May be unaligned where the writer did not pad the header (npy.h).
  const std::uint8_t* data = file->bytes().data() + header->data_offset;
  return NpyFile(
      std::make_shared<const Impl>(Impl{path, std::move(file), ConstTensorView(data, header->dtype, header->shape)}));
}

Result<NpyFile> NpyFile::open_raw(const std::string& path, DType dtype, const Shape& shape) {
  TERN_ASSIGN(count, element_count(shape));
  const auto bytes = checked_mul(count, static_cast<std::int64_t>(size_of(dtype)));
  if (!bytes)
    return error(Code::invalid_argument, kOpenRaw, "shape {} of {} has more bytes than 2^63 - 1", name(shape),
                 name(dtype));
  TERN_ASSIGN(file, MappedFile::open(path, kOpenRaw));
  if (npy::has_magic(file->bytes()))
    return file_error(Code::invalid_argument, kOpenRaw,
                      "'{}' is a .npy file, which says its dtype and shape itself; leave both out", path);
  if (file->bytes().size() != static_cast<std::size_t>(*bytes))
    return file_error(Code::invalid_argument, kOpenRaw, "'{}' has {} bytes, but {} of {} needs {}", path,
                      file->bytes().size(), name(shape), name(dtype), *bytes);
  const std::uint8_t* data = file->bytes().data();
  return NpyFile(std::make_shared<const Impl>(Impl{path, std::move(file), ConstTensorView(data, dtype, shape)}));
}

ConstTensorView NpyFile::view() const { return impl_->view; }
const std::string& NpyFile::path() const { return impl_->path; }

Status save_npy(const std::string& path, const ConstTensorView& tensor, const Progress& progress) {
  auto header = npy::make_header(tensor.dtype, tensor.shape);
  if (!header.ok()) return in_file(std::move(header).error(), kSave, path);
  return save(kSave, path, *header, tensor, progress);
}

Status save_raw(const std::string& path, const ConstTensorView& tensor, const Progress& progress) {
  return save(kSaveRaw, path, {}, tensor, progress);
}

Status write_npy(const ByteWriter& writer, const ConstTensorView& tensor, const Progress& progress) {
  TERN_ASSIGN(header, npy::make_header(tensor.dtype, tensor.shape));
  return stream(kWriteNpy, writer, header, tensor, progress);
}

Status write_raw(const ByteWriter& writer, const ConstTensorView& tensor, const Progress& progress) {
  return stream(kWriteRaw, writer, {}, tensor, progress);
}

}  // namespace tern
