// The C ABI: files.
#include <system_error>

#include "api/c_abi.h"

namespace tern::c {
namespace {

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

}  // namespace
}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

struct tern_npy {
  NpyFile file;
};

tern_status tern_npy_open(const char* path, tern_npy** out) {
  return guarded("tern_npy_open", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"path", path}}));
    TERN_ASSIGN(file, NpyFile::open(path));
    *out = new tern_npy{std::move(file)};
    return {};
  });
}

tern_status tern_npy_open_raw(const char* path, tern_dtype dtype, const int64_t* shape, int rank, tern_npy** out) {
  return guarded("tern_npy_open_raw", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"path", path}, {"shape", shape}}));
    TERN_ASSIGN(cpp_dtype, to_enum(where, "dtype", dtype, kLastDType));
    TERN_ASSIGN(cpp_shape, to_shape(where, "shape", rank, shape));
    TERN_ASSIGN(file, NpyFile::open_raw(path, cpp_dtype, cpp_shape));
    *out = new tern_npy{std::move(file)};
    return {};
  });
}

tern_status tern_npy_get_view(const tern_npy* npy, tern_tensor_view* out) {
  return guarded("tern_npy_get_view", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"npy", npy}, {"out", out}}));
    *out = from_view(npy->file.view());
    return {};
  });
}

void tern_npy_close(tern_npy* npy) { delete npy; }

tern_status tern_save_npy(const char* path, const tern_tensor_view* tensor, tern_progress_fn progress,
                          void* progress_user) {
  return guarded("tern_save_npy", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"path", path}, {"tensor", tensor}}));
    TERN_ASSIGN(view, to_view(where, "tensor", *tensor));
    return save_npy(path, view, adapt(progress, progress_user));
  });
}

tern_status tern_save_raw(const char* path, const tern_tensor_view* tensor, tern_progress_fn progress,
                          void* progress_user) {
  return guarded("tern_save_raw", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"path", path}, {"tensor", tensor}}));
    TERN_ASSIGN(view, to_view(where, "tensor", *tensor));
    return save_raw(path, view, adapt(progress, progress_user));
  });
}

tern_status tern_save_quantized(const char* path, const tern_quantized* quantized, tern_progress_fn progress,
                                void* progress_user) {
  return guarded("tern_save_quantized", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"path", path}, {"quantized", quantized}}));
    return save_quantized(path, quantized->tensor, adapt(progress, progress_user));
  });
}

tern_status tern_write_npy(tern_write_fn writer, void* writer_user, const tern_tensor_view* tensor,
                           tern_progress_fn progress, void* progress_user) {
  return guarded("tern_write_npy", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"writer", reinterpret_cast<const void*>(writer)}, {"tensor", tensor}}));
    TERN_ASSIGN(view, to_view(where, "tensor", *tensor));
    return write_npy(adapt(writer, writer_user, where), view, adapt(progress, progress_user));
  });
}

tern_status tern_write_raw(tern_write_fn writer, void* writer_user, const tern_tensor_view* tensor,
                           tern_progress_fn progress, void* progress_user) {
  return guarded("tern_write_raw", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"writer", reinterpret_cast<const void*>(writer)}, {"tensor", tensor}}));
    TERN_ASSIGN(view, to_view(where, "tensor", *tensor));
    return write_raw(adapt(writer, writer_user, where), view, adapt(progress, progress_user));
  });
}

tern_status tern_write_quantized(tern_write_fn writer, void* writer_user, const tern_quantized* quantized,
                                 tern_progress_fn progress, void* progress_user) {
  return guarded("tern_write_quantized", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(
        not_null(where, {{"writer", reinterpret_cast<const void*>(writer)}, {"quantized", quantized}}));
    return write_quantized(adapt(writer, writer_user, where), quantized->tensor, adapt(progress, progress_user));
  });
}

tern_status tern_load_quantized(const tern_context* context, const char* path, tern_quantized** out) {
  return guarded("tern_load_quantized", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"path", path}}));
    TERN_ASSIGN(quantized, load_quantized(path, host_memory_of(*context)));
    return make_quantized(std::move(quantized), out);
  });
}
