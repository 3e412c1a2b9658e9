// The C ABI: files, and what calls that take long report.
#include <system_error>

#include "api/c_handles.h"

namespace tern::c {
Progress adapt(tern_progress_fn progress, void* user) {
  if (progress == nullptr) return {};
  return [progress, user](std::size_t done_bytes, std::size_t total_bytes) { progress(user, done_bytes, total_bytes); };
}

ByteWriter adapt(tern_write_fn writer, void* user, const char* where) {
  return [writer, user, where](std::span<const std::uint8_t> bytes) -> Status {
    const std::int32_t number = writer(user, bytes.data(), bytes.size());
    if (number == 0) return {};
    return error(Code::io_error, where, "the writer took no more: {}", std::generic_category().message(number));
  };
}

// Also stops if the caller's parallel-for failed, so that an incomplete file never gets its final name.
ModelProgress adapt(const ParallelForWatch& watch, tern_model_progress_fn progress, void* user) {
  return [&watch, progress, user](std::string_view tensor, std::size_t done_bytes, std::size_t total_bytes) {
    if (!watch.status("").ok()) return false;
    return progress == nullptr || progress(user, std::string(tensor).c_str(), done_bytes, total_bytes) != 0;
  };
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_npy_open_raw(const char* path, tern_dtype dtype, const int64_t* shape, int rank, tern_npy** out) {
  return guarded("tern_npy_open_raw", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"path", path}, {"shape", shape}}));
    TERN_ASSIGN(cpp_dtype, to_enum(where, "dtype", dtype, kLastDType));
    TERN_ASSIGN(cpp_shape, to_shape(where, "shape", rank, shape));
    return put(out, NpyFile::open_raw(path, cpp_dtype, cpp_shape));
  });
}
