// Tests of the C ABI of checkpoints and metadata: written, read back, and refused.
#include <cstddef>
#include <filesystem>

#include "api/c_test.h"
#include "tests/support/test_files.h"

namespace tern::c_test {
namespace {

using CheckpointHandle = std::unique_ptr<tern_checkpoint, Destroy<tern_checkpoint_close>>;
using WriterHandle = std::unique_ptr<tern_checkpoint_writer, Destroy<tern_checkpoint_writer_destroy>>;
using MetadataHandle = std::unique_ptr<tern_metadata, Destroy<tern_metadata_destroy>>;

class CCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    tern_metadata* made = nullptr;
    ASSERT_EQ(tern_metadata_create(&made), TERN_OK);
    metadata_.reset(made);
  }
  [[nodiscard]] std::string path(const char* name) const { return folder_ / name; }
  [[nodiscard]] std::string json(const char* key) const {
    std::string text(200, '?');
    std::size_t length = 0;
    EXPECT_EQ(tern_metadata_get_json(metadata_.get(), key, SIZE_MAX, text.data(), text.size(), &length), TERN_OK);
    return text.substr(0, length);
  }
  WriterHandle write(const std::string& path, tern_container container, const tern_metadata* metadata,
                     const std::vector<tern_stored_tensor>& tensors) const {
    tern_checkpoint_writer* made = nullptr;
    EXPECT_EQ(tern_checkpoint_writer_create(path.c_str(), container, metadata, tensors.data(), tensors.size(), &made),
              TERN_OK)
        << tern_last_error()->text;
    return WriterHandle(made);
  }

  TempFolder folder_;
  MetadataHandle metadata_;
};

TEST_F(CCheckpoint, MetadataKeepWhatWasSet) {
  tern_metadata* m = metadata_.get();
  const float floats[] = {1.5F, -2};
  const char* const words[] = {"a", "", "c"};
  EXPECT_EQ(tern_metadata_set_text(m, "text", "zero\0inside", 11), TERN_OK);
  EXPECT_EQ(tern_metadata_set_integer(m, "u8", TERN_META_U8, 255), TERN_OK);
  EXPECT_EQ(tern_metadata_set_integer(m, "i64", TERN_META_I64, INT64_MIN), TERN_OK);
  EXPECT_EQ(tern_metadata_set_integer(m, "yes", TERN_META_BOOL, 1), TERN_OK);
  EXPECT_EQ(tern_metadata_set_number(m, "f32", TERN_META_F32, 0.1), TERN_OK);
  EXPECT_EQ(tern_metadata_set_number(m, "f64", TERN_META_F64, 0.1), TERN_OK);
  EXPECT_EQ(tern_metadata_set_array(m, "floats", TERN_META_F32, floats, 2), TERN_OK);
  EXPECT_EQ(tern_metadata_set_texts(m, "words", words, 3), TERN_OK);
  EXPECT_EQ(tern_metadata_set_integer(m, "u8", TERN_META_U8, 7), TERN_OK) << "again, where it stands";
  const struct {
    const char* key;
    tern_meta_kind kind;
    const char* json;
  } want[] = {{"text", TERN_META_STRING, R"("zero\u0000inside")"},
              {"u8", TERN_META_U8, "7"},
              {"i64", TERN_META_I64, "-9223372036854775808"},
              {"yes", TERN_META_BOOL, "true"},
              {"f32", TERN_META_F32, "0.1"},
              {"f64", TERN_META_F64, "0.1"},
              {"floats", TERN_META_ARRAY, "[1.5,-2.0]"},
              {"words", TERN_META_ARRAY, R"(["a","","c"])"}};
  std::size_t count = 0;
  ASSERT_EQ(tern_metadata_count(m, &count), TERN_OK);
  ASSERT_EQ(count, std::size(want));
  for (std::size_t i = 0; i < count; ++i) {
    const char* key = nullptr;
    tern_meta_kind kind = TERN_META_U8;
    std::int64_t place = -1;
    ASSERT_EQ(tern_metadata_entry(m, i, &key, &kind), TERN_OK);
    EXPECT_STREQ(key, want[i].key);
    EXPECT_EQ(kind, want[i].kind) << key;
    EXPECT_EQ(json(key), want[i].json);
    EXPECT_EQ(tern_metadata_find(m, key, &place), TERN_OK);
    EXPECT_EQ(place, static_cast<std::int64_t>(i));
  }
  const char* text = nullptr;
  std::size_t bytes = 0;
  std::int64_t whole = 0;
  double number = 0;
  const void* elements = nullptr;
  tern_meta_kind kind = TERN_META_U8;
  EXPECT_EQ(tern_metadata_get_text(m, "text", &text, &bytes), TERN_OK);
  EXPECT_EQ(std::string_view(text, bytes), std::string_view("zero\0inside", 11));
  EXPECT_EQ(tern_metadata_get_integer(m, "i64", &whole), TERN_OK);
  EXPECT_EQ(whole, INT64_MIN);
  EXPECT_EQ(tern_metadata_get_integer(m, "yes", &whole), TERN_OK);
  EXPECT_EQ(whole, 1);
  EXPECT_EQ(tern_metadata_get_number(m, "f64", &number), TERN_OK);
  EXPECT_EQ(number, 0.1);
  EXPECT_EQ(tern_metadata_get_array(m, "floats", &kind, &elements, &count), TERN_OK);
  EXPECT_EQ(kind, TERN_META_F32);
  ASSERT_EQ(count, 2U);
  EXPECT_TRUE(same_bytes(elements, floats, sizeof(floats)));
  EXPECT_EQ(tern_metadata_get_array(m, "words", &kind, &elements, &count), TERN_OK);
  EXPECT_EQ(elements, nullptr);
  EXPECT_EQ(tern_metadata_get_array_text(m, "words", 2, &text, &bytes), TERN_OK);
  EXPECT_STREQ(text, "c");

  EXPECT_FAILS(tern_metadata_get_array_text(m, "words", 3, &text, &bytes), TERN_INVALID_ARGUMENT, "index is 3");
  EXPECT_FAILS(tern_metadata_get_text(m, "u8", &text, &bytes), TERN_INVALID_ARGUMENT, "'u8' is u8, not a string");
  EXPECT_FAILS(tern_metadata_get_integer(m, "f32", &whole), TERN_INVALID_ARGUMENT, "not an integer");
  EXPECT_FAILS(tern_metadata_get_number(m, "text", &number), TERN_INVALID_ARGUMENT, "not a number");
  EXPECT_FAILS(tern_metadata_get_array(m, "text", &kind, &elements, &count), TERN_INVALID_ARGUMENT, "not an array");
  EXPECT_FAILS(tern_metadata_get_number(m, "no\x1b", &number), TERN_INVALID_ARGUMENT, "no key 'no\\x1b'");
  EXPECT_FAILS(tern_metadata_set_integer(m, "u8", TERN_META_U8, 256), TERN_INVALID_ARGUMENT, "256, which u8");
  EXPECT_FAILS(tern_metadata_set_integer(m, "u8", TERN_META_U64, -1), TERN_INVALID_ARGUMENT, "-1, which u64");
  EXPECT_FAILS(tern_metadata_set_integer(m, "u8", TERN_META_BOOL, 2), TERN_INVALID_ARGUMENT, "2, which bool");
  EXPECT_FAILS(tern_metadata_set_integer(m, "u8", TERN_META_F32, 1), TERN_INVALID_ARGUMENT, "kind is f32");
  EXPECT_FAILS(tern_metadata_set_integer(m, "u8", static_cast<tern_meta_kind>(13), 1), TERN_INVALID_ARGUMENT, "13");
  EXPECT_FAILS(tern_metadata_set_number(m, "u8", TERN_META_U8, 1), TERN_INVALID_ARGUMENT, "kind is 0");
  EXPECT_FAILS(tern_metadata_set_array(m, "u8", TERN_META_STRING, floats, 1), TERN_INVALID_ARGUMENT, "string");
  EXPECT_FAILS(tern_metadata_set_array(m, "u8", TERN_META_F32, nullptr, 1), TERN_INVALID_ARGUMENT, "elements is NULL");
  EXPECT_EQ(json("u8"), "7") << "what is refused changes nothing";
}

TEST_F(CCheckpoint, IsWrittenAndReadBack) {
  const std::int64_t shape[] = {3, 2};
  const float values[] = {1, 2, 3, 4, 5, 6};
  tern_stored_tensor w = TERN_STORED_TENSOR_INIT;
  w.name = "w";
  w.shape = shape;
  w.rank = 2;
  tern_stored_tensor s = TERN_STORED_TENSOR_INIT;
  s.name = "s";
  ASSERT_EQ(tern_metadata_set_text(metadata_.get(), "k", "before", 6), TERN_OK);
  for (const tern_container container : {TERN_CONTAINER_SAFETENSORS, TERN_CONTAINER_GGUF}) {
    SCOPED_TRACE(tern_container_name(container));
    const std::string file = path(tern_container_name(container));
    const WriterHandle writer = write(file, container, metadata_.get(), {w, s});
    ASSERT_NE(writer, nullptr);
    const tern_stored_tensor* first = nullptr;
    ASSERT_EQ(tern_checkpoint_writer_tensor(writer.get(), 0, &first), TERN_OK);
    EXPECT_STREQ(first->name, "w");
    EXPECT_EQ(first->bytes, sizeof(values));
    EXPECT_EQ(tern_checkpoint_writer_write(writer.get(), values, sizeof(values)), TERN_OK);
    EXPECT_FAILS(tern_checkpoint_writer_finish(writer.get()), TERN_INVALID_ARGUMENT, "");
    EXPECT_FALSE(std::filesystem::exists(file)) << "not before it is whole";

    const WriterHandle again = write(file, container, metadata_.get(), {w, s});
    EXPECT_EQ(tern_checkpoint_writer_write(again.get(), values, 8), TERN_OK);
    EXPECT_EQ(tern_checkpoint_writer_write(again.get(), values + 2, 16), TERN_OK);
    EXPECT_EQ(tern_checkpoint_writer_skip(again.get()), TERN_OK);
    EXPECT_EQ(tern_checkpoint_writer_fill(again.get(), 1, values + 5, 4), TERN_OK);
    EXPECT_FAILS(tern_checkpoint_writer_fill(again.get(), 0, values, 4), TERN_INVALID_ARGUMENT, "was not skipped");
    EXPECT_FAILS(tern_checkpoint_writer_fill(again.get(), 2, values, 4), TERN_INVALID_ARGUMENT, "index is 2");
    tern_metadata* later = nullptr;
    ASSERT_EQ(tern_metadata_create(&later), TERN_OK);
    const MetadataHandle owner(later);
    ASSERT_EQ(tern_metadata_set_text(later, "k", "after!", 6), TERN_OK);
    EXPECT_EQ(tern_checkpoint_writer_replace_metadata(again.get(), later), TERN_OK) << tern_last_error()->text;
    ASSERT_EQ(tern_checkpoint_writer_finish(again.get()), TERN_OK) << tern_last_error()->text;
    std::size_t file_bytes = 0;
    EXPECT_EQ(tern_checkpoint_writer_file_bytes(again.get(), &file_bytes), TERN_OK);
    EXPECT_EQ(file_bytes, std::filesystem::file_size(file));

    tern_checkpoint* opened = nullptr;
    ASSERT_EQ(tern_checkpoint_open(file.c_str(), nullptr, &opened), TERN_OK) << tern_last_error()->text;
    const CheckpointHandle checkpoint(opened);
    const tern_checkpoint_info* info = nullptr;
    ASSERT_EQ(tern_checkpoint_get_info(opened, &info), TERN_OK);
    EXPECT_EQ(info->container, container);
    EXPECT_EQ(info->path, file);
    EXPECT_EQ(info->tensor_count, 2U);
    EXPECT_EQ(info->note_count, 0U);
    EXPECT_EQ(info->total_bytes, sizeof(values) + 4);
    std::int64_t index = -1;
    ASSERT_EQ(tern_checkpoint_find(opened, "w", &index), TERN_OK);
    const tern_stored_tensor* tensor = nullptr;
    ASSERT_EQ(tern_checkpoint_tensor(opened, static_cast<std::size_t>(index), &tensor), TERN_OK);
    EXPECT_STREQ(tensor->type, "F32");
    ASSERT_EQ(tensor->rank, 2);
    EXPECT_EQ(tensor->shape[0], 3);
    EXPECT_EQ(tensor->shape[1], 2);
    const void* data = nullptr;
    std::size_t bytes = 0;
    ASSERT_EQ(tern_checkpoint_data(opened, static_cast<std::size_t>(index), &data, &bytes), TERN_OK);
    ASSERT_EQ(bytes, sizeof(values));
    EXPECT_TRUE(same_bytes(data, values, bytes));
    EXPECT_EQ(tern_checkpoint_release(opened, static_cast<std::size_t>(index), 0, bytes), TERN_OK);
    ASSERT_EQ(tern_checkpoint_find(opened, "s", &index), TERN_OK);
    ASSERT_EQ(tern_checkpoint_data(opened, static_cast<std::size_t>(index), &data, &bytes), TERN_OK);
    EXPECT_TRUE(same_bytes(data, values + 5, 4)) << "overwritten";
    const tern_metadata* metadata = nullptr;
    ASSERT_EQ(tern_checkpoint_metadata(opened, &metadata), TERN_OK);
    const char* text = nullptr;
    ASSERT_EQ(tern_metadata_get_text(metadata, "k", &text, &bytes), TERN_OK);
    EXPECT_STREQ(text, "after!");
    ASSERT_EQ(tern_checkpoint_file(opened, 0, &text, &bytes), TERN_OK);
    EXPECT_EQ(text, file);
    EXPECT_EQ(bytes, file_bytes);
    EXPECT_EQ(tern_checkpoint_find(opened, "none", &index), TERN_OK);
    EXPECT_EQ(index, -1);
    EXPECT_FAILS(tern_checkpoint_tensor(opened, 2, &tensor), TERN_INVALID_ARGUMENT, "index is 2");
    EXPECT_FAILS(tern_checkpoint_data(opened, 2, &data, &bytes), TERN_INVALID_ARGUMENT, "index is 2");
    EXPECT_FAILS(tern_checkpoint_note(opened, 0, &text), TERN_INVALID_ARGUMENT, "only 0");
  }
}

TEST_F(CCheckpoint, WhatCannotBeWrittenIsRefusedBeforeAnythingIs) {
  tern_stored_tensor tensor = TERN_STORED_TENSOR_INIT;
  tern_checkpoint_writer* writer = nullptr;
  const auto create = [&](tern_container container) {
    return tern_checkpoint_writer_create(path("a").c_str(), container, nullptr, &tensor, 1, &writer);
  };
  EXPECT_FAILS(create(TERN_CONTAINER_GGUF), TERN_INVALID_ARGUMENT, "the name of a tensor is NULL");
  tensor.name = "w";
  EXPECT_FAILS(create(TERN_CONTAINER_DEFAULT), TERN_INVALID_ARGUMENT, "container is -1");
  tensor.type = "F7";
  EXPECT_FAILS(create(TERN_CONTAINER_GGUF), TERN_INVALID_ARGUMENT, "'F7' is not one of");
  tensor.type = "TQ2_0";
  EXPECT_NE(create(TERN_CONTAINER_SAFETENSORS), TERN_OK);
  tensor.type = "F32";
  tensor.rank = 1;
  EXPECT_FAILS(create(TERN_CONTAINER_GGUF), TERN_INVALID_ARGUMENT, "tensors->shape is NULL");
  tensor.rank = -1;
  EXPECT_FAILS(create(TERN_CONTAINER_GGUF), TERN_INVALID_ARGUMENT, "rank");
  tensor.rank = 0;
  tensor.struct_size = 8;
  EXPECT_FAILS(create(TERN_CONTAINER_GGUF), TERN_INVALID_ARGUMENT, "struct_size is 8");
  EXPECT_FAILS(tern_checkpoint_writer_create(path("a").c_str(), TERN_CONTAINER_GGUF, nullptr, nullptr, 1, &writer),
               TERN_INVALID_ARGUMENT, "tensors is NULL but tensor_count is 1");
  EXPECT_EQ(writer, nullptr);
  EXPECT_EQ(folder_.count(), 0U);
  tern_checkpoint* checkpoint = nullptr;
  EXPECT_FAILS(tern_checkpoint_open(path("a").c_str(), nullptr, &checkpoint), TERN_IO_ERROR, "No such file");
  const char* const types[] = {"TL2", "XX"};
  tern_open_options options = TERN_OPEN_OPTIONS_INIT;
  options.gguf_types = types;
  options.gguf_type_count = 2;
  EXPECT_FAILS(tern_checkpoint_open(path("a").c_str(), &options, &checkpoint), TERN_INVALID_ARGUMENT, "'XX'");
}

TEST_F(CCheckpoint, StoredTypesGoByTheirNames) {
  const std::int64_t shape[] = {2, 512};
  std::size_t bytes = 0, with_dtype = 0;
  EXPECT_EQ(tern_stored_bytes("tq2_0", 2, shape, &bytes), TERN_OK);
  EXPECT_EQ(bytes, 4U * 66);
  EXPECT_FAILS(tern_stored_bytes("TQ2_0", 1, shape, &bytes), TERN_INVALID_ARGUMENT, "multiple of 256");
  constexpr std::size_t kBytes = offsetof(tern_stored_type_info, dtype) + sizeof(std::int32_t);  // no padding behind it
  for (std::size_t i = 0; i < tern_stored_type_count(); ++i) {
    tern_stored_type_info by_index = TERN_STORED_TYPE_INFO_INIT, by_name = TERN_STORED_TYPE_INFO_INIT;
    ASSERT_EQ(tern_stored_type_get(i, &by_index), TERN_OK);
    ASSERT_EQ(tern_stored_type_find(by_index.name, &by_name), TERN_OK);
    EXPECT_TRUE(same_bytes(&by_index, &by_name, kBytes)) << by_index.name;
    with_dtype += by_index.dtype >= 0 ? 1 : 0;
  }
  EXPECT_EQ(with_dtype, 7U) << "as many as there are dtypes";
  tern_stored_type_info info = TERN_STORED_TYPE_INFO_INIT;
  EXPECT_FAILS(tern_stored_type_get(tern_stored_type_count(), &info), TERN_INVALID_ARGUMENT, "index is");
  EXPECT_FAILS(tern_stored_type_find("none", &info), TERN_INVALID_ARGUMENT, "'none' is not one of");
  char shown[16];
  EXPECT_EQ(tern_escape("a\x1b", shown, sizeof(shown), &bytes), TERN_OK);
  EXPECT_STREQ(shown, "a\\x1b");
  tern_container container = TERN_CONTAINER_SAFETENSORS;
  EXPECT_EQ(tern_container_parse("gguf", &container), TERN_OK);
  EXPECT_EQ(container, TERN_CONTAINER_GGUF);
}

TEST(CCheckpointNull, IsRefusedByName) {
  tern_metadata* metadata = nullptr;
  ASSERT_EQ(tern_metadata_create(&metadata), TERN_OK);
  const MetadataHandle owner(metadata);
  ASSERT_EQ(tern_metadata_set_text(metadata, "k", nullptr, 0), TERN_OK);
  const char* text = nullptr;
  const void* data = nullptr;
  std::size_t size = 0;
  std::int64_t whole = 0;
  double number = 0;
  tern_meta_kind kind = TERN_META_U8;
  tern_stored_type_info type = TERN_STORED_TYPE_INFO_INIT;
  tern_container container = TERN_CONTAINER_GGUF;
  tern_checkpoint* checkpoint = nullptr;
  tern_checkpoint_writer* writer = nullptr;
  const tern_checkpoint_info* info = nullptr;
  const tern_stored_tensor* tensor = nullptr;
  const tern_metadata* read = nullptr;
  tern_checkpoint_close(nullptr);
  tern_checkpoint_writer_destroy(nullptr);
  tern_metadata_destroy(nullptr);
#define EXPECT_NULL(call, parameter) EXPECT_FAILS(call, TERN_INVALID_ARGUMENT, parameter " is NULL")
  EXPECT_NULL(tern_container_parse(nullptr, &container), "text");
  EXPECT_NULL(tern_stored_type_get(0, nullptr), "out");
  EXPECT_NULL(tern_stored_type_find(nullptr, &type), "name");
  EXPECT_NULL(tern_stored_type_find("F32", nullptr), "out");
  EXPECT_NULL(tern_stored_bytes(nullptr, 0, nullptr, &size), "type");
  EXPECT_NULL(tern_stored_bytes("F32", 1, nullptr, &size), "shape");
  EXPECT_NULL(tern_stored_bytes("F32", 0, nullptr, nullptr), "out");
  EXPECT_NULL(tern_escape(nullptr, nullptr, 0, &size), "text");
  EXPECT_NULL(tern_escape("", nullptr, 0, nullptr), "length");
  EXPECT_NULL(tern_metadata_create(nullptr), "out");
  EXPECT_NULL(tern_metadata_count(nullptr, &size), "metadata");
  EXPECT_NULL(tern_metadata_count(metadata, nullptr), "out");
  EXPECT_NULL(tern_metadata_entry(nullptr, 0, &text, &kind), "metadata");
  EXPECT_NULL(tern_metadata_entry(metadata, 0, nullptr, &kind), "key");
  EXPECT_NULL(tern_metadata_entry(metadata, 0, &text, nullptr), "kind");
  EXPECT_NULL(tern_metadata_find(nullptr, "k", &whole), "metadata");
  EXPECT_NULL(tern_metadata_find(metadata, nullptr, &whole), "key");
  EXPECT_NULL(tern_metadata_find(metadata, "k", nullptr), "index");
  EXPECT_NULL(tern_metadata_get_text(nullptr, "k", &text, &size), "metadata");
  EXPECT_NULL(tern_metadata_get_text(metadata, nullptr, &text, &size), "key");
  EXPECT_NULL(tern_metadata_get_text(metadata, "k", nullptr, &size), "text");
  EXPECT_NULL(tern_metadata_get_integer(metadata, "k", nullptr), "out");
  EXPECT_NULL(tern_metadata_get_number(nullptr, "k", &number), "metadata");
  EXPECT_NULL(tern_metadata_get_array(metadata, "k", &kind, nullptr, &size), "elements");
  EXPECT_NULL(tern_metadata_get_array_text(metadata, "k", 0, &text, nullptr), "bytes");
  EXPECT_NULL(tern_metadata_get_json(metadata, "k", 1, nullptr, 0, nullptr), "length");
  EXPECT_NULL(tern_metadata_get_json(metadata, "k", 1, nullptr, 1, &size), "buffer");
  EXPECT_NULL(tern_metadata_set_text(nullptr, "k", "", 0), "metadata");
  EXPECT_NULL(tern_metadata_set_text(metadata, nullptr, "", 0), "key");
  EXPECT_NULL(tern_metadata_set_text(metadata, "k", nullptr, 1), "text");
  EXPECT_NULL(tern_metadata_set_integer(nullptr, "k", TERN_META_U8, 1), "metadata");
  EXPECT_NULL(tern_metadata_set_number(metadata, nullptr, TERN_META_F32, 1), "key");
  EXPECT_NULL(tern_metadata_set_array(nullptr, "k", TERN_META_U8, nullptr, 0), "metadata");
  EXPECT_NULL(tern_metadata_set_texts(metadata, "k", nullptr, 1), "texts");
  EXPECT_NULL(tern_metadata_set_texts(metadata, "k", &text, 1), "one of texts");
  EXPECT_NULL(tern_checkpoint_open(nullptr, nullptr, &checkpoint), "path");
  EXPECT_NULL(tern_checkpoint_open("x", nullptr, nullptr), "out");
  EXPECT_NULL(tern_checkpoint_get_info(nullptr, &info), "checkpoint");
  EXPECT_NULL(tern_checkpoint_file(nullptr, 0, &text, &size), "checkpoint");
  EXPECT_NULL(tern_checkpoint_note(nullptr, 0, &text), "checkpoint");
  EXPECT_NULL(tern_checkpoint_metadata(nullptr, &read), "checkpoint");
  EXPECT_NULL(tern_checkpoint_metadata(nullptr, nullptr), "out");
  EXPECT_NULL(tern_checkpoint_tensor(nullptr, 0, &tensor), "checkpoint");
  EXPECT_NULL(tern_checkpoint_find(nullptr, "w", &whole), "checkpoint");
  EXPECT_NULL(tern_checkpoint_data(nullptr, 0, &data, &size), "checkpoint");
  EXPECT_NULL(tern_checkpoint_release(nullptr, 0, 0, 0), "checkpoint");
  EXPECT_NULL(tern_checkpoint_writer_create(nullptr, TERN_CONTAINER_GGUF, nullptr, nullptr, 0, &writer), "path");
  EXPECT_NULL(tern_checkpoint_writer_create("x", TERN_CONTAINER_GGUF, nullptr, nullptr, 0, nullptr), "out");
  EXPECT_NULL(tern_checkpoint_writer_tensor(nullptr, 0, &tensor), "writer");
  EXPECT_NULL(tern_checkpoint_writer_file_bytes(nullptr, &size), "writer");
  EXPECT_NULL(tern_checkpoint_writer_write(nullptr, nullptr, 0), "writer");
  EXPECT_NULL(tern_checkpoint_writer_skip(nullptr), "writer");
  EXPECT_NULL(tern_checkpoint_writer_fill(nullptr, 0, nullptr, 0), "writer");
  EXPECT_NULL(tern_checkpoint_writer_replace_metadata(nullptr, metadata), "writer");
  EXPECT_NULL(tern_checkpoint_writer_finish(nullptr), "writer");
#undef EXPECT_NULL
}

}  // namespace
}  // namespace tern::c_test
