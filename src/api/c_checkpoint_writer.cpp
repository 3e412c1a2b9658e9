// The C ABI: checkpoints as they are written.
#include "api/c_checkpoint.h"

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

struct tern_checkpoint_writer {
  CheckpointWriter writer;
  std::vector<tern_stored_tensor> tensors = {};
};

namespace {

Result<std::vector<StoredTensor>> to_tensors(const char* where, const tern_stored_tensor* tensors,
                                             std::size_t tensor_count) {
  if (tensors == nullptr && tensor_count != 0)
    return error(Code::invalid_argument, where, "tensors is NULL but tensor_count is {}", tensor_count);
  std::vector<StoredTensor> all;
  for (std::size_t i = 0; i < tensor_count; ++i) {
    TERN_ASSIGN(given, read_element(where, "tensors", tensors, i));
    TERN_RETURN_IF_ERROR(not_null(where, {{"the name of a tensor", given.name}, {"the type of a tensor", given.type}}));
    TERN_ASSIGN(type, parse_stored_type(given.type));
    TERN_ASSIGN(sizes, to_sizes(where, "tensors->shape", given.rank, given.shape));
    all.push_back({.name = given.name,
                   .type = type,
                   .shape = {sizes.begin(), sizes.end()},
                   .bytes = given.bytes,
                   .gguf_id = given.gguf_id});
  }
  return all;
}

// Checks the handle, then calls act(where, writer).
template <class Act>
tern_status with(const char* entry, tern_checkpoint_writer* writer, Act act) {
  return guarded(entry, [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"writer", writer}}));
    return act(where, writer->writer);
  });
}

}  // namespace

tern_status tern_checkpoint_writer_create(const char* path, tern_container container, const tern_metadata* metadata,
                                          const tern_stored_tensor* tensors, size_t tensor_count,
                                          tern_checkpoint_writer** out) {
  return guarded("tern_checkpoint_writer_create", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"path", path}}));
    TERN_ASSIGN(cpp_container, to_enum(where, "container", container, kLastContainer));
    TERN_ASSIGN(cpp_tensors, to_tensors(where, tensors, tensor_count));
    TERN_ASSIGN(writer, CheckpointWriter::create(path, cpp_container, metadata ? metadata->entries : Metadata(),
                                                 std::move(cpp_tensors)));
    auto made = std::make_unique<tern_checkpoint_writer>(tern_checkpoint_writer{std::move(writer)});
    for (const StoredTensor& tensor : made->writer.tensors()) made->tensors.push_back(face_of(tensor));
    *out = made.release();
    return {};
  });
}

tern_status tern_checkpoint_writer_tensor(const tern_checkpoint_writer* writer, size_t index,
                                          const tern_stored_tensor** out) {
  return hand_out("tern_checkpoint_writer_tensor", "writer", writer, &tern_checkpoint_writer::tensors, index, out);
}

tern_status tern_checkpoint_writer_file_bytes(const tern_checkpoint_writer* writer, size_t* out) {
  return guarded("tern_checkpoint_writer_file_bytes", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"writer", writer}, {"out", out}}));
    *out = writer->writer.file_bytes();
    return {};
  });
}

tern_status tern_checkpoint_writer_write(tern_checkpoint_writer* writer, const void* bytes, size_t byte_count) {
  return with("tern_checkpoint_writer_write", writer, [&](const char* where, CheckpointWriter& cpp) -> Status {
    TERN_ASSIGN(piece, to_array<const std::uint8_t>(where, "bytes", bytes, "byte_count", byte_count));
    return cpp.write(piece);
  });
}

tern_status tern_checkpoint_writer_skip(tern_checkpoint_writer* writer) {
  return with("tern_checkpoint_writer_skip", writer,
              [](const char*, CheckpointWriter& cpp) -> Status { return cpp.skip(); });
}

tern_status tern_checkpoint_writer_fill(tern_checkpoint_writer* writer, size_t index, const void* bytes,
                                        size_t byte_count) {
  return with("tern_checkpoint_writer_fill", writer, [&](const char* where, CheckpointWriter& cpp) -> Status {
    TERN_RETURN_IF_ERROR(check_index(where, index, cpp.tensors().size()));
    TERN_ASSIGN(piece, to_array<const std::uint8_t>(where, "bytes", bytes, "byte_count", byte_count));
    return cpp.fill(index, piece);
  });
}

tern_status tern_checkpoint_writer_replace_metadata(tern_checkpoint_writer* writer, const tern_metadata* metadata) {
  return with("tern_checkpoint_writer_replace_metadata", writer,
              [&](const char* where, CheckpointWriter& cpp) -> Status {
                TERN_RETURN_IF_ERROR(not_null(where, {{"metadata", metadata}}));
                return cpp.replace_metadata(metadata->entries);
              });
}

tern_status tern_checkpoint_writer_finish(tern_checkpoint_writer* writer) {
  return with("tern_checkpoint_writer_finish", writer,
              [](const char*, CheckpointWriter& cpp) -> Status { return cpp.finish(); });
}

void tern_checkpoint_writer_destroy(tern_checkpoint_writer* writer) { delete writer; }
