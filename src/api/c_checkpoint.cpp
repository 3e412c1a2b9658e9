// The C ABI: what options and tensors of checkpoints are in C++, and checkpoints as they are written.
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

Result<std::vector<KernelTiles>> to_tiles(const char* kernel_config) {
  if (kernel_config == nullptr) return std::vector<KernelTiles>();
  return parse_kernel_config(kernel_config);
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

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

}  // namespace

tern_status tern_checkpoint_writer_create(const char* path, tern_container container, const tern_metadata* metadata,
                                          const tern_stored_tensor* tensors, size_t tensor_count,
                                          tern_checkpoint_writer** out) {
  return guarded("tern_checkpoint_writer_create", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"path", path}}));
    TERN_ASSIGN(cpp_container, to_enum(where, "container", container, kLastContainer));
    TERN_ASSIGN(cpp_tensors, to_tensors(where, tensors, tensor_count));
    return put(out, CheckpointWriter::create(path, cpp_container, metadata ? metadata->entries : Metadata(),
                                             std::move(cpp_tensors)));
  });
}
