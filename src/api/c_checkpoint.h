// The handles of checkpoints and metadata, which models hold as well.
#pragma once

#include <optional>

#include "api/c_abi.h"

struct tern_metadata {
  tern::Metadata entries;
};

namespace tern::c {

tern_stored_tensor face_of(const StoredTensor& tensor);  // points into the tensor
Result<std::span<const std::int64_t>> to_sizes(const char* where, const char* field, std::int32_t rank,
                                               const std::int64_t* shape);  // of any rank
inline std::int64_t place_or_none(std::optional<std::size_t> place) {
  return place ? static_cast<std::int64_t>(*place) : -1;
}
Result<OpenOptions> to_open_options(const char* where, const char* const* gguf_types, std::size_t gguf_type_count);

}  // namespace tern::c

struct tern_checkpoint {
  explicit tern_checkpoint(tern::Checkpoint from);
  tern_checkpoint(const tern_checkpoint&) = delete;
  tern_checkpoint& operator=(const tern_checkpoint&) = delete;

  tern::Checkpoint checkpoint;
  tern_metadata metadata;
  std::vector<std::string> notes;
  std::vector<tern_stored_tensor> tensors;
  tern_checkpoint_info info{};
};
