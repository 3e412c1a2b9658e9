// The header of a .npy file: magic, version, length and a dict of three keys, all of them checked.
#include "io/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/checked.h"
#include "io/file_error.h"
#include "io/little_endian.h"
#include "io/npy_dict.h"

namespace tern::npy {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are mapped as they are: little-endian");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLengthOffset = 8;  // magic, major, minor
constexpr std::size_t kAlignment = 64;

constexpr std::array<std::pair<DType, std::string_view>, 6> kDescrs = {{{DType::f32, "<f4"},
                                                                        {DType::f64, "<f8"},
                                                                        {DType::f16, "<f2"},
                                                                        {DType::i8, "|i1"},
                                                                        {DType::u8, "|u1"},
                                                                        {DType::i32, "<i4"}}};

struct Element {
  DType dtype = DType::u8;
  std::optional<std::size_t> text_bytes;
};

Result<Element> parse_descr(std::string_view descr) {
  for (const auto& [dtype, word] : kDescrs)
    if (word == descr) return Element{dtype, {}};
  const std::string shown = printable(descr);
  const char order = descr.empty() ? ' ' : descr[0];
  const std::string_view type = descr.empty() ? descr : descr.substr(1);
  if (type == "i1") return Element{DType::i8, {}};  // foreign writers give even single bytes a byte order
  if (type == "u1") return Element{DType::u8, {}};
  if (type.substr(0, 1) == "S") {
    const auto size = whole_number(type.substr(1));
    if (size) return Element{DType::u8, static_cast<std::size_t>(*size)};
  }
  if (type.substr(0, 1) == "O")
    return error(Code::unsupported, "npy",
                 "dtype '{}' holds Python objects, which are never loaded; save the array with a numeric dtype", shown);
  if (order == '>')
    return error(Code::unsupported, "npy", "dtype '{}' is big-endian; save it with a.astype(a.dtype.newbyteorder('<'))",
                 shown);
  return error(Code::unsupported, "npy",
               "dtype '{}' is not one of <f4, <f8, <f2, |i1, |u1, <i4; convert it with a.astype(numpy.float32)", shown);
}

// Where the header's text begins and how long it is.
struct Extent {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

Result<Extent> find_text(std::span<const std::uint8_t> file) {
  if (file.empty()) return error(Code::corrupt_file, "npy", "the file is empty; a .npy file begins with \\x93NUMPY");
  const std::string_view start = text_of(file.first(std::min(file.size(), kMagic.size())));
  if (start != kMagic.substr(0, start.size()))
    return error(
        Code::corrupt_file, "npy",
        "it begins with '{}', not with \\x93NUMPY; is it a .npy file? Numbers without a header need dtype and shape",
        printable(start));
  if (file.size() < kLengthOffset + 2)
    return error(Code::corrupt_file, "npy", "it ends after {} bytes, inside the magic: it is truncated", file.size());
  const unsigned major = file[6];
  const unsigned minor = file[7];
  if (major < 1 || major > 3 || minor != 0)
    return error(Code::unsupported, "npy", "format version {}.{} is not 1.0, 2.0 or 3.0", major, minor);
  Extent text;
  if (major == 1) {
    text = {kLengthOffset + 2, read_le<std::uint16_t>(file, kLengthOffset)};
  } else {
    if (file.size() < kLengthOffset + 4)
      return error(Code::corrupt_file, "npy", "it ends after {} bytes, inside the header length: it is truncated",
                   file.size());
    text = {kLengthOffset + 4, read_le<std::uint32_t>(file, kLengthOffset)};
  }
  if (text.bytes > kMaxHeaderBytes)
    return error(Code::corrupt_file, "npy", "the header says it is {} bytes long; more than {} is refused", text.bytes,
                 kMaxHeaderBytes);
  if (text.bytes > file.size() - text.begin)
    return error(Code::corrupt_file, "npy",
                 "the header says it is {} bytes long, the file has {} left: it is truncated", text.bytes,
                 file.size() - text.begin);
  return text;
}

std::string wrap(std::string_view descr, const std::string& shape, std::size_t growth) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  text.append(growth, ' ');
  const std::size_t before = kLengthOffset + 2 + text.size() + 1;
  text.append(kAlignment - before % kAlignment, ' ');  // 64 spaces even if none are needed, as numpy does
  text += '\n';
  std::string header(kMagic);
  header += '\1';
  header += '\0';
  append_le(header, static_cast<std::uint16_t>(text.size()));  // eight axes stay far below what needs version 2.0
  return header + text;
}

}  // namespace

bool has_magic(std::span<const std::uint8_t> file) {
  return file.size() >= kMagic.size() && text_of(file.first(kMagic.size())) == kMagic;
}

Result<Header> parse(std::span<const std::uint8_t> file) {
  TERN_ASSIGN(text, find_text(file));
  TERN_ASSIGN(dict, parse_dict(text_of(file.subspan(text.begin, text.bytes))));
  if (dict.structured)
    return error(Code::unsupported, "npy", "the dtype is structured (descr is a list); save one field, as in a['x']");
  TERN_ASSIGN(element, parse_descr(dict.descr));
  if (dict.fortran_order)
    return error(Code::unsupported, "npy",
                 "fortran_order is True (column-major); save it with numpy.ascontiguousarray(a)");
  Header header{.dtype = element.dtype, .text_bytes = element.text_bytes, .shape = dict.shape};
  header.data_offset = text.begin + text.bytes;
  const auto item_bytes = static_cast<std::int64_t>(element.text_bytes.value_or(size_of(element.dtype)));
  const auto count = element_count(header.shape);
  const auto bytes = count.ok() ? checked_mul(*count, item_bytes) : std::nullopt;
  if (!bytes)
    return error(Code::corrupt_file, "npy", "shape {} of '{}' has more bytes than 2^63 - 1", name(header.shape),
                 printable(dict.descr));
  header.data_bytes = static_cast<std::size_t>(*bytes);
  const std::size_t present = file.size() - header.data_offset;
  if (present < header.data_bytes)
    return error(Code::corrupt_file, "npy", "shape {} of '{}' needs {} bytes of data, the file has {}: it is truncated",
                 name(header.shape), printable(dict.descr), header.data_bytes, present);
  if (present > header.data_bytes)
    return error(Code::corrupt_file, "npy", "{} bytes follow the {} bytes of data that shape {} of '{}' has",
                 present - header.data_bytes, header.data_bytes, name(header.shape), printable(dict.descr));
  return header;
}

Result<std::string> make_header(DType dtype, const Shape& shape) {
  std::string_view descr;
  for (const auto& [known, word] : kDescrs)
    if (known == dtype) descr = word;
  if (descr.empty())
    return error(Code::unsupported, "npy", "dtype {} has no name in .npy; convert it to f32 or save it raw",
                 name(dtype));
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  text += shape.rank() == 1 ? ",)" : ")";
  // numpy leaves room to grow the first size in place to any 64-bit number, of up to 21 characters as it counts them.
  const std::size_t growth = shape.rank() == 0 ? 0 : 21 - fmt::formatted_size("{}", shape[0]);
  return wrap(descr, text, growth);
}

std::string make_text_header(std::size_t text_bytes) { return wrap(fmt::format("|S{}", text_bytes), "()", 0); }

}  // namespace tern::npy
