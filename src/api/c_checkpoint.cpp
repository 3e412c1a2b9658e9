// The C ABI: checkpoints as they are read, and the types of their tensors.
#include "api/c_checkpoint.h"

namespace tern::c {
namespace {

tern_stored_type_info from_type(const StoredTypeInfo& type) {
  return {.struct_size = sizeof(tern_stored_type_info),
          .name = type.name.data(),
          .block_elements = type.block_elements,
          .block_bytes = type.block_bytes,
          .gguf_id = type.gguf_id,
          .in_safetensors = type.in_safetensors ? 1 : 0,
          .dtype = type.dtype ? static_cast<std::int32_t>(*type.dtype) : -1};
}

}  // namespace

tern_stored_tensor face_of(const StoredTensor& tensor) {
  return {.struct_size = sizeof(tern_stored_tensor),
          .name = tensor.name.c_str(),
          .type = name(tensor.type).data(),
          .shape = tensor.shape.data(),
          .rank = static_cast<std::int32_t>(tensor.shape.size()),
          .gguf_id = tensor.gguf_id,
          .bytes = tensor.bytes};
}

Result<std::span<const std::int64_t>> to_sizes(const char* where, const char* field, std::int32_t rank,
                                               const std::int64_t* shape) {
  if (rank < 0) return error(Code::invalid_argument, where, "the rank of {} is {}", field, rank);
  return to_array<const std::int64_t>(where, field, shape, "its rank", static_cast<std::size_t>(rank));
}

Result<OpenOptions> to_open_options(const char* where, const char* const* gguf_types, std::size_t gguf_type_count) {
  TERN_ASSIGN(names, to_array<const char* const>(where, "options->gguf_types", gguf_types, "options->gguf_type_count",
                                                 gguf_type_count));
  OpenOptions options;
  for (const char* name : names) {
    TERN_RETURN_IF_ERROR(not_null(where, {{"one of options->gguf_types", name}}));
    TERN_ASSIGN(type, parse_stored_type(name));
    options.gguf_types.push_back(type);
  }
  return options;
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_checkpoint::tern_checkpoint(Checkpoint from)
    : checkpoint(std::move(from)),
      metadata{checkpoint.metadata()},
      notes(checkpoint.notes().begin(), checkpoint.notes().end()),
      info{.struct_size = sizeof(tern_checkpoint_info),
           .container = static_cast<tern_container>(checkpoint.container()),
           .path = checkpoint.path().c_str(),
           .file_count = checkpoint.files().size(),
           .tensor_count = checkpoint.tensors().size(),
           .note_count = notes.size(),
           .total_bytes = checkpoint.total_bytes()} {
  tensors.reserve(checkpoint.tensors().size());
  for (const StoredTensor& tensor : checkpoint.tensors()) tensors.push_back(face_of(tensor));
}

size_t tern_stored_type_count(void) { return stored_types().size(); }

tern_status tern_stored_type_get(size_t index, tern_stored_type_info* out) {
  return guarded("tern_stored_type_get", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"out", out}}));
    TERN_RETURN_IF_ERROR(check_struct_size(where, "out", out));
    TERN_RETURN_IF_ERROR(check_index(where, index, stored_types().size()));
    write_struct(from_type(stored_types()[index]), out);
    return {};
  });
}

tern_status tern_stored_type_find(const char* name, tern_stored_type_info* out) {
  return guarded("tern_stored_type_find", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"name", name}, {"out", out}}));
    TERN_RETURN_IF_ERROR(check_struct_size(where, "out", out));
    TERN_ASSIGN(type, parse_stored_type(name));
    write_struct(from_type(info(type)), out);
    return {};
  });
}

tern_status tern_stored_bytes(const char* type, int32_t rank, const int64_t* shape, size_t* out) {
  return guarded("tern_stored_bytes", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"type", type}, {"out", out}}));
    TERN_ASSIGN(cpp_type, parse_stored_type(type));
    TERN_ASSIGN(sizes, to_sizes(where, "shape", rank, shape));
    TERN_ASSIGN(bytes, stored_bytes(cpp_type, sizes));
    *out = bytes;
    return {};
  });
}

tern_status tern_escape(const char* text, char* buffer, size_t buffer_bytes, size_t* length) {
  return guarded("tern_escape", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"text", text}, {"length", length}}));
    return write_text(where, escaped(text, SIZE_MAX), buffer, buffer_bytes, length);
  });
}

tern_status tern_checkpoint_open(const char* path, const tern_open_options* options, tern_checkpoint** out) {
  return guarded("tern_checkpoint_open", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"path", path}}));
    TERN_ASSIGN(given, read_struct(where, "options", options));
    TERN_ASSIGN(cpp_options, to_open_options(where, given.gguf_types, given.gguf_type_count));
    TERN_ASSIGN(checkpoint, Checkpoint::open(path, cpp_options));
    *out = new tern_checkpoint(std::move(checkpoint));
    return {};
  });
}

void tern_checkpoint_close(tern_checkpoint* checkpoint) { delete checkpoint; }

tern_status tern_checkpoint_get_info(const tern_checkpoint* checkpoint, const tern_checkpoint_info** out) {
  return hand_out("tern_checkpoint_get_info", "checkpoint", checkpoint, &tern_checkpoint::info, out);
}

tern_status tern_checkpoint_file(const tern_checkpoint* checkpoint, size_t index, const char** path, size_t* bytes) {
  return guarded("tern_checkpoint_file", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"checkpoint", checkpoint}, {"path", path}, {"bytes", bytes}}));
    TERN_RETURN_IF_ERROR(check_index(where, index, checkpoint->checkpoint.files().size()));
    const CheckpointFile& file = checkpoint->checkpoint.files()[index];
    *path = file.path.c_str();
    *bytes = file.bytes;
    return {};
  });
}

tern_status tern_checkpoint_note(const tern_checkpoint* checkpoint, size_t index, const char** out) {
  return hand_out("tern_checkpoint_note", "checkpoint", checkpoint, &tern_checkpoint::notes, index, out);
}

tern_status tern_checkpoint_metadata(const tern_checkpoint* checkpoint, const tern_metadata** out) {
  return hand_out("tern_checkpoint_metadata", "checkpoint", checkpoint, &tern_checkpoint::metadata, out);
}

tern_status tern_checkpoint_tensor(const tern_checkpoint* checkpoint, size_t index, const tern_stored_tensor** out) {
  return hand_out("tern_checkpoint_tensor", "checkpoint", checkpoint, &tern_checkpoint::tensors, index, out);
}

tern_status tern_checkpoint_find(const tern_checkpoint* checkpoint, const char* name, int64_t* index) {
  return guarded("tern_checkpoint_find", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"checkpoint", checkpoint}, {"name", name}, {"index", index}}));
    *index = place_or_none(checkpoint->checkpoint.find(name));
    return {};
  });
}

tern_status tern_checkpoint_data(const tern_checkpoint* checkpoint, size_t index, const void** data, size_t* bytes) {
  return guarded("tern_checkpoint_data", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"checkpoint", checkpoint}, {"data", data}, {"bytes", bytes}}));
    TERN_RETURN_IF_ERROR(check_index(where, index, checkpoint->tensors.size()));
    const auto found = checkpoint->checkpoint.data(index);
    *data = found.data();
    *bytes = found.size();
    return {};
  });
}

tern_status tern_checkpoint_release(const tern_checkpoint* checkpoint, size_t index, size_t offset_bytes,
                                    size_t bytes) {
  return guarded("tern_checkpoint_release", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"checkpoint", checkpoint}}));
    TERN_RETURN_IF_ERROR(check_index(where, index, checkpoint->tensors.size()));
    checkpoint->checkpoint.release(index, offset_bytes, bytes);
    return {};
  });
}
