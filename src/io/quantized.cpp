// save_quantized, write_quantized and load_quantized: three .npy files in a stored zip, and checks that they agree.
#include "io/quantized.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "format/checksum.h"
#include "format/format.h"
#include "format/invalid_value.h"
#include "io/file_error.h"
#include "io/little_endian.h"
#include "io/mapped_file.h"
#include "io/meta.h"
#include "io/npy.h"
#include "io/output_file.h"
#include "io/zip_store.h"
#include "tern/io.h"

namespace tern {
namespace {

constexpr std::string_view kSaveQuantized = "save_quantized";
constexpr std::string_view kWriteQuantized = "write_quantized";
constexpr std::string_view kLoad = "load_quantized";

// The shapes of codes and scales that follow from a tensor's shape, format and granularity.
struct Layout {
  std::int64_t rows = 0;
  std::int64_t k = 0;
  Shape codes;
  Shape scales;
};

Result<Layout> layout_of(const Meta& meta, std::string_view where) {
  if (!holds(meta.format, meta.scheme))
    return error(Code::invalid_argument, where, "format {} does not hold the codes of scheme {}", name(meta.format),
                 name(meta.scheme));
  const bool grouped = meta.granularity.kind == Granularity::Kind::group;
  if (grouped && meta.granularity.group_size <= 0)
    return error(Code::invalid_argument, where, "group size {} is not above 0", meta.granularity.group_size);
  TERN_ASSIGN(elements, element_count(meta.shape));
  if (elements == 0)
    return error(Code::empty_input, where, "shape {} has no elements; there is nothing to store", name(meta.shape));
  // Leading axes fold into rows, the last is k; a scalar is one row of one.
  const auto sizes = meta.shape.sizes();
  TERN_ASSIGN(rows, element_count(Shape(sizes.first(sizes.empty() ? 0 : sizes.size() - 1))));
  const std::int64_t k = sizes.empty() ? 1 : sizes.back();
  Layout layout{.rows = rows, .k = k, .codes = {rows, row_bytes(meta.format, k)}, .scales = {1}};
  if (grouped) layout.scales = {rows, ceil_div(k, meta.granularity.group_size)};
  if (meta.granularity.kind == Granularity::Kind::row) layout.scales = {rows, 1};
  return layout;
}

Status check_codes(const Meta& meta, const Layout& layout, const std::uint8_t* codes, std::string_view where) {
  const std::int64_t stride = layout.codes[1];
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    const std::uint8_t* bytes = codes + row * stride;
    const std::int64_t i = first_invalid_code(meta.format, meta.scheme, bytes, layout.k);
    if (i < 0) continue;
    InvalidValue found = invalid_code(meta.format, meta.scheme, bytes, layout.k, i);
    if (i == layout.k)
      return with(found,
                  error_at(row * layout.k + i - 1, Code::invalid_quantized_value, where,
                           "the padding after row {} of the {} codes is not zero codes", row, name(meta.format)));
    return with(found, error_at(row * layout.k + i, Code::invalid_quantized_value, where,
                                "element {} (row {}) has the code {}, which {} never produces", row * layout.k + i, row,
                                read_code(meta.format, bytes, i), name(meta.scheme)));
  }
  return {};
}

Status check_scales(std::span<const float> scales, std::string_view where) {
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (!valid_scale(scales[i]))
      return with(invalid_scale(scales[i]), error_at(static_cast<std::int64_t>(i), Code::invalid_scale, where,
                                                     "scale {} is {}, not finite and above 0", i, scales[i]));
  return {};
}

Status check_tensor(const Tensor& tensor, std::string_view what, DType dtype, const Shape& shape,
                    std::string_view where) {
  if (tensor.dtype() != dtype || tensor.shape() != shape)
    return error(Code::invalid_argument, where, "{} are {} {}, but must be {} {}", what, name(tensor.dtype()),
                 name(tensor.shape()), name(dtype), name(shape));
  if (tensor.view().device.kind != DeviceKind::cpu)
    return error(Code::invalid_argument, where, "{} are on {}; copy the tensor to the host first", what,
                 name(tensor.view().device));
  return {};
}

std::span<const std::uint8_t> bytes_of(const Tensor& tensor) { return tensor.as<const std::uint8_t>(); }

Result<ZipEntry> find_entry(std::span<const ZipEntry> entries, std::string_view wanted, Sums sums) {
  const auto found = std::ranges::find(entries, wanted, &ZipEntry::name);
  if (found == entries.end())
    return error(Code::corrupt_file, kLoad, "there is no '{}' in it; was it written by tern?", wanted);
  if (sums == Sums::verify) TERN_RETURN_IF_ERROR(verify_crc(*found));
  return *found;
}

Result<npy::Header> parse_member(const ZipEntry& entry) {
  auto header = npy::parse(entry.bytes);
  if (!header.ok()) return in_file(std::move(header).error(), kLoad, entry.name);
  return header;
}

// A member that must be exactly `dtype` of `shape`, copied into memory of its own.
Result<Tensor> load_member(const ZipEntry& entry, DType dtype, const Shape& shape,
                           const std::shared_ptr<MemoryResource>& memory, const char* tag) {
  TERN_ASSIGN(header, parse_member(entry));
  if (header.text_bytes || header.dtype != dtype || header.shape != shape)
    return error(Code::corrupt_file, kLoad, "'{}' is {} {}, but meta says {} {}", entry.name,
                 header.text_bytes ? "text" : name(header.dtype), name(header.shape), name(dtype), name(shape));
  TERN_ASSIGN(tensor, Tensor::allocate(memory, dtype, shape, tag));
  if (tensor.bytes() > 0) std::memcpy(tensor.data(), entry.bytes.data() + header.data_offset, tensor.bytes());
  return tensor;
}

Result<Meta> load_meta(const ZipEntry& entry) {
  TERN_ASSIGN(header, parse_member(entry));
  const bool bytes_row = !header.text_bytes && header.dtype == DType::u8 && header.shape.rank() == 1;
  if (!bytes_row && !(header.text_bytes && header.shape.rank() == 0))
    return error(Code::corrupt_file, kLoad, "'{}' is neither a text nor a row of u8", entry.name);
  return parse_meta(text_of(entry.bytes.subspan(header.data_offset)));
}

// The members of an archive, checked and ready to be written.
struct Archive {
  const QuantizedTensor& tensor;
  std::string codes_header, scales_header, meta_header, meta;

  static Result<Archive> of(const QuantizedTensor& tensor, std::string_view where) {
    Meta meta{tensor.scheme, tensor.granularity, tensor.format, tensor.shape};
    TERN_ASSIGN(layout, layout_of(meta, where));
    TERN_RETURN_IF_ERROR(check_tensor(tensor.codes, "the codes", code_dtype(meta.format), layout.codes, where));
    TERN_RETURN_IF_ERROR(check_tensor(tensor.scales, "the scales", DType::f32, layout.scales, where));
    TERN_RETURN_IF_ERROR(check_codes(meta, layout, bytes_of(tensor.codes).data(), where));
    TERN_RETURN_IF_ERROR(check_scales(tensor.scale_values(), where));
    meta.checksum = checksum(bytes_of(tensor.codes), bytes_of(tensor.scales));
    std::string text = to_json(meta);
    TERN_ASSIGN(codes_header, npy::make_header(tensor.codes.dtype(), layout.codes));
    TERN_ASSIGN(scales_header, npy::make_header(DType::f32, layout.scales));
    return Archive{tensor, std::move(codes_header), std::move(scales_header), npy::make_text_header(text.size()),
                   std::move(text)};
  }

  [[nodiscard]] std::size_t bytes() const {
    return codes_header.size() + tensor.codes.bytes() + scales_header.size() + tensor.scales.bytes() +
           meta_header.size() + meta.size();
  }

  Status write(ZipWriter zip, ProgressMeter& meter) const {
    TERN_RETURN_IF_ERROR(zip.add("codes.npy", tern::bytes_of(codes_header), bytes_of(tensor.codes), meter));
    TERN_RETURN_IF_ERROR(zip.add("scales.npy", tern::bytes_of(scales_header), bytes_of(tensor.scales), meter));
    TERN_RETURN_IF_ERROR(zip.add("meta.npy", tern::bytes_of(meta_header), tern::bytes_of(meta), meter));
    return zip.finish();
  }
};

}  // namespace

Status save_quantized(const std::string& path, const QuantizedTensor& tensor, const Progress& progress) {
  TERN_ASSIGN(archive, Archive::of(tensor, kSaveQuantized));
  TERN_ASSIGN(file, OutputFile::create(path, kSaveQuantized));
  ProgressMeter meter(progress, archive.bytes());
  TERN_RETURN_IF_ERROR(archive.write(ZipWriter(file), meter));
  TERN_RETURN_IF_ERROR(file.commit());
  meter.finish();
  return {};
}

Status write_quantized(const ByteWriter& writer, const QuantizedTensor& tensor, const Progress& progress) {
  TERN_ASSIGN(archive, Archive::of(tensor, kWriteQuantized));
  TERN_ASSIGN(out, OutputStream::create(writer, kWriteQuantized));
  ProgressMeter meter(progress, archive.bytes());
  TERN_RETURN_IF_ERROR(archive.write(ZipWriter(out), meter));
  meter.finish();
  return {};
}

Result<QuantizedTensor> parse_quantized(std::span<const std::uint8_t> archive,
                                        const std::shared_ptr<MemoryResource>& memory, Sums sums) {
  if (memory->device().kind != DeviceKind::cpu)
    return error(Code::unsupported, kLoad, "files are read into host memory, not into {}", name(memory->device()));
  TERN_ASSIGN(entries, read_zip(archive));
  TERN_ASSIGN(meta_entry, find_entry(entries, "meta.npy", sums));
  TERN_ASSIGN(meta, load_meta(meta_entry));
  auto layout = layout_of(meta, kLoad);
  if (!layout.ok()) return error(Code::corrupt_file, kLoad, "meta: {}", layout.error().message);
  TERN_ASSIGN(codes_entry, find_entry(entries, "codes.npy", sums));
  TERN_ASSIGN(scales_entry, find_entry(entries, "scales.npy", sums));
  TERN_ASSIGN(codes, load_member(codes_entry, code_dtype(meta.format), layout->codes, memory, "codes"));
  TERN_ASSIGN(scales, load_member(scales_entry, DType::f32, layout->scales, memory, "scales"));

  const std::uint64_t sum = checksum(bytes_of(codes), bytes_of(scales));
  if (sums == Sums::verify && sum != meta.checksum)
    return error(Code::corrupt_file, kLoad,
                 "it is damaged: the checksum of codes and scales is {:016x}, but meta says {:016x}", sum,
                 meta.checksum);
  TERN_RETURN_IF_ERROR(check_codes(meta, *layout, bytes_of(codes).data(), kLoad));
  TERN_RETURN_IF_ERROR(check_scales(scales.as<const float>(), kLoad));
  QuantizedTensor tensor;
  tensor.codes = std::move(codes);
  tensor.scales = std::move(scales);
  tensor.shape = meta.shape;
  tensor.scheme = meta.scheme;
  tensor.format = meta.format;
  tensor.granularity = meta.granularity;
  return tensor;
}

Result<QuantizedTensor> load_quantized(const std::string& path, const std::shared_ptr<MemoryResource>& memory) {
  if (memory && memory->device().kind != DeviceKind::cpu)
    return error(Code::invalid_argument, kLoad, "the memory is of {}; load to the host and move it",
                 name(memory->device()));
  TERN_ASSIGN(file, MappedFile::open(path, kLoad));
  auto tensor = parse_quantized(file->bytes(), memory ? memory : host_memory());
  if (!tensor.ok()) return in_file(std::move(tensor).error(), kLoad, path);
  return tensor;
}

}  // namespace tern
