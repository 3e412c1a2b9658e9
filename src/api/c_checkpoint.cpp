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
