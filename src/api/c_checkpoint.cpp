// The C ABI: checkpoints as they are read, and the types of their tensors.
#include "api/c_handles.h"

namespace tern::c {
Result<std::span<const std::int64_t>> to_sizes(const char* where, const char* field, std::int32_t rank,
                                               const std::int64_t* shape) {
  if (rank < 0) return error(Code::invalid_argument, where, "the rank of {} is {}", field, rank);
  return to_array<const std::int64_t>(where, field, shape, "its rank", static_cast<std::size_t>(rank));
}

Result<std::vector<StoredType>> to_gguf_types(const char* where, const char* const* names, std::size_t count) {
  TERN_ASSIGN(given,
              to_array<const char* const>(where, "options->gguf_types", names, "options->gguf_type_count", count));
  std::vector<StoredType> types;
  for (const char* name : given) {
    TERN_RETURN_IF_ERROR(not_null(where, {{"one of options->gguf_types", name}}));
    TERN_ASSIGN(type, parse_stored_type(name));
    types.push_back(type);
  }
  return types;
}

tern_stored_type_info face_of(StoredType type) { return face_of(info(type)); }

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_checkpoint::tern_checkpoint(Checkpoint from)
    : checkpoint(std::move(from)),
      metadata{checkpoint.metadata()},
      notes(checkpoint.notes().begin(), checkpoint.notes().end()),
      info(face_of(checkpoint)) {
  tensors.reserve(checkpoint.tensors().size());
  for (const StoredTensor& tensor : checkpoint.tensors()) tensors.push_back(face_of(tensor));
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
