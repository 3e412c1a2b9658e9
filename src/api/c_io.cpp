// The C ABI: files.
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
