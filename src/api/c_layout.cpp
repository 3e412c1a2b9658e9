// The C ABI: other projects' layouts of weights.
#include "api/c_abi.h"

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

namespace {

// Bytes may be NULL where there are none.
Status check_bytes(const char* where, const void* bytes, std::size_t byte_count) {
  if (bytes == nullptr && byte_count != 0)
    return error(Code::invalid_argument, where, "bytes is NULL but byte_count is {}", byte_count);
  return {};
}

}  // namespace

tern_status tern_layout_bytes(tern_layout layout, int64_t n, int64_t k, size_t* out) {
  return guarded("tern_layout_bytes", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"out", out}}));
    TERN_ASSIGN(cpp_layout, to_enum(where, "layout", layout, kLastLayout));
    TERN_ASSIGN(bytes, layout_bytes(cpp_layout, n, k));
    *out = bytes;
    return {};
  });
}

tern_status tern_import_codes(tern_layout layout, const void* bytes, size_t byte_count, int64_t n, int64_t k,
                              const tern_tensor_view* codes) {
  return guarded("tern_import_codes", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"codes", codes}}));
    TERN_RETURN_IF_ERROR(check_bytes(where, bytes, byte_count));
    TERN_ASSIGN(cpp_layout, to_enum(where, "layout", layout, kLastLayout));
    TERN_ASSIGN(cpp_codes, to_view(where, "codes", *codes));
    return import_codes(cpp_layout, {static_cast<const std::uint8_t*>(bytes), byte_count}, n, k, cpp_codes);
  });
}

tern_status tern_export_codes(tern_layout layout, const tern_tensor_view* codes, int64_t n, int64_t k, void* bytes,
                              size_t byte_count) {
  return guarded("tern_export_codes", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"codes", codes}}));
    TERN_RETURN_IF_ERROR(check_bytes(where, bytes, byte_count));
    TERN_ASSIGN(cpp_layout, to_enum(where, "layout", layout, kLastLayout));
    TERN_ASSIGN(cpp_codes, to_view(where, "codes", *codes));
    return export_codes(cpp_layout, cpp_codes, n, k, {static_cast<std::uint8_t*>(bytes), byte_count});
  });
}
