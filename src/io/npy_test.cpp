// Headers of .npy files: as numpy writes them, and with every kind of error.
#include "io/npy.h"

#include <string>
#include <vector>

#include "base/errors.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

std::string file_of(std::string_view dict, std::string_view data = "", int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  if (version == 1)
    append_le(file, static_cast<std::uint16_t>(dict.size()));
  else
    append_le(file, static_cast<std::uint32_t>(dict.size()));
  return (file += dict) += data;
}

std::string f4(std::string_view shape, std::string_view data = "") {
  return file_of(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape), data);
}

std::string with_descr(std::string_view descr) {
  return file_of(fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': (1,), }}", descr), "12345678");
}

void expect_refused(const std::string& file, Code code, std::string_view part) {
  SCOPED_TRACE(file);
  expect_error(npy::parse(bytes_of(file)), code, part);
}

TEST(NpyHeader, IsWrittenAsNumpyWritesIt) {
  const auto header = npy::make_header(DType::f32, {2, 3});
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(*header, std::string("\x93NUMPY\x01\0\x76\0", 10) +
                         "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + std::string(58, ' ') + "\n");
  EXPECT_EQ(npy::make_text_header(8), std::string("\x93NUMPY\x01\0\x76\0", 10) +
                                          "{'descr': '|S8', 'fortran_order': False, 'shape': (), }" +
                                          std::string(62, ' ') + "\n");
}

TEST(NpyHeader, EveryDtypeAndShapeRoundTrips) {
  const std::vector<Shape> shapes = {Shape(),
                                     {0},
                                     {1},
                                     {7},
                                     {INT64_MAX / 8, 0},
                                     {0, INT64_MAX},
                                     {2, 3},
                                     {1, 2, 3, 1, 5},
                                     {3, 0},
                                     {1, 1, 1, 1, 1, 1, 1, 2}};
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i8, DType::u8, DType::i32})
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(std::string(name(dtype)) + name(shape));
      const auto header = npy::make_header(dtype, shape);
      ASSERT_TRUE(header.ok());
      EXPECT_EQ(header->size() % 64, 0U);
      EXPECT_EQ(header->back(), '\n');
      const auto count = static_cast<std::size_t>(*element_count(shape));
      const std::string file = *header + std::string(count * size_of(dtype), 'x');
      const auto parsed = npy::parse(bytes_of(file));
      ASSERT_TRUE(parsed.ok()) << parsed.error().str();
      EXPECT_EQ(parsed->dtype, dtype);
      EXPECT_EQ(parsed->shape, shape);
      EXPECT_EQ(parsed->data_offset, header->size());
      EXPECT_EQ(parsed->data_bytes, count * size_of(dtype));
      EXPECT_FALSE(parsed->text_bytes);
    }
  expect_error(npy::make_header(DType::bf16, {1}), Code::unsupported, "bf16 has no name in .npy");
}

TEST(NpyHeader, KeysMayComeInAnyOrderAndAnyVersion) {
  for (const int version : {1, 2, 3})
    for (const std::string_view dict : {"{'shape':(2,),'descr':'|u1','fortran_order':False}",
                                        "{\"fortran_order\": False, \"descr\": \"<u1\",\n\t"
                                        "\"shape\": ( 2 , ) , }  \n",
                                        "  {'descr': '|u1', 'shape': (1, 2), 'fortran_order': False,}"}) {
      const std::string file = file_of(dict, "ab", version);
      const auto parsed = npy::parse(bytes_of(file));
      ASSERT_TRUE(parsed.ok()) << parsed.error().str();
      EXPECT_EQ(parsed->dtype, DType::u8);
      EXPECT_EQ(parsed->data_bytes, 2U);
      EXPECT_EQ(parsed->data_offset, file.size() - 2);
    }
}

TEST(NpyHeader, ScalarHasRankNoneAndOneElement) {
  const std::string file = f4("()", "1234");
  const auto parsed = npy::parse(bytes_of(file));
  ASSERT_TRUE(parsed.ok()) << parsed.error().str();
  EXPECT_EQ(parsed->shape.rank(), 0);
  EXPECT_EQ(parsed->data_bytes, 4U);
}

TEST(NpyHeader, TextIsReadForMetaOnly) {
  const std::string file = npy::make_text_header(3) + "abc";
  const auto parsed = npy::parse(bytes_of(file));
  ASSERT_TRUE(parsed.ok()) << parsed.error().str();
  EXPECT_EQ(parsed->text_bytes, 3U);
  EXPECT_EQ(parsed->data_bytes, 3U);
}

TEST(NpyHeader, DtypesThatCannotBeReadSayWhatToDo) {
  expect_refused(with_descr("'|O'"), Code::unsupported, "'|O' holds Python objects, which are never loaded");
  expect_refused(with_descr("'>f4'"), Code::unsupported, "'>f4' is big-endian; save it with a.astype");
  expect_refused(with_descr("[('a', '<f4')]"), Code::unsupported, "structured (descr is a list); save one field");
  expect_refused(with_descr("'<i8'"), Code::unsupported, "'<i8' is not one of <f4, <f8, <f2, |i1, |u1, <i4");
  expect_refused(with_descr("'<U3'"), Code::unsupported, "convert it with a.astype(numpy.float32)");
  expect_refused(with_descr("''"), Code::unsupported, "dtype ''");
  expect_refused(with_descr("'|S'"), Code::unsupported, "dtype '|S'");
  expect_refused(with_descr("'|S-1'"), Code::unsupported, "dtype '|S-1'");
  expect_refused(with_descr("'\x01\xFF'"), Code::unsupported, "dtype '\\x01\\xff'");
  expect_refused(with_descr("'|S99999999999999999999'"), Code::unsupported, "dtype '|S99999999999999999999'");
}

TEST(NpyHeader, FortranOrderSaysWhatToDo) {
  expect_refused(file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234"), Code::unsupported,
                 "fortran_order is True (column-major); save it with numpy.ascontiguousarray(a)");
}

TEST(NpyHeader, HostileShapes) {
  expect_refused(f4("(4611686018427387904, 4)"), Code::corrupt_file, "[4611686018427387904, 4]");
  expect_refused(f4("(4611686018427387904,)"), Code::corrupt_file, "more bytes than 2^63 - 1");
  expect_refused(f4("(99999999999999999999,)"), Code::corrupt_file, "99999999999999999999, above 2^63 - 1");
  expect_refused(f4("(-1, 4)"), Code::corrupt_file, "the negative size -1");
  expect_refused(f4("(-, 4)"), Code::corrupt_file, "the negative size -");
  expect_refused(f4("(1, 1, 1, 1, 1, 1, 1, 1, 1)", "1234"), Code::unsupported, "more than 8 axes");
  expect_refused(f4("(1)", "1234"), Code::corrupt_file, "a shape of one axis is written (3,)");
  expect_refused(f4("(1 1)", "1234"), Code::corrupt_file, "where ',' or ')' must be");
  expect_refused(f4("(,)", "1234"), Code::corrupt_file, "is ',' where the size of an axis must be");
  expect_refused(f4("(1,, 1)", "1234"), Code::corrupt_file, "is ',' where the size of an axis must be");
  expect_refused(f4("[1]", "1234"), Code::corrupt_file, "is '[' where '(' must be");
  expect_refused(f4("(1.5,)", "1234"), Code::corrupt_file, "is '.'");
  expect_refused(f4("(1,1", "1234"), Code::corrupt_file, "is '}' where the size of an axis must be");
  expect_refused(file_of("{'descr': '|S4611686018427387904', 'fortran_order': False, 'shape': (2, 1), }"),
                 Code::corrupt_file, "more bytes than 2^63 - 1");
}

TEST(NpyHeader, BrokenDicts) {
  expect_refused(file_of(""), Code::corrupt_file, "byte 0 of the header is its end where '{' must be");
  expect_refused(file_of("{"), Code::corrupt_file, "is its end where a quoted word must be");
  expect_refused(file_of("{}"), Code::corrupt_file, "the header has no 'descr'");
  expect_refused(file_of("{'descr': '<f4', 'shape': ()}"), Code::corrupt_file, "has no 'fortran_order'");
  expect_refused(file_of("{'descr': '<f4', 'descr': '<f4'}"), Code::corrupt_file, "has 'descr' twice");
  expect_refused(file_of("{'order': 'C'}"), Code::corrupt_file, "has the key 'order'; only descr");
  expect_refused(file_of("{descr: '<f4'}"), Code::corrupt_file, "is 'd' where a quoted word must be");
  expect_refused(file_of("{'descr': '<f4\\''}"), Code::corrupt_file, "is '\\' where a closing quote must be");
  expect_refused(file_of("{'descr': '<f4"), Code::corrupt_file, "is its end where a closing quote must be");
  expect_refused(file_of("{'descr' '<f4'}"), Code::corrupt_file, "where ':' must be");
  expect_refused(file_of("{'fortran_order': 0}"), Code::corrupt_file, "is '0' where True or False must be");
  expect_refused(file_of("{'fortran_order': False 'shape': ()}"), Code::corrupt_file, "where '}' must be");
  expect_refused(file_of("{'fortran_order': False, 'descr': '|u1', 'shape': ()} x", "a"), Code::corrupt_file,
                 "is 'x' where the end of the header must be");
}

TEST(NpyHeader, BrokenFiles) {
  expect_refused("", Code::corrupt_file, "the file is empty");
  expect_refused("PK\3\4 and so on", Code::corrupt_file, "begins with 'PK\\x03\\x04 a', not with \\x93NUMPY");
  expect_refused(file_of("{}", "", 4), Code::unsupported, "format version 4.0");
  expect_refused(std::string("\x93NUMPY\1\1\0\0", 10), Code::unsupported, "format version 1.1");
  expect_refused(std::string("\x93NUMPY\2\0\xFF\xFF\xFF\x7F", 12), Code::corrupt_file,
                 "2147483647 bytes long; more than 65536 is refused");
  expect_refused(std::string("\x93NUMPY\1\0\x40\0{", 11), Code::corrupt_file, "64 bytes long, the file has 1 left");
  expect_refused(f4("(2,)", "1234567"), Code::corrupt_file, "needs 8 bytes of data, the file has 7: it is truncated");
  expect_refused(f4("(2,)", "123456789"), Code::corrupt_file, "1 bytes follow the 8 bytes of data");
}

TEST(NpyHeader, EveryTruncationIsRefused) {
  for (const int version : {1, 2}) {
    const std::string file =
        file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), } \n", "12345678", version);
    ASSERT_TRUE(npy::parse(bytes_of(file)).ok());
    for (std::size_t n = 0; n < file.size(); ++n) {
      const std::vector<std::uint8_t> exact(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
      EXPECT_EQ(npy::parse(exact).code(), Code::corrupt_file) << n;
    }
  }
}

}  // namespace
}  // namespace tern
