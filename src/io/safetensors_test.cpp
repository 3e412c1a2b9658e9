// The safetensors header: golden bytes, round trips, and every kind of error.
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include "tests/support/test_files.h"

namespace tern::safetensors {
namespace {

// Parses a file with this header and this many bytes of data, from memory that ends with the file.
std::string file_of(std::string_view header, std::size_t data_bytes) {
  std::string file;
  append_le(file, std::uint64_t{header.size()});
  file += header;
  file.append(data_bytes, 'd');
  return file;
}

Result<ParsedContainer> parse_text(const std::string& file) {
  const std::vector<std::uint8_t> exact(file.begin(), file.end());
  return parse(exact);
}

Result<ParsedContainer> parse_file(std::string_view header, std::size_t data_bytes) {
  return parse_text(file_of(header, data_bytes));
}

TEST(Safetensors, WritesTheseBytes) {
  std::vector<StoredTensor> tensors = {{.name = "b", .type = StoredType::u8, .shape = {3}},
                                       {.name = "w\"\n", .type = StoredType::f32, .shape = {2, 1}},
                                       {.name = "s", .type = StoredType::bf16, .shape = {}}};
  const auto planned = plan({{"format", MetaValue("pt")}, {"\xC3\xA9", MetaValue("\x1b")}}, tensors);
  ASSERT_TRUE(planned.ok()) << planned.error().str();
  std::string text = R"({"__metadata__":{"format":"pt","\u00e9":"\u001b"},)"
                     R"("w\"\n":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                     R"("s":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},)"
                     R"("b":{"dtype":"U8","shape":[3],"data_offsets":[10,13]}})";
  text.append(64 - (text.size() + 8) % 64, ' ');
  EXPECT_EQ(planned->header, file_of(text, 0));
  EXPECT_EQ(planned->header.size() % 64, 0U);
  EXPECT_EQ(planned->file_bytes, planned->header.size() + 13);
  EXPECT_EQ(planned->offsets[1], planned->header.size() + 8);
  EXPECT_EQ(tensors[0].name, "w\"\n");  // reordered by the size of their elements
  EXPECT_EQ(tensors[0].bytes, 8U);

  const auto parsed = parse_text(planned->header + std::string(13, 'x'));
  ASSERT_TRUE(parsed.ok()) << parsed.error().str();
  EXPECT_EQ(parsed->offsets, planned->offsets);
  EXPECT_EQ(parsed->metadata, (Metadata{{"format", MetaValue("pt")}, {"\xC3\xA9", MetaValue("\x1b")}}));
  EXPECT_EQ(parsed->tensors, tensors);
}

TEST(Safetensors, EveryTypeRoundTrips) {
  std::vector<StoredTensor> tensors;
  for (const StoredTypeInfo& row : stored_types())
    if (row.in_safetensors) tensors.push_back({.name = std::string(row.name), .type = row.type, .shape = {2, 4}});
  EXPECT_EQ(tensors.size(), 22U);
  const auto planned = plan({}, tensors);
  ASSERT_TRUE(planned.ok()) << planned.error().str();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTypeInfo& row = info(tensors[i].type);
    if (row.block_elements == 1) {
      EXPECT_EQ(planned->offsets[i] % static_cast<std::size_t>(row.block_bytes), 0U) << row.name;
    }
  }
  const auto parsed = parse_text(planned->header + std::string(planned->file_bytes - planned->header.size(), 'x'));
  ASSERT_TRUE(parsed.ok()) << parsed.error().str();
  ASSERT_EQ(parsed->tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(name(parsed->tensors[i].type), tensors[i].name);
}

TEST(Safetensors, ReadsWhatOthersMayWrite) {
  // Offsets in any order of keys, white space, empty tensors, no tensors, metadata of null.
  const auto parsed = parse_file(
      "{ \"b\" : {\"data_offsets\":[4,8],\"shape\":[ 1 ],\"dtype\":\"I32\"},\n"
      "\"e\":{\"dtype\":\"F64\",\"shape\":[0,9],\"data_offsets\":[4,4]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]}} \n\t ",
      8);
  ASSERT_TRUE(parsed.ok()) << parsed.error().str();
  ASSERT_EQ(parsed->tensors.size(), 3U);
  EXPECT_EQ(parsed->tensors[0].name, "a");
  EXPECT_EQ(parsed->tensors[1].name, "e");
  EXPECT_EQ(parsed->tensors[2].name, "b");
  EXPECT_TRUE(parse_file("{}", 0).ok());
  EXPECT_TRUE(parse_file(R"({"__metadata__":null})", 0).ok());
  EXPECT_TRUE(parse_file(R"({"__metadata__":{}})", 0).ok());
  const auto named = parse_file(R"({"a\u0000\u001b[2J":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->tensors[0].name, std::string("a\0\x1b[2J", 6));
}

TEST(Safetensors, WrongHeadersAreRefused) {
  expect_error(parse_text(""), Code::corrupt_file, "empty");
  expect_error(parse_text("123456789"), Code::corrupt_file, "ends after 9 bytes");
  expect_error(parse_text(std::string(7, '\0') + "\x01{}"), Code::corrupt_file,
               "which would be 72057594037927936 bytes where the format allows 100000000");
  std::string text = file_of("{}", 0);
  text[0] = 3;
  expect_error(parse_text(text), Code::corrupt_file, "3 bytes long, the file has 2 left");
  text[0] = 0;
  expect_error(parse_text(text), Code::corrupt_file, "begins with '', not with a brace");
  expect_error(parse_file(" {}", 0), Code::corrupt_file, "begins with ' {}'");
  expect_error(parse_file("{]", 0), Code::corrupt_file, "not JSON at byte 2");
  expect_error(parse_file("{}x", 0), Code::corrupt_file, "not JSON");
  expect_error(parse_file(std::string("{}\0 hidden", 10), 0), Code::corrupt_file, "a NUL at byte 2");
  expect_error(parse_file("{\"\xFF\":1}", 0), Code::corrupt_file, "not JSON");
  expect_error(parse_file("{\"a\x1b\":1}", 0), Code::corrupt_file, "not JSON");
  expect_error(parse_file("{", 0), Code::corrupt_file, "ends after 9 bytes");
  expect_error(parse_file("{ ", 0), Code::corrupt_file, "not JSON");
  std::string deep(100000, '[');
  expect_error(parse_file("{\"a\":" + deep, 0), Code::corrupt_file, "'a' is a list, not an object");
  expect_error(parse_file("{\"a\":{\"shape\":" + deep, 0), Code::corrupt_file, "shape of tensor 'a' holds a list");
  deep.clear();
  for (int i = 0; i < 10000; ++i) deep += "{\"a\":";
  expect_error(parse_file(deep, 0), Code::corrupt_file, "tensor 'a' has a key 'a'");
}

TEST(Safetensors, WrongTensorsAreRefused) {
  const struct {
    std::string_view entries;
    std::size_t data_bytes;
    std::string_view part;
  } cases[] = {
      {R"("a":1)", 0, "'a' is the number 1, not an object"},
      {R"("a":"x")", 0, "'a' is the text 'x'"},
      {R"("a":null)", 0, "'a' is null"},
      {R"("a":true)", 0, "'a' is true"},
      {R"("a":{})", 0, "tensor 'a' has no 'dtype'"},
      {R"("a":{"dtype":"U8","shape":[1]})", 1, "tensor 'a' has no 'data_offsets'"},
      {R"("a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]})", 1, "has 'dtype' twice"},
      {R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0})", 1, "has a key 'x'"},
      {R"("a":{"dtype":"U7","shape":[1],"data_offsets":[0,1]})", 1, "dtype of tensor 'a' is 'U7'"},
      {R"("a":{"dtype":"\u001b[31m","shape":[1],"data_offsets":[0,1]})", 1, "'\\x1b[31m'"},
      {R"("a":{"dtype":"TQ2_0","shape":[256],"data_offsets":[0,66]})", 66, "'TQ2_0'"},
      {R"("a":{"dtype":8,"shape":[1],"data_offsets":[0,1]})", 1, "dtype of tensor 'a' is the number 8"},
      {R"("a":{"dtype":"U8","shape":1,"data_offsets":[0,1]})", 1, "shape of tensor 'a' is the number 1"},
      {R"("a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]})", 1, "shape of tensor 'a' holds the text '1'"},
      {R"("a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})", 1, "holds 1.0"},
      {R"("a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]})", 1, "holds -1"},
      {R"("a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]})", 1, "holds true"},
      {R"("a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]})", 1, "9223372036854775808"},
      {R"("a":{"dtype":"U8","shape":[1e400],"data_offsets":[0,1]})", 1, "near '1e400'"},
      {R"("a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]})", 1, "99999999999999999999"},
      {R"("a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1]})", 1, "2^53"},
      {R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0]})", 1, "data_offsets of tensor 'a' has 1 of 2"},
      {R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]})", 1, "holds the number 2, not two"},
      {R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]})", 1, "are 1 to 0: it ends before it begins"},
      {R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})", 1,
       "header and tensors need 63 bytes, the file has 62: it is truncated"},
      {R"("a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]})", 1,
       "the file has 98: it is truncated"},
      {R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]})", 3, "has 3 bytes by its data_offsets, 4 by"},
      {R"("a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]})", 2, "not a multiple of 2"},
      {R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})", 2, "tensors have 1 bytes, but 2 follow"},
      {R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})", 2, "begins at 1: the 1 bytes before it"},
      {R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]})", 3,
       "tensor 'b' begins at 2: the 1 bytes"},
      {R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]})", 3,
       "tensor 'b' begins at 1, inside 'a', which ends at 2"},
      {R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})", 2,
       "there are two tensors 'a'"},
      {R"("__metadata__":{},"__metadata__":{})", 0, "there are two '__metadata__'"},
      {R"("__metadata__":{"k":"1","k":"2"})", 0, "has 'k' twice"},
      {R"("__metadata__":{"k":1})", 0, "__metadata__ 'k' is the number 1, not a text"},
      {R"("__metadata__":{"k":{}})", 0, "__metadata__ 'k' is an object"},
      {R"("__metadata__":[])", 0, "'__metadata__' is a list"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.entries);
    expect_error(parse_file("{" + std::string(c.entries) + "}", c.data_bytes), Code::corrupt_file, c.part);
  }
  std::string axes = R"({"a":{"dtype":"U8","shape":[1)";
  for (int i = 0; i < 32; ++i) axes += ",1";
  expect_error(parse_file(axes + R"(],"data_offsets":[0,1]}})", 1), Code::corrupt_file, "more than 32 axes");
  expect_error(parse_file("{\"" + std::string(70000, 'n') + "\":{}}", 0), Code::corrupt_file, "has 70000 bytes");
}

TEST(Safetensors, EveryTruncationIsRefused) {
  std::vector<StoredTensor> tensors = {{.name = "w", .type = StoredType::f32, .shape = {2, 3}},
                                       {.name = "b", .type = StoredType::i8, .shape = {5}}};
  const auto planned = plan({{"k", MetaValue("v")}}, tensors);
  ASSERT_TRUE(planned.ok());
  const std::string whole = planned->header + std::string(29, 'x');
  ASSERT_TRUE(parse_text(whole).ok());
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_EQ(parse_text(whole.substr(0, n)).code(), Code::corrupt_file) << n;
  EXPECT_EQ(parse_text(whole + "x").code(), Code::corrupt_file);
}

TEST(Safetensors, WhatItCannotHoldIsNotWritten) {
  std::vector<StoredTensor> tensors = {{.name = "w", .type = StoredType::tq2_0, .shape = {256}}};
  expect_error(plan({}, tensors), Code::invalid_argument, "'w' is TQ2_0, a type that safetensors does not have");
  tensors = {{.name = "\xFF", .type = StoredType::u8, .shape = {1}}};
  expect_error(plan({}, tensors), Code::invalid_argument, "the name '\\xff' is not UTF-8");
  tensors = {{.name = "__metadata__", .type = StoredType::u8, .shape = {1}}};
  expect_error(plan({}, tensors), Code::invalid_argument, "cannot be called");
  tensors = {{.name = "w", .type = StoredType::u8, .shape = {2}, .bytes = 3}};
  expect_error(plan({}, tensors), Code::invalid_argument, "tensor 'w': 3 bytes are not the 2");
  tensors.clear();
  expect_error(plan({{"k", MetaValue(1.0)}}, tensors), Code::invalid_argument, "metadata 'k' is f64");
  expect_error(plan({{"k", MetaValue("\xFE")}}, tensors), Code::invalid_argument, "the value of 'k', '\\xfe' is not");
  for (int i = 0; i < 1025; ++i)
    tensors.push_back({.name = std::to_string(i), .type = StoredType::f64, .shape = {1LL << 53}});
  expect_error(plan({}, tensors), Code::invalid_argument, "more bytes than 2^63 - 1");
}

TEST(ShardIndex, IsReadStrictly) {
  const auto index = parse_index(R"({"metadata":{"total_size":12,"x":[{"y":null}]},
                                    "weight_map":{"a":"m-1.safetensors","b":"sub/m-2.safetensors"},"z":1.5})");
  ASSERT_TRUE(index.ok()) << index.error().str();
  EXPECT_EQ(index->total_bytes, 12);
  ASSERT_EQ(index->weight_map.size(), 2U);
  EXPECT_EQ(index->weight_map[1].tensor, "b");
  EXPECT_EQ(index->weight_map[1].file, "sub/m-2.safetensors");
  EXPECT_EQ(parse_index(R"({"weight_map":{}})")->total_bytes, -1);
  EXPECT_EQ(parse_index(R"({"metadata":{"total_size":1.5e9},"weight_map":{}})")->total_bytes, -1);
  const struct {
    std::string_view text, part;
  } cases[] = {
      {"", "not JSON"},
      {"[]", "it is a list"},
      {"3", "it is a single value"},
      {"{}", "there is no 'weight_map'"},
      {R"({"weight_map":[]})", "weight_map is a list"},
      {R"({"weight_map":"x"})", "weight_map is a single value"},
      {R"({"weight_map":{"a":1}})", "weight_map: 'a' is a number"},
      {R"({"weight_map":{"a":{}}})", "weight_map: 'a' is an object"},
      {R"({"weight_map":{"a":null}})", "weight_map: 'a' is null"},
      {R"({"weight_map":{"a":false}})", "weight_map: 'a' is true or false"},
      {R"({"weight_map":{"a":-1}})", "weight_map: 'a' is a number"},
      {R"({"weight_map":{"a":"x","a":"x"}})", "weight_map has 'a' twice"},
      {R"({"weight_map":{},"weight_map":{}})", "two 'weight_map'"},
      {R"({"weight_map":{"a":""}})", "'' is empty"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "'/etc/passwd' is not relative"},
      {R"({"weight_map":{"a":"../x"}})", "'../x' leads out of the folder"},
      {R"({"weight_map":{"a":"x/../../y"}})", "leads out of the folder"},
      {R"({"weight_map":{"a":"x/.."}})", "leads out of the folder"},
      {R"({"weight_map":{"a":"x//y"}})", "not a plain path"},
      {R"({"weight_map":{"a":"./y"}})", "not a plain path"},
      {R"({"weight_map":{"a":"y/"}})", "not a plain path"},
      {R"({"weight_map":{"a":"x\u0000y"}})", "'x\\x00y' has characters"},
      {R"({"weight_map":{"a":"x\u001b[2J"}})", "has characters"},
      {R"({"weight_map":{"a":"..\\x"}})", "has characters"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    expect_error(parse_index(c.text), Code::corrupt_file, c.part);
  }
  expect_error(parse_index("{\"m\":" + std::string(100000, '[')), Code::corrupt_file, "nested more than 32 deep");
}

}  // namespace
}  // namespace tern::safetensors
