// Exchanges checkpoints with PyPI's safetensors and gguf: independent code must agree on every byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "io/container.h"
#include "tern/checkpoint.h"
#include "tests/support/python.h"

namespace tern {
namespace {

// Byte i of a tensor is a function of i and the tensor's name; kPattern is the same function in Python.
std::vector<std::uint8_t> pattern(std::string_view name, std::size_t count) {
  std::size_t start = 0;
  for (const char c : name) start += static_cast<unsigned char>(c);
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>((start + i * 7) % 251);
  return bytes;
}

constexpr const char* kPattern = R"py(
def pattern(name, count):
    return bytes((sum(name.encode()) + i * 7) % 251 for i in range(count))
)py";

void write_patterns(const std::string& path, Container container, const Metadata& metadata,
                    std::vector<StoredTensor> tensors) {
  auto writer = CheckpointWriter::create(path, container, metadata, std::move(tensors));
  ASSERT_TRUE(writer.ok()) << writer.error().str();
  for (const StoredTensor& tensor : writer->tensors())
    ASSERT_TRUE(writer->write(pattern(tensor.name, tensor.bytes)).ok());
  ASSERT_TRUE(writer->finish().ok());
}

void expect_tensor(const Checkpoint& checkpoint, std::string_view tensor_name, StoredType type,
                   const std::vector<std::int64_t>& shape) {
  SCOPED_TRACE(tensor_name);
  const auto index = checkpoint.find(tensor_name);
  ASSERT_TRUE(index);
  const StoredTensor& tensor = checkpoint.tensors()[*index];
  EXPECT_EQ(name(tensor.type), name(type));
  EXPECT_EQ(tensor.shape, shape);
  EXPECT_EQ(tensor.bytes, *stored_bytes(type, shape));
  EXPECT_TRUE(std::ranges::equal(checkpoint.data(*index), pattern(tensor_name, tensor.bytes)));
}

TEST(SafetensorsOracle, ReadsWhatWeWrite) {
  if (const std::string why = python_lacks("safetensors, numpy"); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  std::vector<StoredTensor> tensors = {{.name = "scalar", .type = StoredType::f32, .shape = {}},
                                       {.name = "empty", .type = StoredType::f16, .shape = {0, 3}},
                                       {.name = "odd \"\n\xC3\xA9", .type = StoredType::u8, .shape = {3}}};
  for (const StoredTypeInfo& row : stored_types())
    if (row.in_safetensors) tensors.push_back({.name = std::string(row.name), .type = row.type, .shape = {3, 2, 4}});
  write_patterns(folder / "ours.safetensors", Container::safetensors,
                 {{"format", MetaValue("pt")}, {"tern.\xC3\xA9", MetaValue("\"\x1b\\")}}, tensors);
  ASSERT_TRUE(run_python(folder, std::string(kPattern) + R"py(
import numpy, safetensors, safetensors.numpy
data = open("ours.safetensors", "rb").read()
assert int.from_bytes(data[:8], "little") % 64 == 56, "the first tensor is aligned"
tensors = dict(safetensors.deserialize(data))
assert len(tensors) == 25, len(tensors)
for name, tensor in tensors.items():
    assert bytes(tensor["data"]) == pattern(name, len(tensor["data"])), name
    if name.isupper():
        assert tensor["dtype"] == name and list(tensor["shape"]) == [3, 2, 4], (name, tensor["dtype"])
assert tensors["scalar"]["shape"] == [] and tensors["empty"]["shape"] == [0, 3]
assert len(tensors['odd "\né']["data"]) == 3
with safetensors.safe_open("ours.safetensors", framework="np") as f:
    assert f.metadata() == {"format": "pt", "tern.é": "\"\x1b\\"}, f.metadata()
    for name, dtype in {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
                        "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1"}.items():
        want = numpy.frombuffer(pattern(name, 24 * numpy.dtype(dtype).itemsize), dtype).reshape(3, 2, 4)
        numpy.testing.assert_array_equal(f.get_tensor(name), want)
)py"));
}

TEST(SafetensorsOracle, WritesWhatWeRead) {
  if (const std::string why = python_lacks("safetensors, numpy"); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  ASSERT_TRUE(run_python(folder, std::string(kPattern) + R"py(
import numpy, safetensors, safetensors.numpy
kinds = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16",
         "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "C64": "complex64"}
tensors = {name: numpy.frombuffer(pattern(name, 15 * numpy.dtype(kind).itemsize), kind).reshape(5, 3)
           for name, kind in kinds.items()}
tensors["BOOL"] = numpy.frombuffer(pattern("BOOL", 4), "uint8").astype(bool)
tensors["scalar"] = numpy.frombuffer(pattern("scalar", 4), "float32").reshape(())
tensors["empty"] = numpy.zeros((0, 3), "float16")
safetensors.numpy.save_file(tensors, "theirs.safetensors", {"a": "é\x00", "b": ""})
# What numpy has no type for, by pointers.
kinds = {"BF16": ("bfloat16", 2), "F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1)}
held = {name: numpy.frombuffer(pattern(name, 15 * size), "uint8") for name, (_, size) in kinds.items()}
safetensors.serialize_file({name: safetensors.TensorSpec(dtype=kinds[name][0], shape=[5, 3], data_ptr=a.ctypes.data,
                                                        data_len=a.nbytes) for name, a in held.items()}, "more.safetensors")
safetensors.numpy.save_file({}, "none.safetensors")
)py"));
  const auto theirs = Checkpoint::open(folder / "theirs.safetensors");
  ASSERT_TRUE(theirs.ok()) << theirs.error().str();
  for (const char* type : {"F64", "F32", "F16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "C64"})
    expect_tensor(*theirs, type, *parse_stored_type(type), {5, 3});
  expect_tensor(*theirs, "scalar", StoredType::f32, {});
  expect_tensor(*theirs, "empty", StoredType::f16, {0, 3});
  EXPECT_EQ(theirs->tensors()[*theirs->find("BOOL")].type, StoredType::boolean);
  ASSERT_NE(find_key(theirs->metadata(), "a"), nullptr);
  EXPECT_EQ(*find_key(theirs->metadata(), "a"), MetaValue(std::string("\xC3\xA9\0", 3)));
  EXPECT_EQ(*find_key(theirs->metadata(), "b"), MetaValue(""));
  const auto more = Checkpoint::open(folder / "more.safetensors");
  ASSERT_TRUE(more.ok()) << more.error().str();
  for (const char* type : {"BF16", "F8_E4M3", "F8_E5M2"}) expect_tensor(*more, type, *parse_stored_type(type), {5, 3});
  EXPECT_TRUE(Checkpoint::open(folder / "none.safetensors").ok());
}

Metadata every_kind() {
  const std::array<float, 2> floats = {1.5F, 0.1F};
  const std::array<std::int32_t, 3> numbers = {1, -2, 3};
  const std::array<bool, 2> flags = {true, false};
  return {{"general.architecture", MetaValue("bitnet-b1.58")},
          {"u8", MetaValue(std::uint8_t{200})},
          {"i8", MetaValue(std::int8_t{-3})},
          {"u16", MetaValue(std::uint16_t{60000})},
          {"i16", MetaValue(std::int16_t{-300})},
          {"u32", MetaValue(std::uint32_t{4000000000U})},
          {"i32", MetaValue(std::int32_t{-70000})},
          {"f32", MetaValue(0.1F)},
          {"bool", MetaValue(true)},
          {"u64", MetaValue(std::uint64_t{UINT64_MAX})},
          {"i64", MetaValue(std::int64_t{INT64_MIN})},
          {"f64", MetaValue(0.1)},
          {"floats", MetaValue(MetaArray::of(std::span<const float>(floats)))},
          {"numbers", MetaValue(MetaArray::of(std::span<const std::int32_t>(numbers)))},
          {"flags", MetaValue(MetaArray::of(std::span<const bool>(flags)))},
          {"words", MetaValue(MetaArray::of(std::vector<std::string>{"a", "", "\xE2\x96\x81the"}))}};
}

TEST(GgufOracle, ReadsWhatWeWrite) {
  if (const std::string why = python_lacks("gguf, numpy"); !why.empty()) GTEST_SKIP() << why;
  for (const std::uint32_t alignment : {32U, 128U}) {
    const TempFolder folder;
    Metadata metadata = every_kind();
    metadata.push_back({"general.alignment", MetaValue(alignment)});
    std::string sizes = "sizes = {";
    std::vector<StoredTensor> tensors = {{.name = "vector", .type = StoredType::f32, .shape = {5}}};
    for (const StoredTypeInfo& row : stored_types()) {
      if (row.gguf_id < 0) continue;
      sizes += "\"" + std::string(row.name) + "\": (" + std::to_string(row.gguf_id) + ", " +
               std::to_string(row.block_elements) + ", " + std::to_string(row.block_bytes) + "), ";
      // Leaves out the types that gguf 0.19 does not know, and Q8_1, to which it gives another size than ggml.
      const bool theirs = row.gguf_id < 42 && (row.gguf_id < 31 || row.gguf_id > 33) &&
                          (row.gguf_id < 36 || row.gguf_id > 38) && row.type != StoredType::q8_1;
      if (theirs) tensors.push_back({.name = std::string(row.name), .type = row.type, .shape = {2, 3, 256}});
    }
    EXPECT_EQ(tensors.size(), 34U);
    write_patterns(folder / "ours.gguf", Container::gguf, metadata, tensors);
    ASSERT_TRUE(run_python(folder, std::string(kPattern) + sizes + "}\nalignment = " + std::to_string(alignment) + R"py(
import gguf, numpy
known = 0
for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
    if kind.name == "Q8_1": continue
    assert sizes[kind.name] == (int(kind), elements, size), (kind, sizes[kind.name])
    known += 1
assert known >= 33, known
reader = gguf.GGUFReader("ours.gguf")
assert reader.alignment == alignment
values = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
kinds = {key: field.types[-1].name for key, field in reader.fields.items() if not key.startswith("GGUF.")}
assert values == {
    "general.architecture": "bitnet-b1.58", "u8": 200, "i8": -3, "u16": 60000, "i16": -300, "u32": 4000000000,
    "i32": -70000, "f32": numpy.float32(0.1), "bool": True, "u64": 2**64 - 1, "i64": -2**63, "f64": 0.1,
    "floats": [1.5, numpy.float32(0.1)], "numbers": [1, -2, 3], "flags": [True, False], "words": ["a", "", "▁the"],
    "general.alignment": alignment}, values
assert [kinds[k] for k in ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "u64", "i64", "f64", "words")] == \
    ["UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "FLOAT32", "BOOL", "UINT64", "INT64", "FLOAT64", "STRING"]
assert len(reader.tensors) == 34, len(reader.tensors)
for tensor in reader.tensors:
    assert tensor.data_offset % alignment == 0
    assert tensor.data.tobytes() == pattern(tensor.name, int(tensor.n_bytes)), tensor.name
    if tensor.name != "vector":
        assert tensor.tensor_type.name == tensor.name and tensor.shape.tolist() == [256, 3, 2], tensor.name
end = max(t.data_offset + int(t.n_bytes) for t in reader.tensors)
assert 0 <= len(open("ours.gguf", "rb").read()) - end < alignment
)py"));
  }
}

TEST(GgufOracle, WritesWhatWeRead) {
  if (const std::string why = python_lacks("gguf, numpy"); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  ASSERT_TRUE(run_python(folder, std::string(kPattern) + R"py(
import gguf, numpy
from gguf import GGMLQuantizationType as T, GGUFValueType as V
def write(path, alignment):
    w = gguf.GGUFWriter(path, "bitnet-b1.58")
    if alignment: w.add_custom_alignment(alignment)
    w.add_uint8("u8", 200); w.add_int8("i8", -3); w.add_uint16("u16", 60000); w.add_int16("i16", -300)
    w.add_uint32("u32", 4000000000); w.add_int32("i32", -70000); w.add_float32("f32", 0.1); w.add_bool("bool", True)
    w.add_uint64("u64", 2**64 - 1); w.add_int64("i64", -2**63); w.add_float64("f64", 0.1)
    w.add_array("floats", [1.5, 0.1]); w.add_array("numbers", [1, -2, 3]); w.add_array("flags", [True, False])
    w.add_array("words", ["a", "", "▁the"])
    w.add_array("nested", [[1, 2], ["x"]])
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name in ("Q8_1",): continue
        plain = {"F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}.get(kind.name)
        data = numpy.frombuffer(pattern(kind.name, 6 * 256 // elements * size), plain or "u1")
        w.add_tensor(kind.name, data.reshape(2, 3, -1), raw_dtype=None if plain else kind)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
write("theirs.gguf", None)
write("aligned.gguf", 4096)
)py"));
  for (const char* file : {"theirs.gguf", "aligned.gguf"}) {
    const auto theirs = Checkpoint::open(folder / file);
    ASSERT_TRUE(theirs.ok()) << theirs.error().str();
    for (const MetaEntry& entry : every_kind()) {
      const MetaValue* value = find_key(theirs->metadata(), entry.key);
      ASSERT_NE(value, nullptr) << entry.key;
      EXPECT_EQ(*value, entry.value) << entry.key << ": " << value->to_json();
    }
    EXPECT_EQ(find_key(theirs->metadata(), "nested")->to_json(), R"([[1,2],["x"]])");
    EXPECT_EQ(theirs->tensors().size(), 33U);
    for (const StoredTensor& tensor : theirs->tensors())
      expect_tensor(*theirs, tensor.name, *parse_stored_type(tensor.name), {2, 3, 256});
  }
}

TEST(GgufOracle, CutsWhatWeReadAsOne) {
  if (const std::string why = python_lacks("gguf, numpy"); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  ASSERT_TRUE(run_python(folder, std::string(kPattern) + R"py(
import gguf, numpy, os
for path, first in (("m", False), ("n", True)):
    w = gguf.GGUFWriter(path + ".gguf", "bitnet-b1.58", split_max_tensors=2, small_first_shard=first)
    w.add_array("words", ["a", "b"])
    for i in range(5):
        w.add_tensor(f"t{i}", numpy.frombuffer(pattern(f"t{i}", 60), "f4").reshape(3, 5))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
assert os.path.exists("m-00003-of-00003.gguf") and os.path.exists("n-00004-of-00004.gguf"), os.listdir()
)py"));
  for (const char* first : {"m-00001-of-00003.gguf", "n-00001-of-00004.gguf"}) {
    const auto model = Checkpoint::open(folder / first);
    ASSERT_TRUE(model.ok()) << model.error().str();
    EXPECT_EQ(model->tensors().size(), 5U);
    for (const char* tensor : {"t0", "t1", "t2", "t3", "t4"}) expect_tensor(*model, tensor, StoredType::f32, {3, 5});
    EXPECT_EQ(find_key(model->metadata(), "words")->to_json(), R"(["a","b"])");
    EXPECT_EQ(find_key(model->metadata(), "split.count"), nullptr);
  }
}

}  // namespace
}  // namespace tern
